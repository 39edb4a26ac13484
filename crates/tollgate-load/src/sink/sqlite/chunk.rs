//! The open transaction of a load.

use tollgate_log::{Gap, LogId, Position, Sequence};

use super::parents::Parents;
use crate::sink::refusals::Refusals;
use crate::sink::tally::Counts;

/// An open transaction.
pub(super) struct SqliteChunk {
    pub(super) log: LogId,
    pub(super) log_text: String,
    pub(super) expected: Option<Position>,
    pub(super) start: Option<Sequence>,
    /// The gap that it fills. `None` if it moves the position.
    pub(super) filled: Option<Gap>,
    pub(super) counts: Counts,
    pub(super) bytes: u64,
    pub(super) missing: u64,
    pub(super) refusals: Refusals,
    /// Tables that have triggers.
    pub(super) triggered: Vec<String>,
    pub(super) parents: Parents,
    pub(super) tables_met: usize,
}

impl SqliteChunk {
    pub(super) fn saw(&mut self, first: Sequence) {
        self.start.get_or_insert(first.before());
    }
}

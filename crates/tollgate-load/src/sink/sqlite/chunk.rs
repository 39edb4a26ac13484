//! The open transaction of a load.

use tollgate_log::{Gap, LogId, Position, RecordBatch, Sequence};

use super::parents::Parents;
use crate::sink::refusals::Refusals;
use crate::sink::tally::StreamTallies;

/// State of an open transaction.
pub(super) struct SqliteChunk {
    pub(super) log: LogId,
    pub(super) log_text: String,
    pub(super) expected: Option<Position>,
    pub(super) start: Option<Sequence>,
    /// The name of the machine that wrote the log, as soon as a batch has it.
    pub(super) node: Option<String>,
    /// The gap that it fills. `None` if it moves the position.
    pub(super) filled: Option<Gap>,
    pub(super) counts: StreamTallies,
    pub(super) bytes: u64,
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

    /// Notes the first record, the segment and the machine of a batch.
    pub(super) fn enter(&mut self, batch: &RecordBatch<'_>) {
        self.saw(batch.first());
        self.refusals.enter(batch.segment());
        self.bytes += batch.bytes() as u64;
        if self.node.is_none() && !batch.node().is_empty() {
            self.node = Some(batch.node().to_owned());
        }
    }
}

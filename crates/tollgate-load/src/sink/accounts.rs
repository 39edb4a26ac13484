//! What the bookkeeping of a sink says about the logs, in any database.

use std::collections::BTreeMap;

use tollgate_log::{LogId, Position, Sequence};

/// The layout of the bookkeeping tables, which the database keeps. A program that finds another layout leaves
/// it alone.
pub(super) const BOOKKEEPING_VERSION: i64 = 1;

/// What a sink says about one log.
#[derive(Debug, Clone)]
pub(crate) struct LogCounts {
    pub(crate) log: LogId,
    /// The record before the first that the sink was given.
    pub(crate) start: Sequence,
    pub(crate) position: Position,
    pub(crate) streams: BTreeMap<String, StreamCounts>,
}

/// What a sink has of one stream of one log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StreamCounts {
    pub(crate) loaded: u64,
    pub(crate) rejected: u64,
    pub(crate) duplicates: u64,
    /// Records that were passed while the sink did not take the stream.
    pub(crate) skipped: u64,
}

impl StreamCounts {
    /// What became of records that the sink takes.
    pub(crate) fn settled(&self) -> u64 {
        self.loaded.saturating_add(self.rejected).saturating_add(self.duplicates)
    }
}

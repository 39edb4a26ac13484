//! The bookkeeping of a sink about the logs, which is the same in every kind of database.

use std::collections::BTreeMap;

use tollgate_log::{Gap, LogId, Position, Sequence};

/// Version of the layout of the bookkeeping tables, as the database stores it. A program that finds another
/// version does not change the database.
pub(super) const BOOKKEEPING_VERSION: i64 = 1;

/// The bookkeeping of a sink about one log.
#[derive(Debug, Clone)]
pub(crate) struct LogCounts {
    pub(crate) log: LogId,
    /// Number of the last record before the start of the sink.
    pub(crate) start: Sequence,
    pub(crate) position: Position,
    /// The name of the machine that wrote the log, if it is known.
    pub(crate) node: Option<String>,
    pub(crate) streams: BTreeMap<String, StreamCounts>,
    /// The gaps of the log, in order.
    pub(crate) gaps: Vec<Gap>,
}

/// The bookkeeping of a sink about one stream of one log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StreamCounts {
    pub(crate) loaded: u64,
    pub(crate) rejected: u64,
    pub(crate) duplicates: u64,
    /// Number of records that the position passed while the sink did not take the stream.
    pub(crate) skipped: u64,
}

impl StreamCounts {
    /// Returns the number of records that became rows, rejects or duplicates.
    pub(crate) fn settled(&self) -> u64 {
        self.loaded.saturating_add(self.rejected).saturating_add(self.duplicates)
    }
}

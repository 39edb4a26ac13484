//! The account of one stream of one log.

use tollgate_log::LogId;

/// The account of one stream of one log in one sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Id of the log.
    pub log: LogId,
    /// The name of the machine that wrote the log: from its segments, or from the sink if they are gone.
    /// `None` if it is unknown.
    pub node: Option<String>,
    /// Name of the stream.
    pub stream: String,
    /// Number of records that were written.
    pub ingested: u64,
    /// Number of records after the position that a store has, and that the loader cannot load yet, because a
    /// segment before them is missing or cannot be read.
    pub shipped: u64,
    /// Number of records after the position, which are still to be loaded.
    pub pending: u64,
    /// Number of rows in the sink.
    pub loaded: u64,
    /// Number of rejects in the sink.
    pub rejected: u64,
    /// Number of duplicates: records whose key another record has. The sink only counted them.
    pub duplicates: u64,
    /// Number of records in gaps that an operator gave up by command.
    pub given_up: u64,
    /// Number of all other records, which are damaged or lost.
    pub missing: u64,
}

impl AuditRow {
    pub(super) fn empty(log: LogId, stream: &str) -> Self {
        let stream = stream.to_owned();
        Self {
            log,
            node: None,
            stream,
            ingested: 0,
            shipped: 0,
            pending: 0,
            loaded: 0,
            rejected: 0,
            duplicates: 0,
            given_up: 0,
            missing: 0,
        }
    }

    /// Returns the number of records that have a result in the sink.
    pub(super) fn settled(&self) -> u64 {
        self.loaded.saturating_add(self.rejected).saturating_add(self.duplicates)
    }

    /// Returns the number of records that the account has with any result.
    pub(super) fn accounted(&self) -> u64 {
        let parts = [self.shipped, self.pending, self.settled(), self.given_up, self.missing];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

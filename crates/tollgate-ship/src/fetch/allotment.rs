//! The contract between a fetcher and the code that spreads the logs of a store over several fetchers.

use std::collections::BTreeMap;

use tollgate_log::LogId;

/// State of a log that a fetcher could fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferedLog {
    /// No segment of the log is fetched and not loaded.
    Idle,
    /// Fetched segments of the log are not loaded yet.
    Busy,
}

/// Decides which logs a fetcher fetches.
///
/// The decision only spreads the work. Two fetchers may fetch one log, because the position in the database
/// decides which load counts.
pub trait Allotment: Send {
    /// Replaces the logs that the fetcher could fetch. A log that has ended is not offered once all sinks
    /// have loaded it, and once the store has their positions.
    fn offer(&mut self, logs: &BTreeMap<LogId, OfferedLog>);

    /// Returns whether the fetcher writes the positions of the sinks in this log to the store.
    fn holds(&self, log: LogId) -> bool;

    /// Returns whether the fetcher may fetch further segments of the log.
    fn may_fetch(&self, log: LogId) -> bool;

    /// Returns whether the fetcher may delete segments from the store.
    fn may_delete(&self) -> bool;

    /// Notes that the fetcher cannot fetch until its next offer.
    fn pause(&mut self);
}

/// The only fetcher of a store. It fetches all logs.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllLogs;

impl Allotment for AllLogs {
    fn offer(&mut self, _logs: &BTreeMap<LogId, OfferedLog>) {}

    fn holds(&self, _log: LogId) -> bool {
        true
    }

    fn may_fetch(&self, _log: LogId) -> bool {
        true
    }

    fn may_delete(&self) -> bool {
        true
    }

    fn pause(&mut self) {}
}

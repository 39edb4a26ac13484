//! The bookkeeping of a sink at one moment, for an audit whose segments come one after another from a store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tollgate_log::{LogId, Position, Sequence, Storage};

use super::account::{LogAccount, account};
use super::count::{Passed, RecordCounter, RecordsByStream};
use super::diverged::went_another_way;
use super::gap::{SinkGap, gaps_of};
use crate::error::SinkError;
use crate::sink::{LogCounts, SinkOptions, Taken};

/// The bookkeeping of a sink about all logs, at one moment.
#[derive(Debug, Clone)]
pub struct SinkAccount {
    logs: BTreeMap<LogId, LogCounts>,
    taken: Taken,
}

impl SinkAccount {
    /// Reads the bookkeeping, without changing the database. A missing database has none.
    ///
    /// # Errors
    /// The database exists and cannot be read.
    pub fn read(sink: &SinkOptions) -> Result<Self, SinkError> {
        let logs = sink.counts()?.into_iter().map(|counts| (counts.log, counts)).collect();
        Ok(Self { logs, taken: sink.taken.clone() })
    }

    /// Returns the logs of which the sink has a position, in order.
    pub fn logs(&self) -> impl Iterator<Item = LogId> {
        self.logs.keys().copied()
    }

    /// Returns the machine that wrote a log, if the sink knows it.
    pub fn node(&self, log: LogId) -> Option<&str> {
        self.logs.get(&log)?.node.as_deref()
    }

    /// Returns the position of the sink in a log. `None`: it loaded no record.
    pub fn position(&self, log: LogId) -> Option<Position> {
        self.logs.get(&log).map(|counts| counts.position)
    }

    /// Returns the last record before the start of the sink.
    pub fn start(&self, log: LogId) -> Sequence {
        self.logs.get(&log).map_or(Sequence(0), |counts| counts.start)
    }

    /// Returns the gaps of all logs, in order.
    pub fn gaps(&self) -> Vec<SinkGap> {
        self.logs.values().flat_map(gaps_of).collect()
    }

    /// Returns whether the segments of a log in `dir` are of another log than the sink loaded under this id.
    pub fn has_diverged(&self, storage: &Arc<dyn Storage>, dir: &Path, log: LogId) -> bool {
        self.position(log).is_some_and(|position| went_another_way(storage, dir, log, position))
    }

    /// Starts to count the records of a log.
    pub fn counter(&self, storage: Arc<dyn Storage>, log: LogId) -> RecordCounter {
        RecordCounter::new(storage, log, self.logs.get(&log).map_or_else(Passed::default, Passed::of))
    }

    /// Returns the account of a log with these records in segments.
    pub fn account(&self, log: LogId, records: &RecordsByStream) -> LogAccount {
        account(log, &self.taken, self.logs.get(&log), records)
    }
}

//! The number of records that may be loaded and are not loaded. Other threads count these records at any
//! time, also while the thread of the loader waits for the database. The count reads no disk.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_log::{LogId, Sequence, Watermark};

/// The part of one log that is not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Unloaded {
    /// The last record that the sink has. `None`: the sink has not answered yet.
    loaded: Option<Sequence>,
    /// The last record that was deleted. No loader waits for deleted records.
    deleted: Sequence,
    /// The last record that may be loaded.
    end: Sequence,
}

impl Unloaded {
    fn records(self) -> u64 {
        let before = self.loaded.unwrap_or_default().max(self.deleted);
        self.end.0.saturating_sub(before.0)
    }
}

/// A number of records that may be loaded and are not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UnloadedCount {
    pub(super) records: u64,
    /// Whether the sink has not yet told which of these records it has. The number then also contains records
    /// that earlier runs loaded.
    pub(super) is_bound: bool,
}

impl UnloadedCount {
    fn of(unloaded: Unloaded) -> Self {
        let records = unloaded.records();
        Self { records, is_bound: records > 0 && unloaded.loaded.is_none() }
    }

    fn plus(self, other: Self) -> Self {
        let records = self.records.saturating_add(other.records);
        Self { records, is_bound: self.is_bound || other.is_bound }
    }
}

/// The parts of all logs that are not loaded.
#[derive(Debug, Default)]
pub(super) struct UnloadedRecords {
    logs: BTreeMap<LogId, Unloaded>,
    /// Logs that are not loaded any further, so their records wait for nothing.
    stopped: BTreeSet<LogId>,
}

impl UnloadedRecords {
    /// Notes the last record of a log that the sink has, or that the loader leaves out.
    pub(super) fn passed(&mut self, log: LogId, last: Sequence) {
        self.logs.entry(log).or_default().loaded = Some(last);
    }

    /// Returns whether the sink has answered how far it has this log, or the log is not loaded any further.
    pub(super) fn knows(&self, log: LogId) -> bool {
        let is_known = self.logs.get(&log).is_some_and(|unloaded| unloaded.loaded.is_some());
        is_known || self.stopped.contains(&log)
    }

    /// Notes the first record of a log that is on disk, and the last one that may be loaded.
    pub(super) fn saw(&mut self, log: LogId, first: Sequence, end: Sequence) {
        let unloaded = self.logs.entry(log).or_default();
        (unloaded.deleted, unloaded.end) = (first.before(), end);
    }

    /// Forgets all logs but these.
    pub(super) fn retain(&mut self, is_kept: impl Fn(LogId) -> bool) {
        self.logs.retain(|log, _| is_kept(*log));
    }

    /// Leaves out a log that is not loaded any further.
    pub(super) fn stop(&mut self, log: LogId) {
        self.logs.remove(&log);
        self.stopped.insert(log);
    }

    /// Takes all stopped logs in again.
    pub(super) fn go_on(&mut self) {
        self.stopped.clear();
    }

    /// Counts the records. The live log may be loaded up to its watermark.
    pub(super) fn count(&self, live: Option<Watermark>) -> UnloadedCount {
        let live = live.filter(|live| !self.stopped.contains(&live.log));
        let of_live =
            live.map(|live| (live.log, self.logs.get(&live.log).copied().unwrap_or_default(), live));
        let of_live = of_live.map(|(log, unloaded, live)| (log, Unloaded { end: live.synced, ..unloaded }));
        let others = self.logs.iter().filter(|(log, _)| of_live.is_none_or(|(live, _)| live != **log));
        let all = others.map(|(_, unloaded)| *unloaded).chain(of_live.map(|(_, unloaded)| unloaded));
        all.map(UnloadedCount::of).fold(UnloadedCount::default(), UnloadedCount::plus)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn log(number: u128) -> LogId {
        Uuid::from_u128(number).to_string().parse().unwrap()
    }

    fn check(records: &UnloadedRecords, live: Option<Watermark>, expected: u64, is_bound: bool) {
        assert_eq!(records.count(live), UnloadedCount { records: expected, is_bound });
    }

    fn live(synced: u64) -> Option<Watermark> {
        Some(Watermark { log: log(2), synced: Sequence(synced) })
    }

    #[test]
    fn the_count_is_the_sum_of_all_logs_and_follows_the_watermark() {
        let mut records = UnloadedRecords::default();
        check(&records, None, 0, false);
        records.passed(log(1), Sequence(25));
        records.saw(log(1), Sequence(11), Sequence(30));
        check(&records, None, 5, false);
        records.passed(log(2), Sequence(6));
        check(&records, live(7), 6, false);
        records.saw(log(2), Sequence(1), Sequence(7));
        check(&records, live(9), 8, false);
        // Without a watermark, the last known end counts.
        check(&records, None, 6, false);
        // The sink may be ahead of a known watermark.
        records.passed(log(2), Sequence(9));
        check(&records, live(7), 5, false);
        records.retain(|known| known == log(2));
        check(&records, None, 0, false);
        check(&records, live(20), 11, false);
        // A stopped log waits for nothing.
        records.stop(log(2));
        check(&records, live(20), 0, false);
        records.go_on();
        check(&records, live(20), 20, true);
    }

    #[test]
    fn the_count_is_a_bound_until_the_sink_has_answered() {
        let mut records = UnloadedRecords::default();
        records.saw(log(1), Sequence(11), Sequence(30));
        check(&records, None, 20, true);
        check(&records, live(7), 27, true);
        records.passed(log(1), Sequence(25));
        check(&records, live(7), 12, true);
        assert!(records.knows(log(1)) && !records.knows(log(2)));
        records.passed(log(2), Sequence(0));
        assert!(records.knows(log(2)));
        check(&records, live(7), 12, false);
        records.passed(log(1), Sequence(0));
        check(&records, live(0), 20, false);
    }
}

//! The number of records that may be loaded and are not loaded. Other threads count these records at any
//! time, also while the thread of the loader waits for the database. The count reads no disk.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_log::{LogId, Sequence, Watermark};

/// The part of one log that is not loaded: the records after `loaded`, up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Unloaded {
    loaded: Sequence,
    end: Sequence,
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
        self.logs.entry(log).or_default().loaded = last;
    }

    /// Notes the first record of a log that is on disk, and the last one that may be loaded.
    pub(super) fn saw(&mut self, log: LogId, first: Sequence, end: Sequence) {
        let unloaded = self.logs.entry(log).or_default();
        unloaded.end = end;
        // Records before the first one on disk were deleted, so no loader waits for them.
        unloaded.loaded = unloaded.loaded.max(first.before());
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
    pub(super) fn count(&self, live: Option<Watermark>) -> u64 {
        let live = live.filter(|live| !self.stopped.contains(&live.log));
        let of_live =
            live.map(|live| (live.log, self.logs.get(&live.log).copied().unwrap_or_default(), live));
        let of_live = of_live.map(|(log, unloaded, live)| (log, Unloaded { end: live.synced, ..unloaded }));
        let others = self.logs.iter().filter(|(log, _)| of_live.is_none_or(|(live, _)| live != **log));
        let all = others.map(|(_, unloaded)| *unloaded).chain(of_live.map(|(_, unloaded)| unloaded));
        all.map(|unloaded| unloaded.end.0.saturating_sub(unloaded.loaded.0)).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn log(number: u128) -> LogId {
        Uuid::from_u128(number).to_string().parse().unwrap()
    }

    #[test]
    fn the_count_is_the_sum_of_all_logs_and_follows_the_watermark() {
        let mut records = UnloadedRecords::default();
        assert_eq!(records.count(None), 0);
        records.saw(log(1), Sequence(11), Sequence(30));
        assert_eq!(records.count(None), 20, "the records before 11 are deleted");
        records.passed(log(1), Sequence(25));
        let live = |synced| Some(Watermark { log: log(2), synced: Sequence(synced) });
        assert_eq!(records.count(live(0)), 5);
        assert_eq!(records.count(live(7)), 12, "nothing of the live log is loaded");
        records.passed(log(2), Sequence(6));
        records.saw(log(2), Sequence(1), Sequence(7));
        assert_eq!(records.count(live(9)), 8);
        assert_eq!(records.count(None), 6, "the last known end counts");
        records.passed(log(2), Sequence(9));
        assert_eq!(records.count(live(7)), 5, "the sink may be ahead of a known watermark");
        records.retain(|known| known == log(2));
        assert_eq!(records.count(None), 0);
        assert_eq!(records.count(live(20)), 11);
        records.stop(log(2));
        assert_eq!(records.count(live(20)), 0, "a stopped log waits for nothing");
        records.go_on();
        assert_eq!(records.count(live(20)), 20);
    }
}

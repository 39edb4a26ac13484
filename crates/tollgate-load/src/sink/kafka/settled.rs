//! The rejects of the newest loads, for the replies that wait for them.
//!
//! A read of the topic waits for the open transactions of other writers, so a reply is answered from here
//! where this process has committed its record. Each log has one range of records without a hole.

use std::collections::{BTreeMap, VecDeque};

use tollgate_log::{LogId, Sequence};

/// Number of rejects that are kept for each log. All rejects of its newest load are kept in any case.
const REJECTS_MAX: usize = 1024;
/// Number of logs with kept rejects. Another log removes all of them.
const LOGS_MAX: usize = 8;

/// The rejects of the newest loads of each log.
#[derive(Debug, Default)]
pub(super) struct SettledRejects {
    logs: BTreeMap<LogId, Range>,
}

/// The rejects of the records after `before`, up to `last`.
#[derive(Debug)]
struct Range {
    before: Sequence,
    last: Sequence,
    rejects: VecDeque<(Sequence, String)>,
}

impl SettledRejects {
    /// Notes a committed load with the records after `before`, up to `last`. Its rejects may be in any order.
    pub(super) fn note(
        &mut self,
        log: LogId,
        before: Sequence,
        last: Sequence,
        mut rejects: Vec<(Sequence, String)>,
    ) {
        if self.logs.len() >= LOGS_MAX && !self.logs.contains_key(&log) {
            self.logs.clear();
        }
        let empty = || Range { before, last: before, rejects: VecDeque::new() };
        let range = self.logs.entry(log).or_insert_with(empty);
        if range.last != before {
            *range = empty();
        }
        rejects.sort_by_key(|(sequence, _)| *sequence);
        range.rejects.extend(rejects);
        range.last = last;
        while range.rejects.len() > REJECTS_MAX
            && let Some((sequence, _)) = range.rejects.pop_front_if(|(sequence, _)| *sequence <= before)
        {
            range.before = sequence;
        }
    }

    /// Forgets the rejects of a log, because records inside its range are loaded again.
    pub(super) fn forget(&mut self, log: LogId) {
        self.logs.remove(&log);
    }

    /// Returns the rejects among these records. `None`: some of the records are not known.
    pub(super) fn of(&self, log: LogId, first: Sequence, last: Sequence) -> Option<Vec<(Sequence, String)>> {
        let range = self.logs.get(&log).filter(|range| range.before < first && last <= range.last)?;
        let is_asked = |(sequence, _): &&(Sequence, String)| (first..=last).contains(sequence);
        Some(range.rejects.iter().filter(is_asked).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejects(numbers: impl IntoIterator<Item = u64>) -> Vec<(Sequence, String)> {
        numbers.into_iter().map(|number| (Sequence(number), format!("reason {number}"))).collect()
    }

    #[test]
    fn rejects_are_known_for_the_records_of_loads_that_follow_each_other() {
        let (log, other) = (LogId::random(), LogId::random());
        let mut settled = SettledRejects::default();
        settled.note(log, Sequence(10), Sequence(20), rejects([15, 12]));
        settled.note(log, Sequence(20), Sequence(30), rejects([21]));
        let of =
            |settled: &SettledRejects, log, first, last| settled.of(log, Sequence(first), Sequence(last));
        assert_eq!(of(&settled, log, 11, 30), Some(rejects([12, 15, 21])));
        assert_eq!(of(&settled, log, 13, 20), Some(rejects([15])));
        assert_eq!(of(&settled, log, 10, 30), None, "the record 10 is of an earlier load");
        assert_eq!(of(&settled, log, 11, 31), None, "the record 31 is not loaded");
        assert_eq!(of(&settled, other, 11, 30), None);
        settled.note(log, Sequence(40), Sequence(50), rejects([41]));
        assert_eq!(of(&settled, log, 30, 50), None, "another process loaded some of them");
        assert_eq!(of(&settled, log, 41, 50), Some(rejects([41])));
        settled.forget(log);
        assert_eq!(of(&settled, log, 41, 50), None);
    }

    #[test]
    fn rejects_of_earlier_loads_and_of_many_logs_are_forgotten() {
        let log = LogId::random();
        let mut settled = SettledRejects::default();
        let max = REJECTS_MAX as u64;
        settled.note(log, Sequence(0), Sequence(max), rejects(1..=max));
        settled.note(log, Sequence(max), Sequence(max + 10), rejects([max + 1, max + 2]));
        assert_eq!(settled.of(log, Sequence(2), Sequence(3)), None);
        assert_eq!(settled.of(log, Sequence(3), Sequence(3)), Some(rejects([3])));
        assert_eq!(settled.logs[&log].rejects.len(), REJECTS_MAX);
        let end = 3 * max;
        settled.note(log, Sequence(max + 10), Sequence(end), rejects(max + 11..=end));
        let found = settled.of(log, Sequence(max + 11), Sequence(end)).map(|found| found.len() as u64);
        assert_eq!(found, Some(end - max - 10), "the newest load is kept");
        for _ in 0..LOGS_MAX {
            settled.note(LogId::random(), Sequence(0), Sequence(1), Vec::new());
        }
        assert!(settled.logs.len() <= LOGS_MAX && !settled.logs.contains_key(&log));
    }
}

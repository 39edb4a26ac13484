//! The progress of shipping: which segments of each log the store has. This code uses no disk, no store and
//! no clock.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_log::{LogId, SegmentName, SegmentState, Sequence};

/// A sealed segment on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalSegment {
    pub(crate) first: Sequence,
    pub(crate) last: Sequence,
    pub(crate) bytes: u64,
}

/// The segments of one log, and which of them are shipped.
#[derive(Debug, Default)]
pub(crate) struct LogProgress {
    /// Sealed segments on this machine, by their first records.
    sealed: BTreeMap<Sequence, LocalSegment>,
    /// First records of the segments that the store has.
    stored: BTreeSet<Sequence>,
    /// First records of the segments that cannot be shipped.
    faulty: BTreeSet<Sequence>,
    /// The first record of the first segment that is not sealed yet.
    open_from: Option<Sequence>,
    /// Whether the end of the log was noted in the store.
    pub(crate) is_end_noted: bool,
    /// Whether the store may have segments that this process has not sent.
    pub(crate) is_of_earlier_run: bool,
}

impl LogProgress {
    /// Compares the known segments with the current list of the log's folder. `read` reads the footer of a
    /// new segment.
    pub(crate) fn look<E>(
        &mut self,
        names: &[SegmentName],
        mut read: impl FnMut(SegmentName) -> Result<Option<LocalSegment>, E>,
    ) -> Result<(), E> {
        let sealed = names.iter().filter(|name| name.state == SegmentState::Sealed);
        let present: BTreeSet<_> = sealed.map(|name| name.first).collect();
        self.sealed.retain(|first, _| present.contains(first));
        self.stored.retain(|first| present.contains(first));
        self.faulty.retain(|first| present.contains(first));
        self.open_from = names.iter().find(|name| name.state == SegmentState::Open).map(|name| name.first);
        for name in names.iter().filter(|name| name.state == SegmentState::Sealed) {
            if self.sealed.contains_key(&name.first) || self.faulty.contains(&name.first) {
                continue;
            }
            match read(*name)? {
                Some(segment) => drop(self.sealed.insert(name.first, segment)),
                None => drop(self.faulty.insert(name.first)),
            }
        }
        Ok(())
    }

    /// Returns the segments to ship, in the order of their records.
    pub(crate) fn due(&self) -> Vec<LocalSegment> {
        let is_due = |first: &Sequence| !self.stored.contains(first) && !self.faulty.contains(first);
        self.sealed.iter().filter(|(first, _)| is_due(first)).map(|(_, segment)| *segment).collect()
    }

    pub(crate) fn segment(&self, first: Sequence) -> Option<LocalSegment> {
        self.sealed.get(&first).copied()
    }

    pub(crate) fn note_stored(&mut self, first: Sequence) {
        self.stored.insert(first);
    }

    pub(crate) fn note_faulty(&mut self, first: Sequence) {
        self.faulty.insert(first);
    }

    /// Returns the last record before the first segment that the store lacks. Returns `None` if the store
    /// lacks the first segment on this machine.
    pub(crate) fn shipped(&self) -> Option<Sequence> {
        let all = self.sealed.keys().chain(&self.faulty).collect::<BTreeSet<_>>();
        let is_before_open = |first: &&Sequence| self.open_from.is_none_or(|open| **first < open);
        let in_order = all.into_iter().take_while(is_before_open);
        let stored = in_order.take_while(|first| self.stored.contains(first));
        stored.last().and_then(|first| self.sealed.get(first)).map(|segment| segment.last)
    }

    /// Returns the last record of a log that has ended. Returns `None` until the store has all segments of
    /// the log.
    pub(crate) fn end(&self) -> Option<Sequence> {
        let is_whole = self.open_from.is_none() && self.faulty.is_empty() && self.due().is_empty();
        let last = self.sealed.values().next_back()?.last;
        is_whole.then_some(last)
    }
}

/// The progress of all logs.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) logs: BTreeMap<LogId, LogProgress>,
}

impl Progress {
    /// Returns the number of sealed segments that the store lacks, and the sum of their bytes.
    pub(crate) fn unshipped(&self) -> (u64, u64) {
        let due = self.logs.values().flat_map(LogProgress::due);
        due.fold((0, 0), |(count, bytes), segment| (count + 1, bytes + segment.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(states: &[(u64, SegmentState)]) -> Vec<SegmentName> {
        states.iter().map(|(first, state)| SegmentName { first: Sequence(*first), state: *state }).collect()
    }

    fn looked(progress: &mut LogProgress, states: &[(u64, SegmentState)]) {
        let read = |name: SegmentName| {
            let last = Sequence(name.first.0 + 9);
            Ok::<_, ()>(Some(LocalSegment { first: name.first, last, bytes: 100 }))
        };
        progress.look(&names(states), read).unwrap();
    }

    use SegmentState::{Damaged, Open, Sealed};

    #[test]
    fn a_log_is_shipped_up_to_the_first_segment_that_the_store_lacks() {
        let mut progress = LogProgress::default();
        looked(&mut progress, &[(1, Sealed), (11, Sealed), (21, Sealed), (31, Open)]);
        assert_eq!((progress.shipped(), progress.due().len()), (None, 3));
        progress.note_stored(Sequence(11));
        assert_eq!(progress.shipped(), None);
        progress.note_stored(Sequence(1));
        assert_eq!((progress.shipped(), progress.end()), (Some(Sequence(20)), None));
        progress.note_stored(Sequence(21));
        assert_eq!((progress.shipped(), progress.end()), (Some(Sequence(30)), None), "a segment is open");
        looked(&mut progress, &[(21, Sealed), (31, Sealed)]);
        assert_eq!(progress.shipped(), Some(Sequence(30)), "deleted segments need no proof any more");
        progress.note_stored(Sequence(31));
        assert_eq!(progress.end(), Some(Sequence(40)));
    }

    #[test]
    fn no_record_after_an_open_or_a_faulty_segment_counts_as_shipped() {
        let mut progress = LogProgress::default();
        looked(&mut progress, &[(1, Sealed), (11, Open), (21, Sealed)]);
        for first in [1, 21] {
            progress.note_stored(Sequence(first));
        }
        assert_eq!(progress.shipped(), Some(Sequence(10)));
        let mut progress = LogProgress::default();
        looked(&mut progress, &[(1, Sealed), (11, Sealed), (21, Sealed)]);
        for first in [1, 21] {
            progress.note_stored(Sequence(first));
        }
        progress.note_faulty(Sequence(11));
        assert_eq!((progress.shipped(), progress.end()), (Some(Sequence(10)), None));
    }

    #[test]
    fn a_damaged_segment_that_was_set_aside_holds_nothing_up() {
        let mut progress = LogProgress::default();
        looked(&mut progress, &[(1, Sealed), (11, Damaged), (21, Sealed)]);
        for first in [1, 21] {
            progress.note_stored(Sequence(first));
        }
        assert_eq!((progress.shipped(), progress.end()), (Some(Sequence(30)), Some(Sequence(30))));
    }
}

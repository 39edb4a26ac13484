//! Visits the segments of one log in order, and gives each record of the log one place. Records that no
//! segment holds are listed as findings.

use std::collections::BTreeMap;
use std::path::Path;

use tollgate_load::{Place, RecordCounter, STREAM_UNKNOWN, StreamRecords};
use tollgate_log::{LogError, LogId, SegmentName, Sequence};
use tollgate_ship::{NodeName, Store, StoreError, WantAnswer, want_of};

use super::counts::{Count, RecordCounts};
use super::finding::{AuditFinding, AuditKind};

/// The counts of one log, for one sink.
pub(super) struct View {
    pub(super) counter: RecordCounter,
    /// The last record that the sink has passed.
    pub(super) position: Sequence,
    /// Records that no readable segment holds, so that their streams are unknown.
    pub(super) unknown: RecordCounts,
}

impl View {
    pub(super) fn new(counter: RecordCounter, position: Sequence) -> Self {
        Self { counter, position, unknown: RecordCounts::default() }
    }

    /// Adds a range of records without a readable segment. The sink may have answered some of them.
    fn add_unread(&mut self, (first, last): (Sequence, Sequence), count: Count) {
        self.unknown[Count::Answered] += first.count_to(last.min(self.position));
        self.unknown[count] += first.max(self.position.after(1)).count_to(last);
    }

    /// RecordCounts a segment, of which the records from `first` on are new.
    fn count(&mut self, segment: Readable<'_>, first: Sequence) -> Result<(), LogError> {
        let Readable { dir, name, last, place } = segment;
        let before = sum(&self.counter);
        self.counter.count(dir, name, Some(last), place)?;
        let after = sum(&self.counter);
        // Records that are damaged inside the segment have no stream.
        let answered = first.count_to(last.min(self.position));
        let following = first.max(self.position.after(1)).count_to(last);
        self.unknown[Count::Answered] += answered.saturating_sub(after.passed - before.passed);
        self.unknown[Count::Missing] += following.saturating_sub(after.after() - before.after());
        Ok(())
    }

    /// Returns the counts of each stream, without the results of the sink.
    pub(super) fn counts(&self) -> BTreeMap<&str, RecordCounts> {
        let mut by_stream = BTreeMap::from([(STREAM_UNKNOWN, self.unknown)]);
        for (stream, records) in self.counter.records() {
            let mut counts = RecordCounts::default();
            counts[Count::Unshipped] = records.unshipped;
            counts[Count::Shipped] = records.shipped;
            counts[Count::Pending] = records.pending;
            counts[Count::Answered] = records.passed;
            by_stream.entry(stream.as_str()).or_default().add(&counts);
        }
        by_stream
    }
}

/// Returns the counts of all streams.
fn sum(counter: &RecordCounter) -> StreamRecords {
    let mut sum = StreamRecords::default();
    for records in counter.records().values() {
        sum.passed += records.passed;
        sum.unshipped += records.unshipped;
        sum.shipped += records.shipped;
        sum.pending += records.pending;
    }
    sum
}

/// A segment in a folder of this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Readable<'a> {
    pub(super) dir: &'a Path,
    pub(super) name: SegmentName,
    pub(super) last: Sequence,
    pub(super) place: Place,
}

/// A segment that cannot be read. Its last record may be unknown.
pub(super) struct Unread {
    pub(super) first: Sequence,
    pub(super) last: Option<Sequence>,
    pub(super) kind: AuditKind,
    pub(super) reason: String,
}

/// A walk over the segments of one log.
pub(super) struct Walk<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) node: &'a NodeName,
    pub(super) log: LogId,
    /// The first record that has no place yet.
    pub(super) next: Sequence,
    /// The checksum chain before `next`. `None`: it is unknown.
    pub(super) chain: Option<u32>,
    /// Whether a record is missing before `next`, so that the loader cannot load the later records.
    pub(super) is_broken: bool,
    pub(super) unread: Option<Unread>,
    pub(super) views: Vec<View>,
    pub(super) findings: Vec<AuditFinding>,
}

impl Walk<'_> {
    /// Gives the records of a readable segment their place.
    pub(super) fn add(&mut self, segment: Readable<'_>) -> Result<(), LogError> {
        let first = segment.name.first.max(self.next);
        for view in &mut self.views {
            view.count(segment, first)?;
        }
        self.next = segment.last.after(1);
        Ok(())
    }

    /// Gives all records before `first` a place: they are missing, if no segment holds them.
    pub(super) fn reach(&mut self, first: Sequence) -> Result<(), StoreError> {
        if first > self.next { self.pass(first.before()) } else { Ok(()) }
    }

    /// Gives the records up to the end of the log a place. `end` is the last record that is known to exist.
    pub(super) fn finish(&mut self, end: Option<Sequence>) -> Result<(), StoreError> {
        let end = end.max(self.unread.as_ref().and_then(|unread| unread.last));
        self.reach(end.unwrap_or_default().after(1))?;
        if let Some(unread) = self.unread.take() {
            self.find(unread.kind, (unread.first, None), unread.reason);
        }
        Ok(())
    }

    /// Adds a finding of the log.
    pub(super) fn find(
        &mut self,
        kind: AuditKind,
        (first, last): (Sequence, Option<Sequence>),
        reason: String,
    ) {
        let (node, log) = (self.node.clone(), self.log);
        self.findings.push(AuditFinding {
            kind,
            node: Some(node),
            log: Some(log),
            first: Some(first),
            last,
            reason,
        });
    }

    /// Gives the records from `next` to `last` a place, because no readable segment holds them.
    fn pass(&mut self, last: Sequence) -> Result<(), StoreError> {
        let range = (self.next, last);
        let unread = self.unread.take();
        let is_later = unread.as_ref().is_some_and(|unread| unread.kind == AuditKind::LaterVersion);
        let count = if is_later { Count::Shipped } else { Count::Missing };
        self.views.iter_mut().for_each(|view| view.add_unread(range, count));
        match unread {
            Some(unread) => self.find(unread.kind, (range.0, Some(last)), unread.reason),
            // The records that each sink has answered need no segment any more.
            None if self.views.iter().all(|view| view.position >= last) => {}
            None => {
                let reason = self.reason_of_hole(range.0)?;
                self.find(AuditKind::Hole, (range.0, Some(last)), reason);
            }
        }
        (self.next, self.chain, self.is_broken) = (last.after(1), None, true);
        Ok(())
    }

    fn reason_of_hole(&self, first: Sequence) -> Result<String, StoreError> {
        let asked = match want_of(self.store, self.log, first)? {
            Some(WantAnswer::Wanted) => ", and a loader has asked for it",
            Some(WantAnswer::Gone) => ", and the machine that wrote it has deleted it",
            None => "",
        };
        Ok(format!("the store lacks their segment{asked}"))
    }
}

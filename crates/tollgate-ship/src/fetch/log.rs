//! One log on the side of the loader: which of its segments are here, and which one is next.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use tollgate_log::{SegmentName, SegmentState, Sequence};

use super::status::{FetchFault, LogFetch};
use crate::name::NodeName;

/// A fetched segment.
#[derive(Debug, Clone, Copy)]
struct Fetched {
    last: Sequence,
    bytes: u64,
}

/// What is known of one log.
#[derive(Debug)]
pub(super) struct FetchedLog {
    pub(super) node: NodeName,
    /// Segments in the folder of this machine, by their first records.
    here: BTreeMap<Sequence, Fetched>,
    /// The last record of each segment that was fetched at any time, so that none is fetched twice in vain.
    lasts: BTreeMap<Sequence, Sequence>,
    /// The last record that every sink has.
    loaded: Sequence,
    /// The last record of the log, if it is over.
    pub(super) end: Option<Sequence>,
    /// When all its names were listed last.
    pub(super) listed_at: Option<Instant>,
    /// Since when a segment is missing, and which record is the first one missing.
    pub(super) missing: Option<(Sequence, Instant)>,
    pub(super) fault: Option<FetchFault>,
}

impl FetchedLog {
    pub(super) fn new(node: NodeName) -> Self {
        Self {
            node,
            here: BTreeMap::new(),
            lasts: BTreeMap::new(),
            loaded: Sequence::default(),
            end: None,
            listed_at: None,
            missing: None,
            fault: None,
        }
    }

    /// Notes how far the sinks are, and removes the segments that all of them have.
    ///
    /// A sink whose database was restored has less than before. Its segments are fetched again.
    pub(super) fn note_loaded(&mut self, folder: &Path, loaded: Sequence) {
        if loaded < self.loaded {
            self.listed_at = None;
            self.lasts.clear();
        }
        self.loaded = loaded;
        let faulty = match self.fault {
            Some(FetchFault::Missing { first, .. } | FetchFault::Damaged { first, .. }) => Some(first),
            None => None,
        };
        if faulty.is_some_and(|first| first <= loaded) {
            (self.missing, self.fault) = (None, None);
        }
        for (first, _) in self.here.extract_if(.., |_, fetched| fetched.last <= loaded) {
            // A file that stays costs space until the next start.
            drop(fs::remove_file(SegmentName { first, state: SegmentState::Sealed }.path(folder)));
        }
        if self.here.is_empty() {
            drop(fs::remove_dir(folder));
        }
        if let Some(known) = self.known_before(loaded.after(1)) {
            self.lasts.retain(|first, _| *first >= known);
        }
    }

    /// Notes a segment that lies in the folder now.
    pub(super) fn note_fetched(&mut self, first: Sequence, last: Sequence, bytes: u64) {
        let is_next = first <= self.next();
        self.lasts.insert(first, last);
        self.here.insert(first, Fetched { last, bytes });
        // A segment after a hole ends no fault. The fault ends once the sinks have passed the hole.
        if is_next {
            (self.missing, self.fault) = (None, None);
        }
    }

    /// Returns the first record that is neither loaded nor here. Segments after a hole do not count.
    pub(super) fn next(&self) -> Sequence {
        let mut next = self.loaded.after(1);
        for (first, fetched) in &self.here {
            if *first <= next && fetched.last >= next {
                next = fetched.last.after(1);
            }
        }
        next
    }

    /// Returns whether the segment that begins with this record is here.
    pub(super) fn is_here(&self, first: Sequence) -> bool {
        self.here.contains_key(&first)
    }

    /// Returns whether a segment may hold this record, by all that is known of it.
    pub(super) fn may_hold(&self, first: Sequence, record: Sequence) -> bool {
        first <= record && self.lasts.get(&first).is_none_or(|last| *last >= record)
    }

    /// Returns the first record of the latest known segment that ends before this record.
    pub(super) fn known_before(&self, record: Sequence) -> Option<Sequence> {
        let ended = self.lasts.iter().rev().find(|(_, last)| **last < record);
        ended.map(|(first, _)| *first)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.here.values().map(|fetched| fetched.bytes).sum()
    }

    /// Returns whether the log is over and loaded.
    pub(super) fn is_done(&self) -> bool {
        self.end.is_some_and(|end| self.loaded >= end)
    }

    pub(super) fn shown(&self) -> LogFetch {
        LogFetch {
            node: self.node.clone(),
            loaded: self.loaded,
            fetched: self.here.values().map(|fetched| fetched.last).fold(self.loaded, Ord::max),
            end: self.end,
            fault: self.fault.clone(),
        }
    }
}

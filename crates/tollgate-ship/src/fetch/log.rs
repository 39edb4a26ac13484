//! The progress of one fetched log: which of its segments are on this machine, and which segment is next.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use tollgate_log::{SegmentName, SegmentState, Sequence};

use super::status::{FetchFault, LogFetch};
use crate::name::NodeName;

/// A fetched segment, in the folder of this machine.
#[derive(Debug, Clone, Copy)]
struct Fetched {
    last: Sequence,
    bytes: u64,
}

/// Whether this fetcher fetches a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogShare {
    /// This fetcher fetches the log.
    Fetched,
    /// Another fetcher fetches the log, or none at present.
    Left,
}

/// State of one fetched log.
#[derive(Debug)]
pub(super) struct FetchedLog {
    pub(super) node: NodeName,
    /// Segments in the folder of this machine, by their first records.
    here: BTreeMap<Sequence, Fetched>,
    /// The last record of each segment that this process fetched or looked up, by its first record. It
    /// prevents a copy of a segment that lacks the next record.
    lasts: BTreeMap<Sequence, Sequence>,
    /// The last record that every sink has loaded.
    loaded: Sequence,
    /// The last record of the log, if the log has ended.
    pub(super) end: Option<Sequence>,
    /// The last record that the machine reported as shipped.
    pub(super) reported: Option<Sequence>,
    /// Time of the last list of the log's segments in the store.
    pub(super) listed_at: Option<Instant>,
    /// The first record of a missing segment, and the time since which it is missing.
    pub(super) missing: Option<(Sequence, Instant)>,
    pub(super) fault: Option<FetchFault>,
    share: LogShare,
    /// For a log that is left to another fetcher: whether the store has records that a sink lacks. `None`:
    /// not known.
    pub(super) is_behind: Option<bool>,
    /// For such a log: the first record of the last segment that begins at or before the loaded position.
    pub(super) beside: Option<Sequence>,
    /// Time since which the store has had records that a sink lacks.
    behind_since: Option<Instant>,
}

impl FetchedLog {
    pub(super) fn new(node: NodeName) -> Self {
        Self {
            node,
            here: BTreeMap::new(),
            lasts: BTreeMap::new(),
            loaded: Sequence::default(),
            end: None,
            reported: None,
            listed_at: None,
            missing: None,
            fault: None,
            share: LogShare::Left,
            is_behind: None,
            beside: None,
            behind_since: None,
        }
    }

    /// Sets whether this fetcher fetches the log. Returns whether that changed. After a change, the names of
    /// the segments are listed again.
    pub(super) fn set_share(&mut self, share: LogShare) -> bool {
        let is_changed = self.share != share;
        if is_changed {
            (self.share, self.is_behind, self.listed_at) = (share, None, None);
            (self.missing, self.fault) = (None, None);
        }
        is_changed
    }

    /// Returns the last record that every sink has loaded.
    pub(super) fn loaded(&self) -> Sequence {
        self.loaded
    }

    /// Sets the last record that every sink has loaded, and deletes the fetched segments up to this record.
    ///
    /// If a database was restored from a backup, `loaded` is lower than before. The segments after it are
    /// then fetched again.
    pub(super) fn note_loaded(&mut self, folder: &Path, loaded: Sequence) {
        if loaded < self.loaded {
            (self.listed_at, self.is_behind, self.beside) = (None, None, None);
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
            // If the deletion fails, the file takes space until the next start.
            drop(fs::remove_file(SegmentName { first, state: SegmentState::Sealed }.path(folder)));
        }
        if self.here.is_empty() {
            drop(fs::remove_dir(folder));
        }
        if let Some(known) = self.known_before(loaded.after(1)) {
            self.lasts.retain(|first, _| *first >= known);
        }
    }

    /// Adds a segment that is now in the folder of this machine.
    pub(super) fn note_fetched(&mut self, first: Sequence, last: Sequence, bytes: u64) {
        let is_next = first <= self.next();
        self.lasts.insert(first, last);
        self.here.insert(first, Fetched { last, bytes });
        // A segment after a missing one does not end the fault. The fault ends when the sinks have passed the
        // missing records.
        if is_next {
            (self.missing, self.fault) = (None, None);
        }
    }

    /// Notes where a segment of the store ends.
    pub(super) fn note_end(&mut self, first: Sequence, last: Sequence) {
        self.lasts.insert(first, last);
    }

    /// Returns the first record that is neither loaded nor in a fetched segment. Segments after a missing one
    /// do not count.
    pub(super) fn next(&self) -> Sequence {
        let mut next = self.loaded.after(1);
        for (first, fetched) in &self.here {
            if *first <= next && fetched.last >= next {
                next = fetched.last.after(1);
            }
        }
        next
    }

    /// Returns whether the segment that begins with `first` is in the folder of this machine.
    pub(super) fn is_here(&self, first: Sequence) -> bool {
        self.here.contains_key(&first)
    }

    /// Returns whether the segment that begins with `first` may contain `record`. The end of a segment is
    /// known only after it was fetched.
    pub(super) fn may_hold(&self, first: Sequence, record: Sequence) -> bool {
        first <= record && self.lasts.get(&first).is_none_or(|last| *last >= record)
    }

    /// Returns the first record of the latest known segment that ends before `record`.
    pub(super) fn known_before(&self, record: Sequence) -> Option<Sequence> {
        let ended = self.lasts.iter().rev().find(|(_, last)| **last < record);
        ended.map(|(first, _)| *first)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.here.values().map(|fetched| fetched.bytes).sum()
    }

    /// Returns whether the log has ended and every sink has loaded it.
    pub(super) fn is_done(&self) -> bool {
        self.end.is_some_and(|end| self.loaded >= end)
    }

    pub(super) fn shown(&mut self) -> LogFetch {
        let fetched = self.here.values().map(|fetched| fetched.last).fold(self.loaded, Ord::max);
        let is_behind = match self.share {
            LogShare::Fetched => fetched > self.loaded || self.fault.is_some(),
            LogShare::Left => self.is_behind != Some(false),
        };
        self.behind_since = self.behind_since.filter(|_| is_behind).or_else(|| is_behind.then(Instant::now));
        LogFetch {
            node: self.node.clone(),
            loaded: self.loaded,
            fetched,
            end: self.end,
            fault: self.fault.clone(),
            is_fetched_here: self.share == LogShare::Fetched,
            behind_since: self.behind_since,
        }
    }
}

//! Finds the next segment of one log in the store, and copies it to this machine.

use std::time::{Duration, Instant};

use tollgate_log::{DigestedSegment, LogId, Sequence, Storage};

use super::log::FetchedLog;
use super::options::FetchOptions;
use super::status::FetchFault;
use crate::answer::WantAnswer;
use crate::copy::{SegmentCopy, SegmentPlace, copy_digested_segment};
use crate::listing::{end_of, segments_of, want_of};
use crate::name::ObjectName;
use crate::store::{Store, StoreError};

/// Interval between two lists of a log that has ended and is loaded.
const DONE_LIST: Duration = Duration::from_hours(1);

/// A search for the next segment of one log.
pub(super) struct Hunt<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) storage: &'a dyn Storage,
    pub(super) options: &'a FetchOptions,
    pub(super) log: LogId,
}

/// State of a segment that was damaged in the store.
enum Damage {
    /// The next segment is not known to be damaged, or it was stored again.
    None,
    /// The machine that wrote the segment has not answered yet.
    Awaited,
    /// The machine that wrote the segment has deleted it.
    Gone,
}

/// Result of copying one object.
enum Copied {
    /// The segment is in the folder of this machine.
    Here { bytes: u64 },
    /// The store has no such object.
    Absent,
    /// The object is not a valid segment, or its content does not match its name.
    Damaged,
}

impl Hunt<'_> {
    /// Fetches the next segment of the log. Returns its size in bytes, or `None` if no segment was fetched.
    pub(super) fn fetch_next(&self, log: &mut FetchedLog) -> Result<Option<u64>, StoreError> {
        let next = log.next();
        match self.damage(log)? {
            Damage::Awaited => return Ok(None),
            Damage::Gone => return self.pass(log, next),
            Damage::None if log.is_done() => {}
            Damage::None => match self.copy(log, next)? {
                Copied::Here { bytes } => return Ok(Some(bytes)),
                Copied::Damaged => return self.ask_for(log, next).map(|_| None),
                Copied::Absent => {}
            },
        }
        let every = if log.is_done() { DONE_LIST } else { self.options.tuning.list };
        let is_due = log.listed_at.is_none_or(|at| at.elapsed() >= every);
        if is_due || log.missing.is_some() { self.look_at_all(log, next) } else { Ok(None) }
    }

    /// Lists the names of a log that this fetcher does not fetch, and notes whether the sinks lack a record.
    pub(super) fn look_beside(&self, log: &mut FetchedLog) -> Result<(), StoreError> {
        let every = if log.is_done() { DONE_LIST } else { self.options.tuning.list };
        if log.is_behind.is_some() && log.listed_at.is_some_and(|at| at.elapsed() < every) {
            return Ok(());
        }
        let loaded = log.loaded();
        let later = segments_of(self.store, &log.node, self.log, log.beside)?;
        log.beside = later.iter().rev().find(|first| **first <= loaded).copied().or(log.beside);
        log.end = end_of(self.store, self.log)?.map(|end| end.last).or(log.end);
        let is_behind =
            log.end.is_some_and(|end| end > loaded) || later.last().is_some_and(|last| *last > loaded);
        log.is_behind = Some(is_behind || self.ends_after(log, loaded)?);
        log.listed_at = Some(Instant::now());
        Ok(())
    }

    /// Returns whether the segment with the loaded position has later records.
    fn ends_after(&self, log: &FetchedLog, loaded: Sequence) -> Result<bool, StoreError> {
        let Some(first) = log.beside else { return Ok(false) };
        Ok(self.last_of(log, first)?.is_some_and(|last| last > loaded))
    }

    /// Returns the last record of a segment, as its identity in the store says.
    fn last_of(&self, log: &FetchedLog, first: Sequence) -> Result<Option<Sequence>, StoreError> {
        let name = ObjectName::Segment { node: log.node.clone(), log: self.log, first };
        let head = self.store.head(&name.to_string())?;
        Ok(head.and_then(|head| Some(head.identity?.end()?.0)))
    }

    /// Returns whether the segment may hold a record. Usually its identity says where it ends, so that this
    /// machine does not copy a segment that is loaded.
    fn may_hold(&self, log: &mut FetchedLog, first: Sequence, record: Sequence) -> Result<bool, StoreError> {
        if log.may_hold(first, record)
            && let Some(last) = self.last_of(log, first)?
        {
            log.note_end(first, last);
        }
        Ok(log.may_hold(first, record))
    }

    /// Reads the answer of the machine that was asked to store a damaged segment again.
    fn damage(&self, log: &FetchedLog) -> Result<Damage, StoreError> {
        let Some(FetchFault::Damaged { first, .. }) = log.fault else { return Ok(Damage::None) };
        Ok(match want_of(self.store, self.log, first)? {
            Some(WantAnswer::Wanted) => Damage::Awaited,
            Some(WantAnswer::Gone) => Damage::Gone,
            None => Damage::None,
        })
    }

    /// Fetches the first segment after `next`, because no machine has the segment of `next` any more. The
    /// loader then records the gap.
    fn pass(&self, log: &mut FetchedLog, next: Sequence) -> Result<Option<u64>, StoreError> {
        let later = segments_of(self.store, &log.node, self.log, Some(next))?.into_iter().next();
        let Some(later) = later.filter(|first| !log.is_here(*first)) else { return Ok(None) };
        let log_id = self.log;
        tracing::warn!(log = %log_id, first = %next, %later, "a segment is gone, the later ones are loaded");
        match self.copy(log, later)? {
            Copied::Here { bytes } => Ok(Some(bytes)),
            Copied::Damaged | Copied::Absent => Ok(None),
        }
    }

    /// Lists the segments of the log in the store. The segment with the record `next` may begin earlier, or
    /// may be missing.
    fn look_at_all(&self, log: &mut FetchedLog, next: Sequence) -> Result<Option<u64>, StoreError> {
        // Another loader may have moved the position into the middle of a segment that was not fetched here.
        let firsts = segments_of(self.store, &log.node, self.log, log.known_before(next))?;
        log.end = end_of(self.store, self.log)?.map(|end| end.last).or(log.end);
        log.listed_at = Some(Instant::now());
        let before = firsts.iter().rev().find(|first| **first < next);
        if let Some(first) = before.copied().filter(|first| !log.is_here(*first))
            && self.may_hold(log, first, next)?
        {
            match self.copy(log, first)? {
                Copied::Here { bytes } => {
                    // If the segment lacks the next record, only a new list shows later segments.
                    log.listed_at = None;
                    return Ok(Some(bytes));
                }
                Copied::Damaged => return self.ask_for(log, first).map(|_| None),
                Copied::Absent => {}
            }
        }
        if firsts.contains(&next) {
            // The segment was shipped after the search by its name.
            (log.missing, log.listed_at) = (None, None);
            return Ok(None);
        }
        let known_last = log.end.max(log.reported);
        let is_later =
            firsts.iter().any(|first| *first > next) || known_last.is_some_and(|last| last >= next);
        if is_later {
            return self.wait_for(log, next);
        }
        (log.missing, log.fault) = (None, None);
        Ok(None)
    }

    /// Handles a missing segment. First waits, then asks for the segment, and skips it if no machine has it
    /// any more.
    fn wait_for(&self, log: &mut FetchedLog, next: Sequence) -> Result<Option<u64>, StoreError> {
        let since = match log.missing {
            Some((first, since)) if first == next => since,
            _ => Instant::now(),
        };
        log.missing = Some((next, since));
        if !matches!(log.fault, Some(FetchFault::Missing { first, .. }) if first == next) {
            tracing::warn!(log = %self.log, first = %next, "a segment is missing in the store");
            log.fault = Some(FetchFault::Missing { first: next, is_gone: false });
        }
        if since.elapsed() < self.options.tuning.gap_patience || !self.ask_for(log, next)? {
            return Ok(None);
        }
        log.fault = Some(FetchFault::Missing { first: next, is_gone: true });
        self.pass(log, next)
    }

    /// Asks the machine that wrote a segment to store it again. Returns true if this machine has answered
    /// that it deleted the segment.
    fn ask_for(&self, log: &FetchedLog, first: Sequence) -> Result<bool, StoreError> {
        match want_of(self.store, self.log, first)? {
            Some(WantAnswer::Gone) => Ok(true),
            Some(WantAnswer::Wanted) => Ok(false),
            None => {
                let name = ObjectName::Want { log: self.log, first }.to_string();
                self.store.put_text(&name, WantAnswer::Wanted.to_text())?;
                tracing::warn!(log = %self.log, node = %log.node, %first, "a segment is asked for again");
                Ok(false)
            }
        }
    }

    /// Copies a segment to the folder of its log, and checks each byte of it.
    fn copy(&self, log: &mut FetchedLog, first: Sequence) -> Result<Copied, StoreError> {
        let FetchOptions { spool, segment_bytes_max, .. } = self.options;
        let place = SegmentPlace { node: &log.node, log: self.log, first };
        let reason = match copy_digested_segment(self.store, self.storage, place, spool, *segment_bytes_max)?
        {
            SegmentCopy::Absent => return Ok(Copied::Absent),
            SegmentCopy::Here(DigestedSegment { footer, .. }) => {
                log.note_fetched(first, footer.last, footer.file_bytes());
                return Ok(Copied::Here { bytes: footer.file_bytes() });
            }
            SegmentCopy::Damaged(reason) | SegmentCopy::LaterVersion(reason) => reason,
        };
        let fault = FetchFault::Damaged { first, reason };
        if log.fault.as_ref() != Some(&fault) {
            let (id, node) = (self.log, &log.node);
            tracing::error!(log = %id, %node, %first, ?fault, "a segment in the store is damaged");
            log.fault = Some(fault);
        }
        Ok(Copied::Damaged)
    }
}

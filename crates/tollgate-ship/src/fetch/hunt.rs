//! Finds the next segment of one log in the store, and copies it to this machine.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tollgate_log::{LogId, SegmentName, SegmentState, Sequence, Storage, join_chain, verify_segment};

use super::log::FetchedLog;
use super::options::FetchOptions;
use super::status::FetchFault;
use crate::answer::{EndAnswer, TEXT_BYTES_MAX, WantAnswer};
use crate::name::{NodeName, ObjectName};
use crate::store::{LISTED_MAX, Store, StoreError};

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

    /// Reads the answer of the machine that was asked to store a damaged segment again.
    fn damage(&self, log: &FetchedLog) -> Result<Damage, StoreError> {
        let Some(FetchFault::Damaged { first, .. }) = log.fault else { return Ok(Damage::None) };
        let name = ObjectName::Want { log: self.log, first }.to_string();
        let want = self.store.text(&name, TEXT_BYTES_MAX)?;
        Ok(match want.as_deref().and_then(WantAnswer::parse) {
            Some(WantAnswer::Wanted) => Damage::Awaited,
            Some(WantAnswer::Gone) => Damage::Gone,
            None => Damage::None,
        })
    }

    /// Fetches the first segment after `next`, because no machine has the segment of `next` any more. The
    /// loader then records the gap.
    fn pass(&self, log: &mut FetchedLog, next: Sequence) -> Result<Option<u64>, StoreError> {
        let later = self.firsts(&log.node, Some(next))?.into_iter().next();
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
        let firsts = self.firsts(&log.node, log.known_before(next))?;
        let end = self.store.text(&ObjectName::End(self.log).to_string(), TEXT_BYTES_MAX)?;
        log.end = end.as_deref().and_then(EndAnswer::parse).map(|end| end.last).or(log.end);
        log.listed_at = Some(Instant::now());
        let before = firsts.iter().rev().find(|first| **first < next);
        if let Some(first) =
            before.copied().filter(|first| log.may_hold(*first, next) && !log.is_here(*first))
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
        let is_later = firsts.iter().any(|first| *first > next) || log.end.is_some_and(|end| end >= next);
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
        let name = ObjectName::Want { log: self.log, first }.to_string();
        match self.store.text(&name, TEXT_BYTES_MAX)?.as_deref().and_then(WantAnswer::parse) {
            Some(WantAnswer::Gone) => Ok(true),
            Some(WantAnswer::Wanted) => Ok(false),
            None => {
                self.store.put_text(&name, WantAnswer::Wanted.to_text())?;
                tracing::warn!(log = %self.log, node = %log.node, %first, "a segment is asked for again");
                Ok(false)
            }
        }
    }

    /// Returns the first records of the segments of the log in the store. `after`: returns only numbers above
    /// this one.
    fn firsts(&self, node: &NodeName, after: Option<Sequence>) -> Result<Vec<Sequence>, StoreError> {
        let prefix = ObjectName::segments_of_log(node, self.log);
        let name = |first| ObjectName::Segment { node: node.clone(), log: self.log, first }.to_string();
        let (mut firsts, mut after) = (Vec::new(), after.filter(|first| first.is_possible()).map(name));
        loop {
            let names = self.store.list(&prefix, after.as_deref())?;
            for name in &names {
                if let Some(ObjectName::Segment { first, .. }) = ObjectName::parse(name) {
                    firsts.push(first);
                }
            }
            if names.len() < LISTED_MAX {
                return Ok(firsts);
            }
            after = names.last().cloned();
        }
    }

    /// Copies a segment to the folder of its log. The copy gets its name only when it is complete and
    /// checked, so the loader never reads a part of it.
    fn copy(&self, log: &mut FetchedLog, first: Sequence) -> Result<Copied, StoreError> {
        let object = ObjectName::Segment { node: log.node.clone(), log: self.log, first }.to_string();
        let folder = self.options.spool.join(self.log.to_string());
        let name = SegmentName { first, state: SegmentState::Sealed };
        let (target, part) = (name.path(&folder), folder.join(format!("{name}.part")));
        fs::create_dir_all(&folder).map_err(StoreError::file("create", &folder))?;
        remove_if_there(&part).map_err(StoreError::file("delete", &part))?;
        let fetched = self.store.fetch(&object, &part, self.options.segment_bytes_max);
        let checked = match fetched {
            Ok(None) => return Ok(Copied::Absent),
            Ok(Some(_)) => self.check(log, name, &part),
            Err(StoreError::TooLarge { found, limit, .. }) => {
                Err(format!("it has {found} bytes, limit {limit}"))
            }
            Err(error) => {
                drop(remove_if_there(&part));
                return Err(error);
            }
        };
        match checked {
            Ok((last, bytes)) => {
                fs::rename(&part, &target).map_err(StoreError::file("rename", &part))?;
                log.note_fetched(first, last, bytes);
                Ok(Copied::Here { bytes })
            }
            Err(reason) => {
                drop(remove_if_there(&part));
                let fault = FetchFault::Damaged { first, reason };
                if log.fault.as_ref() != Some(&fault) {
                    let (id, node) = (self.log, &log.node);
                    tracing::error!(log = %id, %node, %first, ?fault, "a segment in the store is damaged");
                    log.fault = Some(fault);
                }
                Ok(Copied::Damaged)
            }
        }
    }

    /// Checks each byte of a fetched segment. Returns the last record and the size in bytes.
    fn check(&self, log: &FetchedLog, name: SegmentName, part: &Path) -> Result<(Sequence, u64), String> {
        let verdict = verify_segment(self.storage, name, part, None).map_err(|error| join_chain(&error))?;
        if let Some(problem) = verdict.problem {
            return Err(problem.reason);
        }
        let (Some(header), Some(footer)) = (&verdict.scan.header, &verdict.scan.footer) else {
            return Err("it has no header or no footer".to_owned());
        };
        if NodeName::encode(&header.node).as_ref() != Some(&log.node) {
            return Err(format!("it was written by machine {:?}", header.node));
        }
        Ok((footer.last, footer.file_bytes()))
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

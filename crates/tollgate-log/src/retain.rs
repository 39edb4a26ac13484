//! Deleting sealed segments that every sink has, and the folders of logs that have none left.
//!
//! What the sinks confirmed is on their disk before anything is unlinked, and so is a note of it; each unlink
//! is synced before the next: after a crash at any point what is kept of a log begins later, and has no new
//! hole. A segment that is read is no obstacle: whoever has it open reads it to its end. Segments that are
//! open, set aside as damaged, or sealed without a footer that holds are never deleted.
//!
//! The same thread looks how much room there is, so that no worker does.
//!
//! What is known of segments is found at the start and heard from the sealer; no folder is listed while
//! nothing goes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::commit::pipeline::CommitPipeline;
use crate::commit::state::LogState;
use crate::deleted::Deleted;
use crate::error::{FormatError, LogError, join_chain};
use crate::event::LogEvent;
use crate::id::LogId;
use crate::recover::{recover, segment_names};
use crate::scan::{Schemas, SegmentReader};
use crate::segment::{SegmentName, SegmentState, read_footer};
use crate::segment_list::{Loaded, RetainRules, SealedSegment, SegmentList};
use crate::storage::Storage;
use crate::verify::log_ids;

/// How often it is looked what is due.
const PASS_PAUSE: Duration = Duration::from_millis(100);
/// How long after an unlink that failed the next is tried.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The thread: looks for room and for what is due until the log is closed or has failed.
///
/// `is_mending_due`: the start had no room to mend some log.
pub(crate) fn retain_loop(pipeline: &CommitPipeline, mut is_mending_due: bool) {
    let log = &pipeline.state;
    let options = &log.options;
    let rules = RetainRules { retain: options.retain, bytes_max: options.retain_bytes_max };
    let mut retainer = Retainer::new(log.storage.clone(), options.dir.clone(), log.id, rules);
    for event in retainer.find_kept() {
        log.report(&event);
    }
    while let Some(sealed) = log.next_sealed(PASS_PAUSE) {
        sealed.into_iter().for_each(|segment| retainer.add(segment));
        if let Err(error) = pass(log, &mut retainer) {
            return pipeline.fail(&error);
        }
        if is_mending_due && !log.room.is_short() {
            mend(log, &mut retainer);
            is_mending_due = false;
        }
    }
}

fn pass(state: &LogState, retainer: &mut Retainer) -> Result<(), LogError> {
    let now = Instant::now();
    retainer.note_loaded(&state.loaded(), now);
    while let Some(event) = retainer.delete_due(is_room_tight(state), now)? {
        state.meter.retainer.deleted.add(1);
        state.report(&event);
    }
    let (count, bytes) = retainer.segments.size();
    state.meter.retainer.kept_segments.set(count);
    state.meter.retainer.kept_bytes.set(bytes);
    // Only now: what could be deleted is no reason to refuse.
    state.look_for_room();
    for log in retainer.remove_empty()? {
        state.loaded().forget(log);
    }
    state.meter.retainer.passes.add(1);
    Ok(())
}

fn is_room_tight(state: &LogState) -> bool {
    let space = state.storage.space(&state.options.dir);
    space.is_ok_and(|space| state.room.is_tight(space))
}

/// Tries once more to mend what the start had no room for.
fn mend(state: &LogState, retainer: &mut Retainer) {
    if let Ok(report) = recover(&state.storage, &state.options.dir, state.options.digest) {
        let found = report.logs.iter().flat_map(|recovery| retainer.find_kept_of(recovery.log));
        found.collect::<Vec<_>>().iter().for_each(|event| state.report(event));
        state.report(&LogEvent::Mended(report));
    }
}

/// Whether deletions go on.
enum Unlinking {
    Works,
    /// The last one failed; nothing is tried before that moment.
    PutOff(Instant),
}

/// Deletes what may go.
pub(crate) struct Retainer {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    /// The log of this run: its folder stays.
    live: LogId,
    rules: RetainRules,
    segments: SegmentList,
    deleted: Deleted,
    /// Logs of dead runs of which no sealed segment is known.
    empty: BTreeSet<LogId>,
    unlinking: Unlinking,
}

impl Retainer {
    pub(crate) fn new(storage: Arc<dyn Storage>, dir: PathBuf, live: LogId, rules: RetainRules) -> Self {
        let (segments, empty) = (SegmentList::default(), BTreeSet::new());
        let deleted = Deleted::read(&*storage, &dir).unwrap_or_default();
        Self { storage, dir, live, rules, segments, deleted, empty, unlinking: Unlinking::Works }
    }

    /// Finds the sealed segments of dead runs. What cannot be read, or has no footer that holds, is kept and
    /// returned.
    pub(crate) fn find_kept(&mut self) -> Vec<LogEvent> {
        let mut logs = log_ids(&*self.storage, &self.dir).unwrap_or_default();
        logs.retain(|log| *log != self.live);
        logs.into_iter().flat_map(|log| self.find_kept_of(log)).collect()
    }

    fn find_kept_of(&mut self, log: LogId) -> Vec<LogEvent> {
        let folder = self.dir.join(log.to_string());
        let (mut is_empty, mut unsound) = (true, Vec::new());
        for name in segment_names(&*self.storage, &folder).unwrap_or_default() {
            if name.state != SegmentState::Sealed {
                continue;
            }
            let path = name.path(&folder);
            let reason = match read_footer(&*self.storage, &path) {
                Ok(Some(footer)) => {
                    self.add(SealedSegment::new(log, name.first, &footer));
                    is_empty = false;
                    continue;
                }
                // A segment of a later version may end in another way.
                Ok(None) if is_of_later_version(&*self.storage, &path) => continue,
                Ok(None) => "it has no footer that holds".to_owned(),
                Err(error) if error.is_not_found() => continue,
                Err(error) => join_chain(&error),
            };
            unsound.push(LogEvent::Unsound { log, file: path, reason });
        }
        if is_empty {
            self.empty.insert(log);
        }
        unsound
    }

    pub(crate) fn add(&mut self, sealed: SealedSegment) {
        self.segments.add(sealed.key, sealed.kept);
    }

    pub(crate) fn note_loaded(&mut self, loaded: &Loaded, now: Instant) {
        self.segments.note_loaded(loaded, now);
    }

    /// Deletes the next segment that is due. None: nothing is, or nothing can be deleted for now.
    ///
    /// # Errors
    /// A folder cannot be synced: the log stops.
    pub(crate) fn delete_due(
        &mut self,
        is_room_short: bool,
        now: Instant,
    ) -> Result<Option<LogEvent>, LogError> {
        if matches!(self.unlinking, Unlinking::PutOff(until) if now < until) {
            return Ok(None);
        }
        let Some(((log, first), reason)) = self.segments.due(self.rules, is_room_short, now) else {
            return Ok(None);
        };
        let segment = SegmentName { first, state: SegmentState::Sealed };
        let folder = self.dir.join(log.to_string());
        let unlinked = self.note_due(log).and_then(|()| self.unlink(&segment.path(&folder)));
        if let Err(error) = unlinked {
            return Ok(self.put_off(error, now));
        }
        self.unlinking = Unlinking::Works;
        self.storage.sync_folder(&folder).map_err(LogError::io("sync", &folder))?;
        let bytes = self.segments.take_due().map_or(0, |kept| kept.bytes);
        if log != self.live && !self.segments.holds(log) {
            self.empty.insert(log);
        }
        Ok(Some(LogEvent::Deleted { log, segment, bytes, reason }))
    }

    /// Notes how far the log is deleted. Where there is no room for that, the deletion makes some.
    fn note_due(&mut self, log: LogId) -> Result<(), LogError> {
        match self.deleted.note(&*self.storage, &self.dir, log, self.segments.due_last()) {
            Err(error) if error.is_storage_full() => Ok(()),
            noted => noted,
        }
    }

    /// A segment that somebody else deleted is as good as deleted.
    fn unlink(&self, path: &Path) -> Result<(), LogError> {
        match self.storage.remove(path).map_err(LogError::io("delete", path)) {
            Err(error) if error.is_not_found() => Ok(()),
            result => result,
        }
    }

    /// Tells the first of several failures.
    fn put_off(&mut self, error: LogError, now: Instant) -> Option<LogEvent> {
        let is_first = matches!(self.unlinking, Unlinking::Works);
        self.unlinking = Unlinking::PutOff(now + RETRY_PAUSE);
        is_first.then_some(LogEvent::NotDeleted(error))
    }

    /// Removes the folders of logs that are over and hold nothing; returns those logs.
    ///
    /// # Errors
    /// The folder of all logs cannot be synced: the log stops.
    pub(crate) fn remove_empty(&mut self) -> Result<Vec<LogId>, LogError> {
        let mut removed = Vec::new();
        for log in std::mem::take(&mut self.empty) {
            match self.remove_folder(log) {
                Ok(Removal::Done) => removed.push(log),
                Ok(Removal::Locked) => drop(self.empty.insert(log)),
                // Whatever keeps it there is looked at by the next start.
                Ok(Removal::InUse) | Err(_) => {}
            }
        }
        if !removed.is_empty() {
            self.storage.sync_folder(&self.dir).map_err(LogError::io("sync", &self.dir))?;
        }
        Ok(removed)
    }

    fn remove_folder(&self, log: LogId) -> Result<Removal, LogError> {
        let folder = self.dir.join(log.to_string());
        let names = self.storage.list(&folder).map_err(LogError::io("list", &folder))?;
        if names.iter().any(|name| name != "lock") {
            return Ok(Removal::InUse);
        }
        let lock = folder.join("lock");
        let Some(_held) = self.storage.try_lock(&lock).map_err(LogError::io("lock", &lock))? else {
            return Ok(Removal::Locked);
        };
        self.storage.remove(&lock).map_err(LogError::io("delete", &lock))?;
        self.storage.remove_folder(&folder).map_err(LogError::io("delete", &folder))?;
        Ok(Removal::Done)
    }
}

fn is_of_later_version(storage: &dyn Storage, path: &Path) -> bool {
    let opened = SegmentReader::open(storage, path, Schemas::new());
    matches!(opened, Err(LogError::Damaged { source: FormatError::Version { .. }, .. }))
}

/// What became of the folder of a log.
enum Removal {
    Done,
    /// Somebody writes the log, or looks whether somebody does.
    Locked,
    /// It holds damaged or unsealed segments, or files of others.
    InUse,
}

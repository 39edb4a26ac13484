//! Deletes sealed segments that every sink has, and the folders of logs without segments.
//!
//! The order of the steps survives a crash at any point. First, the sinks have the records on disk. Second, a
//! note of the deletion is on disk. Third, the segment is unlinked, and the folder is synced before the next
//! unlink. After a crash, the kept part of a log therefore begins later, and has no new gap.
//!
//! A reader does not delay a deletion: a process that has the segment open can still read it to its end. Open
//! segments, damaged segments, and sealed segments without a valid footer are never deleted.
//!
//! The same thread measures the free space of the disk, so that workers need not measure it.
//!
//! The thread lists segments at the start, and gets new segments from the sealer. The thread lists a folder
//! again only after a deletion.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::accepted::AcceptedDamage;
use crate::commit::pipeline::CommitPipeline;
use crate::commit::state::LogState;
use crate::deleted::Deleted;
use crate::error::{FormatError, LogError, join_chain};
use crate::event::LogEvent;
use crate::id::{LogId, Sequence};
use crate::recover::{recover, segment_names};
use crate::scan::{Schemas, SegmentReader};
use crate::segment::{SegmentFooter, SegmentName, SegmentState, read_footer};
use crate::segment_list::{Loaded, RetainRules, SealedSegment, SegmentList};
use crate::storage::Storage;
use crate::verify::log_ids;

/// Pause between two passes.
const PASS_PAUSE: Duration = Duration::from_millis(100);
/// Pause after a failed unlink before the next try.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Runs the retainer thread until the log is closed or has failed. The thread measures the free space, and
/// deletes the segments that are due.
///
/// `is_mending_due`: at least one log could not be recovered at the start for lack of space.
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
            mend(log, &mut retainer, &[]);
            is_mending_due = false;
        }
        if let Some(ended) = log.duty.ended()
            && is_free(&*log.storage, &options.dir.join(ended.to_string()))
            && mend(log, &mut retainer, &[ended])
        {
            log.duty.take_all();
        }
    }
}

fn pass(state: &LogState, retainer: &mut Retainer) -> Result<(), LogError> {
    let now = Instant::now();
    // The first record makes the folder.
    let has_records = state.watermark().synced > Sequence(0);
    state.room.note_folder(has_records && retainer.is_folder_gone());
    retainer.note_loaded(&state.loaded(), now);
    let removed = delete(state, retainer, now)?;
    let (count, bytes) = retainer.segments.size();
    state.meter.retainer.kept_segments.set(count);
    state.meter.retainer.kept_bytes.set(bytes);
    // The free space is measured after the deletions. Records are not refused as long as a deletion can free
    // enough space.
    state.look_for_room();
    removed.into_iter().for_each(|log| state.loaded().forget(log));
    state.meter.retainer.passes.add(1);
    Ok(())
}

/// Deletes the segments that are due, and the folders of logs that have none. Returns these logs. During an
/// upgrade, only one process deletes.
fn delete(state: &LogState, retainer: &mut Retainer, now: Instant) -> Result<Vec<LogId>, LogError> {
    let _deleting = state.deleting();
    if !state.duty.is_deleting() {
        // The other process may change the note of deletions, so it is read again later.
        retainer.deleted = None;
        return Ok(Vec::new());
    }
    while let Some(event) = retainer.delete_due(is_room_tight(state), now)? {
        state.meter.retainer.deleted.add(1);
        state.report(&event);
    }
    retainer.remove_empty()
}

fn is_room_tight(state: &LogState) -> bool {
    let space = state.storage.space(&state.options.dir);
    space.is_ok_and(|space| state.room.is_tight(space))
}

/// Recovers the logs of ended runs: those that the start could not recover for lack of space, and the log of
/// a predecessor. Finds the segments of the recovered logs and of `ended`. Returns whether the folder could
/// be read.
fn mend(state: &LogState, retainer: &mut Retainer, ended: &[LogId]) -> bool {
    let Ok(report) = recover(&state.storage, &state.options.dir, state.options.digest) else { return false };
    let accepted = retainer.accepted();
    let logs: BTreeSet<_> =
        report.logs.iter().map(|recovery| recovery.log).chain(ended.iter().copied()).collect();
    let found = logs.into_iter().flat_map(|log| retainer.find_kept_of(log, &accepted));
    found.collect::<Vec<_>>().iter().for_each(|event| state.report(event));
    state.report(&LogEvent::Mended(report));
    true
}

/// Returns whether no process writes the log of a folder. A log without a record has no folder.
fn is_free(storage: &dyn Storage, folder: &Path) -> bool {
    !storage.is_folder(folder) || matches!(storage.try_lock(&folder.join("lock")), Ok(Some(_)))
}

/// Returns whether the system reports that there is no such folder. Any other error may pass, for example of
/// a network file system.
fn is_missing(storage: &dyn Storage, folder: &Path) -> bool {
    let kinds = [ErrorKind::NotFound, ErrorKind::NotADirectory];
    storage.list(folder).is_err_and(|error| kinds.contains(&error.kind()))
}

/// Result of the last unlink.
enum Unlinking {
    Works,
    /// The last unlink failed. The retainer tries the next unlink at this time.
    PutOff(Instant),
}

/// Deletes segments that are due.
pub(crate) struct Retainer {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    /// The log of this run. Its folder is never removed.
    live: LogId,
    rules: RetainRules,
    segments: SegmentList,
    /// The note of deletions, while this process is the one that deletes.
    deleted: Option<Deleted>,
    /// Logs of dead runs without a known sealed segment.
    empty: BTreeSet<LogId>,
    unlinking: Unlinking,
}

impl Retainer {
    pub(crate) fn new(storage: Arc<dyn Storage>, dir: PathBuf, live: LogId, rules: RetainRules) -> Self {
        let (segments, empty) = (SegmentList::default(), BTreeSet::new());
        Self { storage, dir, live, rules, segments, deleted: None, empty, unlinking: Unlinking::Works }
    }

    /// Returns whether the folder of the live log is not at its path.
    fn is_folder_gone(&self) -> bool {
        let folder = self.dir.join(self.live.to_string());
        !self.storage.is_folder(&folder) && is_missing(&*self.storage, &folder)
    }

    /// Finds the sealed segments of dead runs. Reports segments that an earlier run set aside, that cannot be
    /// read, or that have no valid footer, unless an operator has accepted their damage. The retainer never
    /// deletes these segments.
    pub(crate) fn find_kept(&mut self) -> Vec<LogEvent> {
        let mut logs = log_ids(&*self.storage, &self.dir).unwrap_or_default();
        logs.retain(|log| *log != self.live);
        let accepted = self.accepted();
        logs.into_iter().flat_map(|log| self.find_kept_of(log, &accepted)).collect()
    }

    /// Returns the damage that an operator accepted. If the file cannot be read, the damage is reported.
    fn accepted(&self) -> AcceptedDamage {
        AcceptedDamage::read(&*self.storage, &self.dir).unwrap_or_default()
    }

    fn find_kept_of(&mut self, log: LogId, accepted: &AcceptedDamage) -> Vec<LogEvent> {
        let folder = self.dir.join(log.to_string());
        let (mut is_empty, mut unsound) = (true, Vec::new());
        for name in segment_names(&*self.storage, &folder).unwrap_or_default() {
            let path = name.path(&folder);
            let reason = match name.state {
                SegmentState::Open => continue,
                SegmentState::Damaged => "an earlier start or repair set the segment aside".to_owned(),
                SegmentState::Sealed => match self.footer_or_damage(&path) {
                    Ok(Some(footer)) => {
                        self.add(SealedSegment::new(log, name.first, &footer));
                        is_empty = false;
                        continue;
                    }
                    Ok(None) => continue,
                    Err(reason) => reason,
                },
            };
            if !accepted.covers(&*self.storage, &self.dir, log, name).unwrap_or(false) {
                unsound.push(LogEvent::Unsound { log, file: path, reason });
            }
        }
        if is_empty {
            self.empty.insert(log);
        }
        unsound
    }

    /// Returns the footer of a sealed segment, or the reason why it has none. `None`: the segment is gone, or
    /// a later version wrote it.
    fn footer_or_damage(&self, path: &Path) -> Result<Option<SegmentFooter>, String> {
        match read_footer(&*self.storage, path) {
            Ok(Some(footer)) => Ok(Some(footer)),
            // A segment of a later version may have another kind of footer.
            Ok(None) if is_of_later_version(&*self.storage, path) => Ok(None),
            Ok(None) => Err("the segment has no valid footer".to_owned()),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(join_chain(&error)),
        }
    }

    pub(crate) fn add(&mut self, sealed: SealedSegment) {
        self.segments.add(sealed.key, sealed.kept);
    }

    pub(crate) fn note_loaded(&mut self, loaded: &Loaded, now: Instant) {
        self.segments.note_loaded(loaded, now);
    }

    /// Deletes the next segment that is due. Returns `None` if none is due, or if deletions are put off.
    ///
    /// # Errors
    /// A folder cannot be synced. The log then stops.
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

    /// Notes up to which record the log is deleted. If the disk is full, the deletion continues without the
    /// note, because the deletion frees space.
    fn note_due(&mut self, log: LogId) -> Result<(), LogError> {
        let deleted =
            self.deleted.get_or_insert_with(|| Deleted::read(&*self.storage, &self.dir).unwrap_or_default());
        match deleted.note(&*self.storage, &self.dir, log, self.segments.due_last()) {
            Err(error) if error.is_storage_full() => Ok(()),
            noted => noted,
        }
    }

    /// Unlinks a segment. Returns no error if another process has deleted the segment already.
    fn unlink(&self, path: &Path) -> Result<(), LogError> {
        match self.storage.remove(path).map_err(LogError::io("delete", path)) {
            Err(error) if error.is_not_found() => Ok(()),
            result => result,
        }
    }

    /// Delays the next deletion by `RETRY_PAUSE`. Returns an event only for the first of several failures.
    fn put_off(&mut self, error: LogError, now: Instant) -> Option<LogEvent> {
        let is_first = matches!(self.unlinking, Unlinking::Works);
        self.unlinking = Unlinking::PutOff(now + RETRY_PAUSE);
        is_first.then_some(LogEvent::NotDeleted(error))
    }

    /// Removes the folders of ended logs that have no more files. Returns these logs.
    ///
    /// # Errors
    /// The folder of all logs cannot be synced. The log then stops.
    pub(crate) fn remove_empty(&mut self) -> Result<Vec<LogId>, LogError> {
        let mut removed = Vec::new();
        for log in std::mem::take(&mut self.empty) {
            match self.remove_folder(log) {
                Ok(Removal::Done) => removed.push(log),
                Ok(Removal::Locked) => drop(self.empty.insert(log)),
                // The next start checks the folder again.
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

/// Result of the removal of a log's folder.
enum Removal {
    Done,
    /// Another process holds the lock, because it writes the log or checks whether a process does.
    Locked,
    /// The folder has damaged or unsealed segments, or foreign files.
    InUse,
}

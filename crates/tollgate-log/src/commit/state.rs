//! The state that appenders and threads of a log share, apart from the queue of batches.
//!
//! The lock of [`Progress`] guards the work that the threads pass to each other. No thread holds this lock
//! during a disk call.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use crate::appended::Level;
use crate::duty::LogDuty;
use crate::event::LogEvent;
use crate::id::{LogId, Sequence};
use crate::meter::LogMeter;
use crate::options::LogOptions;
use crate::pending_acks::PendingAcks;
use crate::queue_age::{Moment, QueueAge, QueueState, Wanted};
use crate::room::Room;
use crate::schema::Schema;
use crate::segment_list::{Loaded, SealedSegment};
use crate::segment_writer::{ClosedSegment, SyncWork};
use crate::storage::{Space, Storage, StorageLock};
use crate::worker_batch::WorkerMarks;

/// The watermark of the log of this run: its last synced record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    /// The log of this run.
    pub log: LogId,
    /// Number of the last synced record.
    pub synced: Sequence,
}

/// The state that appenders and threads of a log share.
pub(crate) struct LogState {
    pub(crate) options: LogOptions,
    /// Schemas of the log. The index of a schema is its number. The list only grows.
    pub(crate) schemas: Mutex<Vec<Arc<Schema>>>,
    /// Bytes of batches that are handed over and not yet written.
    pub(crate) queued_bytes: AtomicU64,
    pub(crate) room: Room,
    pub(crate) queue_age: QueueAge,
    pub(crate) meter: LogMeter,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) id: LogId,
    pub(crate) duty: LogDuty,
    pub(crate) synced: AtomicU64,
    pub(crate) failure: OnceLock<String>,
    pub(crate) on_event: Box<dyn Fn(&LogEvent) + Send + Sync>,
    pub(crate) progress: Mutex<Progress>,
    pub(crate) loaded: Mutex<Loaded>,
    /// Pending acknowledgements of each sink. The index is the place of the sink. The entry of a removed sink
    /// stays, unused.
    pub(crate) pending_acks: RwLock<Vec<Arc<PendingAcks>>>,
    /// Signals the syncer that there are files to sync.
    pub(crate) sync_wake: Condvar,
    /// Signals the sealer that there is a segment to seal, and the writer that the sealer finished a segment.
    pub(crate) seal_wake: Condvar,
    /// Signals the followers that the watermark moved.
    pub(crate) watermark_wake: Condvar,
    /// Signals the retainer that the log closes, or that it has to free disk space.
    pub(crate) retain_wake: Condvar,
    /// Held by the retainer during the deletions of a pass.
    pub(crate) deleting: Mutex<()>,
    /// The lock of the folder of all logs, which is held until the last thread ends.
    pub(crate) lock: StorageLock,
}

#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) workers: Vec<Arc<WorkerMarks>>,
    pub(crate) work: SyncWork,
    pub(crate) is_sync_wanted: bool,
    /// Bytes of records that are written, and that no sync covers yet.
    pub(crate) unsynced_bytes: u64,
    /// Bytes of records that the running sync covers.
    pub(crate) syncing_bytes: u64,
    /// The times since which replies wait for a sync.
    pub(crate) wanted: Wanted,
    pub(crate) oldest_unsynced: Option<Instant>,
    /// Write time of the oldest record that the running sync covers.
    pub(crate) oldest_syncing: Option<Instant>,
    /// Closed segments in the order of their records. The sealer seals the first segment as soon as its
    /// records are synced.
    pub(crate) closed: VecDeque<ClosedSegment>,
    /// Segments that were sealed since the retainer last took this list.
    pub(crate) sealed: Vec<SealedSegment>,
    pub(crate) is_writer_done: bool,
    pub(crate) is_syncer_done: bool,
    pub(crate) is_sealer_done: bool,
    /// Whether the retainer has to make space at once.
    pub(crate) is_room_wanted: bool,
}

impl LogState {
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Returns all schemas declared so far. The index of a schema is its number.
    pub(crate) fn schemas(&self) -> Vec<Arc<Schema>> {
        self.schemas.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until no deletion runs. None begins while the result is held.
    pub(crate) fn deleting(&self) -> MutexGuard<'_, ()> {
        self.deleting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(&self, marks: Arc<WorkerMarks>) {
        self.progress().workers.push(marks);
    }

    /// Locks the progress. The lock is never poisoned here, because a panic under the lock ends the process.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a>(
        &self,
        wake: &Condvar,
        progress: MutexGuard<'a, Progress>,
        timeout: Duration,
    ) -> MutexGuard<'a, Progress> {
        wake.wait_timeout(progress, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns the bytes that wait to be written or are being written.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    /// Returns the watermark of the log.
    pub(crate) fn watermark(&self) -> Watermark {
        Watermark { log: self.id, synced: self.synced() }
    }

    /// Returns the age of the oldest record that is written and not synced, and the count of segments that
    /// are closed and not sealed.
    pub(crate) fn unsynced(&self) -> (Duration, usize) {
        let progress = self.progress();
        let oldest = progress.oldest_syncing.or(progress.oldest_unsynced);
        (oldest.map_or(Duration::ZERO, |since| since.elapsed()), progress.closed.len())
    }

    pub(crate) fn synced(&self) -> Sequence {
        Sequence(self.synced.load(Ordering::Acquire))
    }

    /// Locks the positions of the sinks. A poisoned lock is taken too, because each statement leaves the map
    /// consistent.
    pub(crate) fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the pending acknowledgements by sink. A poisoned lock is taken too, because each statement
    /// leaves the list consistent.
    pub(crate) fn pending_acks(&self) -> RwLockReadGuard<'_, Vec<Arc<PendingAcks>>> {
        self.pending_acks.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn report(&self, event: &LogEvent) {
        (self.on_event)(event);
    }

    /// Notes that records were refused because the disk is too slow. Reports only the first refusal.
    #[cold]
    pub(crate) fn note_refusal(&self, now: Moment) {
        if self.queue_age.note_refusal(now) {
            self.report_queue(QueueState::Behind, now);
        }
    }

    /// Checks whether a disk that caused refusals keeps up again, and reports that.
    pub(crate) fn look_at_queue(&self, now: Moment) {
        let queued_bytes = self.queued_bytes.load(Ordering::Relaxed);
        let keeps_up = queued_bytes <= self.options.queue_bytes_max
            && self.queue_age.age(Level::Synced, now) <= self.options.queue_age_max;
        if keeps_up && self.queue_age.calm_down(now) {
            self.report_queue(QueueState::KeepsUp, now);
        }
    }

    fn report_queue(&self, state: QueueState, now: Moment) {
        let (age_max, queue_bytes_max) = (self.options.queue_age_max, self.options.queue_bytes_max);
        let queued_bytes = self.queued_bytes.load(Ordering::Relaxed);
        let age = self.queue_age.age(Level::Synced, now);
        self.report(&LogEvent::Queue { state, age, age_max, queued_bytes, queue_bytes_max });
    }

    /// Reads the free space of the file system. Returns `None` if the call fails. The log then uses the last
    /// known value.
    pub(crate) fn look_for_room(&self) -> Option<Space> {
        let space = self.storage.space(&self.options.dir).ok()?;
        self.meter.retainer.note_space(space);
        if let Some(state) = self.room.note(space) {
            let reserve_bytes = self.options.reserve_bytes;
            self.report(&LogEvent::Room { state, space, reserve_bytes });
        }
        Some(space)
    }

    /// Waits at most `pause`, and returns the segments that were sealed since the last call. Returns `None`
    /// once the log is closed or has failed.
    pub(crate) fn next_sealed(&self, pause: Duration) -> Option<Vec<SealedSegment>> {
        let progress = self.progress();
        let is_over = |progress: &Progress| progress.is_sealer_done || self.failure().is_some();
        let is_idle = |progress: &mut Progress| !is_over(progress) && !progress.is_room_wanted;
        let waited = self.retain_wake.wait_timeout_while(progress, pause, is_idle);
        let (mut progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        progress.is_room_wanted = false;
        (!is_over(&progress)).then(|| std::mem::take(&mut progress.sealed))
    }

    /// Notes why the log stops, and wakes the workers and all threads except the writer. Returns false if the
    /// log had stopped before.
    pub(crate) fn set_failure(&self, reason: &str) -> bool {
        if self.failure.set(reason.to_owned()).is_err() {
            return false;
        }
        let workers = self.progress().workers.clone();
        for worker in workers {
            worker.wake();
        }
        for wake in [&self.sync_wake, &self.seal_wake, &self.watermark_wake, &self.retain_wake] {
            wake.notify_all();
        }
        true
    }
}

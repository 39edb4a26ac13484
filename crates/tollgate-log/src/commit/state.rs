//! What the appenders and the threads of a log share, but for the queue of batches.
//!
//! The lock of [`Progress`] covers what the threads hand to each other. No thread holds it over a call of the
//! disk.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use crate::appended::Level;
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

/// How far the log of this run is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    /// The log.
    pub log: LogId,
    /// The last record that is synced.
    pub synced: Sequence,
}

/// What the appenders and the threads of a log share.
pub(crate) struct LogState {
    pub(crate) options: LogOptions,
    /// By their numbers. Only ever longer.
    pub(crate) schemas: Mutex<Vec<Arc<Schema>>>,
    /// Bytes of the batches that are handed over and not written.
    pub(crate) queued_bytes: AtomicU64,
    pub(crate) room: Room,
    pub(crate) queue_age: QueueAge,
    pub(crate) meter: LogMeter,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) id: LogId,
    pub(crate) synced: AtomicU64,
    pub(crate) failure: OnceLock<String>,
    pub(crate) on_event: Box<dyn Fn(&LogEvent) + Send + Sync>,
    pub(crate) progress: Mutex<Progress>,
    pub(crate) loaded: Mutex<Loaded>,
    /// Who waits for which sink. Those of sinks that went stay, and nobody is at them.
    pub(crate) pending_acks: RwLock<Vec<Arc<PendingAcks>>>,
    /// There is something to sync.
    pub(crate) sync_wake: Condvar,
    /// There is something to seal, or the sealer is done with one.
    pub(crate) seal_wake: Condvar,
    /// The watermark moved.
    pub(crate) watermark_wake: Condvar,
    /// The log is closing, or room is wanted.
    pub(crate) retain_wake: Condvar,
    /// Held until the last thread is done.
    pub(crate) _lock: StorageLock,
}

#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) workers: Vec<Arc<WorkerMarks>>,
    pub(crate) work: SyncWork,
    pub(crate) is_sync_wanted: bool,
    /// Bytes of records that were written and that no sync has begun to sync.
    pub(crate) unsynced_bytes: u64,
    /// Bytes of records that are being synced.
    pub(crate) syncing_bytes: u64,
    /// Since when it is.
    pub(crate) wanted: Wanted,
    pub(crate) oldest_unsynced: Option<Instant>,
    /// The same of what is being synced.
    pub(crate) oldest_syncing: Option<Instant>,
    /// Closed segments in order; the first is with the sealer as soon as it is synced.
    pub(crate) closed: VecDeque<ClosedSegment>,
    /// What was sealed since the retainer looked.
    pub(crate) sealed: Vec<SealedSegment>,
    pub(crate) is_writer_done: bool,
    pub(crate) is_syncer_done: bool,
    pub(crate) is_sealer_done: bool,
    /// The retainer is to look for room at once.
    pub(crate) is_room_wanted: bool,
}

impl LogState {
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The schemas that are declared by now, by their numbers.
    pub(crate) fn schemas(&self) -> Vec<Arc<Schema>> {
        self.schemas.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn register(&self, marks: Arc<WorkerMarks>) {
        self.progress().workers.push(marks);
    }

    /// A thread that panicked while holding the lock has already ended the process.
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

    /// Bytes that wait to be written or are being written.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    /// How far the log is on disk.
    pub(crate) fn watermark(&self) -> Watermark {
        Watermark { log: self.id, synced: self.synced() }
    }

    /// The age of the oldest record that is written and not synced, and how many segments are closed and not
    /// sealed.
    pub(crate) fn unsynced(&self) -> (Duration, usize) {
        let progress = self.progress();
        let oldest = progress.oldest_syncing.or(progress.oldest_unsynced);
        (oldest.map_or(Duration::ZERO, |since| since.elapsed()), progress.closed.len())
    }

    pub(crate) fn synced(&self) -> Sequence {
        Sequence(self.synced.load(Ordering::Acquire))
    }

    /// How far the sinks are. The map is whole after every statement.
    pub(crate) fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By the places of the sinks. The list is whole after every statement.
    pub(crate) fn pending_acks(&self) -> RwLockReadGuard<'_, Vec<Arc<PendingAcks>>> {
        self.pending_acks.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn report(&self, event: &LogEvent) {
        (self.on_event)(event);
    }

    /// Notes that records were refused because the disk is behind; the first time is reported.
    #[cold]
    pub(crate) fn note_refusal(&self, now: Moment) {
        if self.queue_age.note_refusal(now) {
            self.report_queue(QueueState::Behind, now);
        }
    }

    /// Tells when that is over.
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

    /// Asks the file system how much is free. None: it does not tell, and what was known stands.
    pub(crate) fn look_for_room(&self) -> Option<Space> {
        let space = self.storage.space(&self.options.dir).ok()?;
        self.meter.retainer.note_space(space);
        if let Some(state) = self.room.note(space) {
            let reserve_bytes = self.options.reserve_bytes;
            self.report(&LogEvent::Room { state, space, reserve_bytes });
        }
        Some(space)
    }

    /// Waits, and returns what was sealed meanwhile. None: the log is closed or has failed.
    pub(crate) fn next_sealed(&self, pause: Duration) -> Option<Vec<SealedSegment>> {
        let progress = self.progress();
        let is_over = |progress: &Progress| progress.is_sealer_done || self.failure().is_some();
        let is_idle = |progress: &mut Progress| !is_over(progress) && !progress.is_room_wanted;
        let waited = self.retain_wake.wait_timeout_while(progress, pause, is_idle);
        let (mut progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        progress.is_room_wanted = false;
        (!is_over(&progress)).then(|| std::mem::take(&mut progress.sealed))
    }

    /// Notes why the log stops, and wakes the workers and all threads but the writer. Returns false if it
    /// stopped before.
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

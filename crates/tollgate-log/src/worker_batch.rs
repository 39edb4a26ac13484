//! A batch that a worker hands over, and the numbers of the worker's last batches that are written, synced
//! and loaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::awaited::{Awaited, Inbox};
use crate::queue_age::Moment;
use crate::segment_writer::Handover;

/// Numbers of the last written and the last synced batch of one worker. The threads of the log write them,
/// and the worker reads them.
pub(crate) struct WorkerMarks {
    written: AtomicU64,
    synced: AtomicU64,
    /// Number of the last batch with a reply that waits for a sync.
    sync_wanted: AtomicU64,
    /// Number of the oldest batch with a record whose reply still waits for a sink to commit.
    waited_from: AtomicU64,
    pub(crate) inbox: Inbox,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl WorkerMarks {
    pub(crate) fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            sync_wanted: AtomicU64::new(0),
            waited_from: AtomicU64::new(0),
            inbox: Inbox::default(),
            wake,
        }
    }

    pub(crate) fn set_waited_from(&self, batch: u64) {
        self.waited_from.store(batch, Ordering::Relaxed);
    }

    pub(crate) fn waited_from(&self) -> u64 {
        self.waited_from.load(Ordering::Relaxed)
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    pub(crate) fn set_written(&self, batch: u64, is_sync_wanted: bool) {
        if is_sync_wanted {
            self.sync_wanted.store(batch, Ordering::Relaxed);
        }
        self.written.store(batch, Ordering::Release);
    }

    /// Publishes that batches up to `batch` are synced. Wakes the worker if a reply waits for a newly synced
    /// batch.
    pub(crate) fn set_synced(&self, batch: u64) {
        let before = self.synced.swap(batch, Ordering::AcqRel);
        if self.sync_wanted.load(Ordering::Relaxed) > before {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        (self.wake)();
    }
}

/// A batch that a worker hands over.
pub(crate) struct WorkerBatch {
    pub(crate) batch: Handover,
    pub(crate) origin: BatchOrigin,
}

/// The worker of a batch, and the levels and sinks that its replies wait for.
pub(crate) struct BatchOrigin {
    pub(crate) marks: Arc<WorkerMarks>,
    /// Number of the batch among the batches of its worker, from 1.
    pub(crate) batch_number: u64,
    /// Time of the first append to the batch.
    pub(crate) since: Moment,
    pub(crate) is_written_wanted: bool,
    pub(crate) is_sync_wanted: bool,
    pub(crate) awaited: Vec<Awaited>,
}

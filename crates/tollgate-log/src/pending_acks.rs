//! The batches whose replies wait for one sink.
//!
//! There is one [`PendingAcks`] for each sink. The writer adds a batch before the batch can be synced. The
//! syncer wakes the loader of the sink. The loader settles the records of each commit, and each worker gets
//! one message about its own. It holds only batches that replies wait for. A sync without any reads one
//! atomic.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::awaited::{Exception, Mishap, Settled, SinkBreaker, SinkPlace};
use crate::id::Sequence;
use crate::worker_batch::WorkerMarks;

/// A batch that replies of its worker wait for.
pub(crate) struct AwaitedBatch {
    pub(crate) marks: Arc<WorkerMarks>,
    /// Its number among the batches of its worker.
    pub(crate) batch_number: u64,
    /// Number of its first record.
    pub(crate) first: Sequence,
    /// The places of those that are waited for.
    pub(crate) places: Vec<Range<u32>>,
}

impl AwaitedBatch {
    /// The last record that is waited for.
    fn last(&self) -> Sequence {
        self.first.after(u64::from(self.places.last().map_or(1, |places| places.end))).before()
    }

    /// Whether somebody waits still.
    fn is_wanted(&self) -> bool {
        self.batch_number >= self.marks.waited_from()
    }

    fn mishaps(&self, exceptions: &[Exception]) -> Vec<(u64, u32, Mishap)> {
        let from = exceptions.partition_point(|exception| exception.last < self.first);
        let near = exceptions[from..].iter().take_while(|exception| exception.first <= self.last());
        let mishap = |exception: &Exception| {
            let place = |sequence: Sequence| {
                u32::try_from(sequence.0.saturating_sub(self.first.0)).unwrap_or(u32::MAX)
            };
            let (first, end) = (place(exception.first), place(exception.last.after(1)));
            let hit = self.places.iter().flat_map(move |places| places.start.max(first)..places.end.min(end));
            hit.map(|place| (self.batch_number, place, exception.mishap.clone())).collect::<Vec<_>>()
        };
        near.flat_map(mishap).collect()
    }
}

/// The batches whose acknowledgements wait for one sink, in the order of the log.
pub(crate) struct PendingAcks {
    sink: SinkPlace,
    is_open: AtomicBool,
    /// The last awaited record of the oldest batch; the largest number there is, if none waits.
    oldest: AtomicU64,
    waiting: Mutex<VecDeque<AwaitedBatch>>,
    /// What is waited for can be loaded.
    wake: Condvar,
}

impl PendingAcks {
    pub(crate) fn new(sink: SinkPlace) -> Self {
        let (is_open, oldest) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        Self { sink, is_open, oldest, waiting: Mutex::default(), wake: Condvar::new() }
    }

    pub(crate) fn sink(&self) -> SinkPlace {
        self.sink
    }

    pub(crate) fn breaker(&self) -> SinkBreaker {
        if self.is_open.load(Ordering::Relaxed) { SinkBreaker::Open } else { SinkBreaker::Closed }
    }

    pub(crate) fn set_breaker(&self, breaker: SinkBreaker) {
        self.is_open.store(breaker == SinkBreaker::Open, Ordering::Relaxed);
    }

    /// The queue is whole after every statement.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<AwaitedBatch>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch that is written and not yet synced. Drops batches whose replies no longer wait.
    pub(crate) fn add(&self, batch: AwaitedBatch) {
        let mut waiting = self.waiting();
        while waiting.front().is_some_and(|first| !first.is_wanted()) {
            waiting.pop_front();
        }
        waiting.push_back(batch);
        self.note_oldest(&waiting);
    }

    fn note_oldest(&self, waiting: &VecDeque<AwaitedBatch>) {
        let oldest = waiting.front().map_or(u64::MAX, |batch| batch.last().0);
        self.oldest.store(oldest, Ordering::Release);
    }

    /// Whether somebody waits for a record up to this one.
    pub(crate) fn is_awaited(&self, up_to: Sequence) -> bool {
        self.oldest.load(Ordering::Acquire) <= up_to.0
    }

    /// The first record of the oldest batch, if somebody waits for a record up to `last`.
    pub(crate) fn awaited_from(&self, last: Sequence) -> Option<Sequence> {
        if !self.is_awaited(last) {
            return None;
        }
        self.waiting().front().map(|batch| batch.first)
    }

    /// Wakes the loader, if what it is waited for is synced by now.
    pub(crate) fn synced(&self, up_to: Sequence) {
        if self.is_awaited(up_to) {
            // Under the lock, so that a loader which is about to wait misses nothing.
            let _waiting = self.waiting();
            self.wake.notify_all();
        }
    }

    /// Waits until somebody waits for what is synced, or the time is over.
    pub(crate) fn wait(&self, synced: impl Fn() -> Sequence, timeout: Duration) -> bool {
        let is_idle = |_: &mut VecDeque<AwaitedBatch>| !self.is_awaited(synced());
        drop(
            self.wake
                .wait_timeout_while(self.waiting(), timeout, is_idle)
                .unwrap_or_else(PoisonError::into_inner),
        );
        self.is_awaited(synced())
    }

    /// Releases those that wait for records up to `last`. Exceptions are in the order of the log.
    pub(crate) fn settle(&self, last: Sequence, exceptions: &[Exception]) {
        if !self.is_awaited(last) {
            return;
        }
        let mut settled: Vec<Arc<WorkerMarks>> = Vec::new();
        let mut waiting = self.waiting();
        while waiting.front().is_some_and(|batch| batch.last() <= last)
            && let Some(batch) = waiting.pop_front()
        {
            let mishaps = batch.mishaps(exceptions);
            batch.marks.inbox.put(Settled { sink: self.sink, batch: batch.batch_number, mishaps });
            if !settled.iter().any(|known| Arc::ptr_eq(known, &batch.marks)) {
                settled.push(batch.marks);
            }
        }
        self.note_oldest(&waiting);
        drop(waiting);
        settled.iter().for_each(|marks| marks.wake());
    }
}

//! The batches whose replies wait for one sink.
//!
//! There is one [`PendingAcks`] for each sink. The [`PendingAcks`] of a sink have only batches with replies
//! that wait for this sink. The writer adds a batch before the batch can be synced. After a sync, the syncer
//! wakes the loader of the sink. After each commit, the loader settles the records of that commit. Each
//! worker then gets one message about its own records. A sync that covers no such batch reads only one
//! atomic.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::awaited::{Exception, Mishap, Settled, SinkBreaker, SinkPlace};
use crate::id::Sequence;
use crate::worker_batch::WorkerMarks;

/// A batch with replies that wait.
pub(crate) struct AwaitedBatch {
    pub(crate) marks: Arc<WorkerMarks>,
    /// Number of the batch among the batches of its worker.
    pub(crate) batch_number: u64,
    /// Number of the first record of the batch.
    pub(crate) first: Sequence,
    /// Places in the batch, of the records whose replies wait.
    pub(crate) places: Vec<Range<u32>>,
}

impl AwaitedBatch {
    /// Returns the last record that a reply waits for.
    fn last(&self) -> Sequence {
        self.first.after(u64::from(self.places.last().map_or(1, |places| places.end))).before()
    }

    /// Returns whether a reply still waits for the batch.
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
    /// Last record of the oldest batch that a reply waits for, or `u64::MAX` if no batch waits.
    oldest: AtomicU64,
    waiting: Mutex<VecDeque<AwaitedBatch>>,
    /// Signals the loader that records with waiting replies can be loaded.
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

    /// Locks the queue. A poisoned lock is taken too, because each statement leaves the queue consistent.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<AwaitedBatch>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch that is written and not yet synced. Drops batches for which no reply waits any more.
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

    /// Returns whether a reply waits for a record up to this record.
    pub(crate) fn is_awaited(&self, up_to: Sequence) -> bool {
        self.oldest.load(Ordering::Acquire) <= up_to.0
    }

    /// Returns the first record of the oldest batch, if a reply waits for a record up to `last`.
    pub(crate) fn awaited_from(&self, last: Sequence) -> Option<Sequence> {
        if !self.is_awaited(last) {
            return None;
        }
        self.waiting().front().map(|batch| batch.first)
    }

    /// Wakes the loader if records with waiting replies are now synced.
    pub(crate) fn synced(&self, up_to: Sequence) {
        if self.is_awaited(up_to) {
            // The syncer holds the lock here. A loader that is about to wait therefore does not miss the
            // wake-up.
            let _waiting = self.waiting();
            self.wake.notify_all();
        }
    }

    /// Waits until a reply waits for a synced record, or `timeout` passes. Returns whether a reply waits for
    /// a synced record.
    pub(crate) fn wait(&self, synced: impl Fn() -> Sequence, timeout: Duration) -> bool {
        let is_idle = |_: &mut VecDeque<AwaitedBatch>| !self.is_awaited(synced());
        drop(
            self.wake
                .wait_timeout_while(self.waiting(), timeout, is_idle)
                .unwrap_or_else(PoisonError::into_inner),
        );
        self.is_awaited(synced())
    }

    /// Releases the replies that wait for records up to `last`. `exceptions` are in the order of the log.
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

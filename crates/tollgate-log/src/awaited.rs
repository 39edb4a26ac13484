//! Records that replies wait for until a sink has them: who waits, and what came of it.
//!
//! A [`Desk`] for each sink. The writer puts a batch down that holds such records before it can be synced; the syncer wakes
//! the sink's loader; the loader settles what its commit brought, and each worker is told by one message how far that is.
//! Records that nobody waits for are never here, so a stream without such replies pays one look at an atomic for a sync.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::append::{Ticket, WorkerMarks};
use crate::id::Sequence;

/// Names a sink by its place among those that a log has known, in the order in which they came; it is given once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SinkPlace(pub usize);

/// Whether a sink takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaker {
    /// As far as is known it does.
    Closed,
    /// The last try failed.
    Open,
}

/// What became of a record that is neither a row nor a duplicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mishap {
    /// It is kept as a reject, for this reason.
    Rejected(String),
    /// It is in a gap.
    Missing,
}

/// Records that a load passed without rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// The first.
    pub first: Sequence,
    /// The last.
    pub last: Sequence,
    /// What became of each.
    pub mishap: Mishap,
}

/// Records of a batch that replies wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Until this sink has them.
    pub(crate) sink: SinkPlace,
    /// Their places in the batch.
    pub(crate) places: Range<u32>,
}

impl Awaited {
    /// Adds records to those of a batch.
    pub(crate) fn add(all: &mut Vec<Self>, sink: SinkPlace, places: Range<u32>) {
        match all.last_mut() {
            Some(last) if last.sink == sink && last.places.end == places.start => {
                last.places.end = places.end;
            }
            _ => all.push(Self { sink, places }),
        }
    }
}

/// Tells a worker that a sink has what its replies waited for, up to some batch.
#[derive(Debug)]
pub struct Settled {
    sink: SinkPlace,
    batch: u64,
    /// Batch and place in it, in their order.
    mishaps: Vec<(u64, u32, Mishap)>,
}

impl Settled {
    /// The sink.
    pub fn sink(&self) -> SinkPlace {
        self.sink
    }

    /// Whether the records of a transaction are among them.
    pub fn covers(&self, ticket: Ticket) -> bool {
        ticket.batch <= self.batch
    }

    /// What became of those records of a transaction that are no rows: each with its place among them.
    pub fn mishaps_of(&self, ticket: Ticket) -> impl Iterator<Item = (usize, &Mishap)> {
        let from =
            self.mishaps.partition_point(|(batch, place, _)| (*batch, *place) < (ticket.batch, ticket.first));
        let end = (ticket.batch, ticket.first + ticket.count);
        let of_ticket =
            self.mishaps[from..].iter().take_while(move |(batch, place, _)| (*batch, *place) < end);
        of_ticket.map(move |(_, place, mishap)| ((place - ticket.first) as usize, mishap))
    }
}

/// What the loaders told a worker and it has not taken yet: one message for each sink at most.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<Vec<Settled>>);

impl Inbox {
    pub(crate) fn take(&self) -> Vec<Settled> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, settled: Settled) {
        let mut inbox = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match inbox.iter_mut().find(|known| known.sink == settled.sink) {
            Some(known) => {
                known.batch = settled.batch;
                known.mishaps.extend(settled.mishaps);
            }
            None => inbox.push(settled),
        }
    }
}

/// A batch that replies of its worker wait for.
pub(crate) struct AwaitedBatch {
    pub(crate) marks: Arc<WorkerMarks>,
    pub(crate) ticket: u64,
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
        self.ticket >= self.marks.waited_from()
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
            hit.map(|place| (self.ticket, place, exception.mishap.clone())).collect::<Vec<_>>()
        };
        near.flat_map(mishap).collect()
    }
}

/// Who waits for one sink, in the order of the log.
pub(crate) struct Desk {
    sink: SinkPlace,
    is_open: AtomicBool,
    /// The last awaited record of the oldest batch; the largest number there is, if none waits.
    oldest: AtomicU64,
    waiting: Mutex<VecDeque<AwaitedBatch>>,
    /// What is waited for can be loaded.
    wake: Condvar,
}

impl Desk {
    pub(crate) fn new(sink: SinkPlace) -> Self {
        let (is_open, oldest) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        Self { sink, is_open, oldest, waiting: Mutex::default(), wake: Condvar::new() }
    }

    pub(crate) fn sink(&self) -> SinkPlace {
        self.sink
    }

    pub(crate) fn breaker(&self) -> Breaker {
        if self.is_open.load(Ordering::Relaxed) { Breaker::Open } else { Breaker::Closed }
    }

    pub(crate) fn set_breaker(&self, breaker: Breaker) {
        self.is_open.store(breaker == Breaker::Open, Ordering::Relaxed);
    }

    /// The queue is whole after every statement.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<AwaitedBatch>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a batch down that was written and is not synced yet. Those that nobody waits for any more go.
    pub(crate) fn put(&self, batch: AwaitedBatch) {
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
        let mut told: Vec<Arc<WorkerMarks>> = Vec::new();
        let mut waiting = self.waiting();
        while waiting.front().is_some_and(|batch| batch.last() <= last)
            && let Some(batch) = waiting.pop_front()
        {
            let mishaps = batch.mishaps(exceptions);
            batch.marks.inbox.put(Settled { sink: self.sink, batch: batch.ticket, mishaps });
            if !told.iter().any(|known| Arc::ptr_eq(known, &batch.marks)) {
                told.push(batch.marks);
            }
        }
        self.note_oldest(&waiting);
        drop(waiting);
        told.iter().for_each(|marks| marks.wake());
    }
}

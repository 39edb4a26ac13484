//! Step 5 as a worker sees it: records go to the log in one batch per pass, replies wait until the log got on.
//!
//! The first append of a pass wakes [`Recorder::hand_over`]; the run queue is first in, first out, so it runs after
//! every connection that is ready now, and their records leave in one batch. The log wakes [`Recorder::release`], which
//! wakes the connections whose records are there.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_log::{AppendError, Appender, Level, Log, Ticket, Transaction};

/// How often requests that came meanwhile may join a batch.
const GATHER_ROUNDS_MAX: usize = 4;
/// How long to wait for a place in the queue of the log's writer.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(1);
/// How often a worker that ends tries to hand over its last batch.
const LAST_TRIES_MAX: usize = 1000;

/// What a reply waits for: the batch of its records, at the level of their stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gate {
    ticket: Ticket,
    level: Level,
}

/// The log failed before a gate opened: whether the records survive is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

/// One worker's end of the log, made outside of its thread.
pub(crate) struct LogEnd {
    appender: Appender,
    progress: Arc<Notify>,
}

impl LogEnd {
    pub(crate) fn new(log: &Log) -> Self {
        let progress = Arc::new(Notify::new());
        let wake = progress.clone();
        Self { appender: log.appender(move || wake.notify_one()), progress }
    }
}

pub(crate) struct Recorder {
    appender: RefCell<Appender>,
    /// The log got on.
    progress: Arc<Notify>,
    /// There is something to hand over.
    pending: Notify,
    waiters: [RefCell<Waiters>; Level::ALL.len()],
}

impl Recorder {
    pub(crate) fn new(end: LogEnd) -> Self {
        Self {
            appender: RefCell::new(end.appender),
            progress: end.progress,
            pending: Notify::new(),
            waiters: Default::default(),
        }
    }

    /// Appends the records of one transaction and returns what its reply has to wait for, if anything.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub(crate) fn append<R>(
        &self,
        level: Level,
        fill: impl FnOnce(&mut Transaction<'_>) -> R,
    ) -> Result<(Option<Gate>, R), AppendError> {
        let mut appender = self.appender.borrow_mut();
        let before = appender.pending();
        let (ticket, result) = appender.append(level, fill)?;
        if before == 0 && appender.pending() > 0 {
            self.pending.notify_one();
        }
        Ok((ticket.map(|ticket| Gate { ticket, level }), result))
    }

    /// Waits until a gate is open.
    ///
    /// # Cancel safety
    /// Dropping it leaves a waiter that wakes a task for nothing.
    pub(crate) async fn wait(&self, gate: Gate) -> Result<(), Lost> {
        let mut is_waiting = false;
        poll_fn(|context| self.poll_gate(gate, &mut is_waiting, context)).await
    }

    fn poll_gate(&self, gate: Gate, is_waiting: &mut bool, context: &Context<'_>) -> Poll<Result<(), Lost>> {
        if let Some(reached) = self.appender.borrow().reached(gate.ticket, gate.level) {
            return Poll::Ready(reached.map_err(|_| Lost));
        }
        if !*is_waiting {
            *is_waiting = true;
            self.waiters(gate.level).borrow_mut().insert(gate.ticket, context.waker().clone());
        }
        Poll::Pending
    }

    pub(crate) fn is_open(&self, gate: Gate) -> bool {
        matches!(self.appender.borrow().reached(gate.ticket, gate.level), Some(Ok(())))
    }

    fn waiters(&self, level: Level) -> &RefCell<Waiters> {
        &self.waiters[level as usize]
    }

    /// Hands batches to the log's writer, for ever.
    pub(crate) async fn hand_over(&self) {
        loop {
            self.pending.notified().await;
            self.gather().await;
            self.hand_over_all().await;
        }
    }

    /// Lets requests that came meanwhile join the batch, as long as there are any: no longer than it takes to answer
    /// them, and a lone request waits for one look at the sockets.
    async fn gather(&self) {
        let pending = || self.appender.borrow().pending();
        for _ in 0..GATHER_ROUNDS_MAX {
            let before = pending();
            tokio::task::yield_now().await;
            if pending() <= before {
                return;
            }
        }
    }

    /// Hands over what is pending; afterwards nothing is, unless the log stopped.
    pub(crate) async fn hand_over_all(&self) {
        while !self.try_hand_over() {
            tokio::time::sleep(QUEUE_FULL_PAUSE).await;
        }
    }

    /// Hands over what was appended when no task runs any more; not beyond [`LAST_TRIES_MAX`], if the log is that far behind.
    pub(crate) fn hand_over_last(&self) {
        for _ in 0..LAST_TRIES_MAX {
            if self.try_hand_over() {
                return;
            }
            std::thread::sleep(QUEUE_FULL_PAUSE);
        }
    }

    fn try_hand_over(&self) -> bool {
        self.appender.borrow_mut().hand_over()
    }

    /// Wakes the connections whose records got where they should be, for ever.
    pub(crate) async fn release(&self) {
        loop {
            self.progress.notified().await;
            for level in Level::ALL {
                while let Some(waker) = self.next_released(level) {
                    waker.wake();
                }
            }
        }
    }

    fn next_released(&self, level: Level) -> Option<Waker> {
        let mut waiters = self.waiters(level).borrow_mut();
        let (ticket, _) = waiters.queue.front()?;
        self.appender.borrow().reached(*ticket, level)?.ok();
        waiters.queue.pop_front().map(|(_, waker)| waker)
    }
}

/// Who waits for which batch, in the order of the batches.
#[derive(Default)]
struct Waiters {
    queue: VecDeque<(Ticket, Waker)>,
}

impl Waiters {
    fn insert(&mut self, ticket: Ticket, waker: Waker) {
        let later = self.queue.iter().rev().take_while(|(waiting, _)| *waiting > ticket).count();
        self.queue.insert(self.queue.len() - later, (ticket, waker));
    }
}

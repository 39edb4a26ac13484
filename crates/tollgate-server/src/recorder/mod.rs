//! Hands the records of one worker to the log, in one batch per pass, and holds the replies that wait for the
//! log. This is step 5 of a transaction.
//!
//! The first append of a pass wakes [`Recorder::hand_over`]. The run queue is first in, first out, so this
//! task runs after every connection that is ready now. The records of all these connections form one batch.
//!
//! While the disk is fast, the worker writes the batch itself. Connections that wait only for the write then
//! continue at once. For all others the log wakes [`Recorder::release`], which wakes the connections whose
//! records reached their level. [`loading`] holds the replies that wait for a sink.

mod ack_outcome;
mod loading;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tollgate_log::{AppendError, AppendedRecords, Appender, Level, Log, SinkBreaker, SinkPlace, Transaction};
use tollgate_script::RequestId;

use crate::observe::WorkerCells;
use crate::options::stream::{Ack, AwaitedKind, WhenAway};
pub(crate) use ack_outcome::AckOutcome;
pub(crate) use loading::Loading;
use loading::Loadings;

/// Maximum number of rounds in which new requests may join a batch.
const GATHER_ROUNDS_MAX: usize = 4;
/// Pause before the next attempt, if the write queue of the log is full.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(1);
/// Maximum number of attempts of a worker that ends to hand over its last batch.
const LAST_TRIES_MAX: usize = 1000;

/// The condition that a reply waits for: its records have reached the ack level of their stream.
#[derive(Debug, Clone)]
pub(crate) enum Gate {
    /// The batch of the records has reached a level of the log.
    Log {
        ticket: AppendedRecords,
        level: Level,
    },
    Loaded(Rc<Loading>),
}

impl Gate {
    /// Stores the reasons why records became rejects, by their index in the transaction. The client may read
    /// these reasons.
    pub(crate) fn note_rejected(&self, reasons: &[(usize, String)]) {
        if let Self::Loaded(loading) = self {
            loading.note_rejected(reasons);
        }
    }
}

/// The parts that connect one worker with the log. The parts are created outside of the thread of the worker.
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
    cells: Arc<WorkerCells>,
    appender: RefCell<Appender>,
    /// Notified when the log has advanced.
    progress: Arc<Notify>,
    /// Notified when records wait to be handed over.
    pending: Notify,
    waiters: [RefCell<Waiters>; Level::ALL.len()],
    loadings: RefCell<Loadings>,
}

impl Recorder {
    pub(crate) fn new(end: LogEnd, cells: &Arc<WorkerCells>) -> Self {
        Self {
            cells: cells.clone(),
            appender: RefCell::new(end.appender),
            progress: end.progress,
            pending: Notify::new(),
            waiters: Default::default(),
            loadings: RefCell::default(),
        }
    }

    /// Returns the counters of the worker.
    pub(crate) fn cells(&self) -> &WorkerCells {
        &self.cells
    }

    /// Appends the records of a transaction. Returns the [`Gate`] that the reply has to wait for, if there is
    /// one.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub(crate) fn append<R>(
        &self,
        ack: Ack,
        id: &RequestId,
        fill: impl FnOnce(&mut Transaction<'_>) -> R,
    ) -> Result<(Option<Gate>, R), AppendError> {
        let ack = self.reachable(ack);
        let mut appender = self.appender.borrow_mut();
        let before = appender.pending();
        let (ticket, result) = match ack {
            Ack::Log(level) => appender.append(level, fill)?,
            Ack::Loaded { sink, .. } | Ack::Queued { sink, .. } => appender.append_awaited(sink, fill)?,
        };
        if before == 0 && appender.pending() > 0 {
            self.pending.notify_one();
        }
        Ok((ticket.map(|ticket| self.gate(ack, ticket, id)), result))
    }

    fn gate(&self, ack: Ack, ticket: AppendedRecords, id: &RequestId) -> Gate {
        let (kind, sink, timeout) = match ack {
            Ack::Log(level) => return Gate::Log { ticket, level },
            Ack::Loaded { sink, timeout } => (AwaitedKind::Database, sink, timeout),
            Ack::Queued { sink, timeout, .. } => (AwaitedKind::Queue, sink, timeout),
        };
        let loading = Loading::new(ticket, kind, Instant::now() + timeout, id.clone());
        self.loadings.borrow_mut().push(sink, loading.clone());
        Gate::Loaded(loading)
    }

    /// Returns the level that records can reach now. While a queue is away, it may be a lower one.
    fn reachable(&self, ack: Ack) -> Ack {
        match ack {
            Ack::Queued { sink, when_away: WhenAway::Synced, .. }
                if self.breaker(sink) == SinkBreaker::Open =>
            {
                Ack::Log(Level::Synced)
            }
            ack => ack,
        }
    }

    /// Returns the kind of sink that is away, if records of this level are refused because the breaker of
    /// their sink is open.
    pub(crate) fn away(&self, ack: Ack) -> Option<AwaitedKind> {
        let (kind, sink) = match ack {
            Ack::Log(_) | Ack::Queued { when_away: WhenAway::Synced, .. } => return None,
            Ack::Loaded { sink, .. } => (AwaitedKind::Database, sink),
            Ack::Queued { sink, .. } => (AwaitedKind::Queue, sink),
        };
        (self.breaker(sink) == SinkBreaker::Open).then_some(kind)
    }

    /// Checks whether the log takes records now, so that a request can be refused before any work.
    ///
    /// # Errors
    /// Nothing can be recorded now.
    #[inline]
    pub(crate) fn check(&self, ack: Ack, now: Instant) -> Result<(), AppendError> {
        let level = match ack {
            Ack::Log(level) => level,
            Ack::Loaded { .. } | Ack::Queued { .. } => Level::Synced,
        };
        self.appender.borrow().check(level, now)
    }

    /// Lets the log check its queue, so that it logs the time from which on it accepts records again after
    /// the disk was slow.
    pub(crate) fn look(&self, now: Instant) {
        self.appender.borrow().look(now);
    }

    fn breaker(&self, sink: SinkPlace) -> SinkBreaker {
        self.appender.borrow().breaker(sink)
    }

    /// Waits until the outcome of the records is known.
    ///
    /// # Cancel safety
    /// After a drop of the future, its waiter remains, and wakes a task once without need.
    pub(crate) async fn wait(&self, gate: &Gate) -> AckOutcome {
        let mut waiting = None;
        poll_fn(|context| match gate {
            Gate::Log { ticket, level } => self.poll_level((*ticket, *level), &mut waiting, context),
            Gate::Loaded(loading) => loading.poll(context),
        })
        .await
    }

    fn poll_level(
        &self,
        (ticket, level): (AppendedRecords, Level),
        waiting: &mut Option<Waker>,
        context: &Context<'_>,
    ) -> Poll<AckOutcome> {
        if let Some(reached) = self.appender.borrow().reached(ticket, level) {
            return Poll::Ready(if reached.is_ok() { AckOutcome::Kept } else { AckOutcome::Lost });
        }
        let waker = context.waker();
        if !waiting.as_ref().is_some_and(|waiting| waiting.will_wake(waker)) {
            *waiting = Some(waker.clone());
            self.waiters(level).borrow_mut().insert(ticket, waker.clone());
        }
        Poll::Pending
    }

    /// Returns the outcome of the records so far. An unknown outcome counts as lost.
    pub(crate) fn outcome(&self, gate: &Gate) -> AckOutcome {
        match gate {
            Gate::Log { ticket, level } => match self.appender.borrow().reached(*ticket, *level) {
                Some(Ok(())) => AckOutcome::Kept,
                _ => AckOutcome::Lost,
            },
            Gate::Loaded(loading) => loading.outcome().unwrap_or(AckOutcome::Lost),
        }
    }

    /// Returns the number of replies that wait for the log.
    fn waiting(&self) -> usize {
        self.waiters.iter().map(|waiters| waiters.borrow().queue.len()).sum()
    }

    fn waiters(&self, level: Level) -> &RefCell<Waiters> {
        &self.waiters[level as usize]
    }

    /// Hands batches to the log, as long as the worker runs. `connections` returns the number of connections
    /// of the worker.
    pub(crate) async fn hand_over(&self, connections: impl Fn() -> usize) {
        loop {
            self.pending.notified().await;
            self.gather(&connections).await;
            self.hand_over_all().await;
        }
    }

    /// Lets new requests join the batch while further requests arrive. Each round costs one poll of the
    /// sockets. If all connections already wait for the log, there is no round.
    async fn gather(&self, connections: impl Fn() -> usize) {
        let pending = || self.appender.borrow().pending();
        for _ in 0..GATHER_ROUNDS_MAX {
            if self.waiting() >= connections() {
                return;
            }
            let before = pending();
            tokio::task::yield_now().await;
            if pending() <= before {
                return;
            }
        }
    }

    /// Hands over all pending records, unless the log stopped, and wakes the connections whose records were
    /// written.
    pub(crate) async fn hand_over_all(&self) {
        while !self.try_hand_over() {
            tokio::time::sleep(QUEUE_FULL_PAUSE).await;
        }
        self.release_reached();
    }

    /// Hands over pending records after all tasks ended. Gives up after [`LAST_TRIES_MAX`] tries if the log
    /// is too slow.
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

    /// Wakes the connections whose records reached their ack level, as long as the worker runs.
    pub(crate) async fn release(&self) {
        loop {
            self.progress.notified().await;
            self.release_reached();
            self.release_loaded();
        }
    }

    fn release_reached(&self) {
        for level in Level::ALL {
            while let Some(waker) = self.next_released(level) {
                waker.wake();
            }
        }
    }

    fn release_loaded(&self) {
        let (settled, is_stopped) = {
            let appender = self.appender.borrow();
            (appender.take_settled(), appender.is_stopped())
        };
        let mut loadings = self.loadings.borrow_mut();
        settled.iter().for_each(|settled| loadings.settle(settled));
        if is_stopped {
            loadings.end(AckOutcome::Lost);
        }
    }

    /// Ends the waits for a sink that timed out.
    pub(crate) fn expire(&self, now: Instant) {
        let mut loadings = self.loadings.borrow_mut();
        if !loadings.is_empty() {
            let oldest = loadings.expire(now);
            self.appender.borrow().wait_from(oldest);
        }
    }

    /// Ends all waits for sinks, because the drain timeout of the server has passed.
    pub(crate) fn give_up(&self) {
        self.loadings.borrow_mut().end(AckOutcome::Late);
    }

    fn next_released(&self, level: Level) -> Option<Waker> {
        let mut waiters = self.waiters(level).borrow_mut();
        let (ticket, _) = waiters.queue.front()?;
        self.appender.borrow().reached(*ticket, level)?.ok();
        waiters.queue.pop_front().map(|(_, waker)| waker)
    }
}

/// Tasks that wait for batches, in the order of the batches.
#[derive(Default)]
struct Waiters {
    queue: VecDeque<(AppendedRecords, Waker)>,
}

impl Waiters {
    fn insert(&mut self, ticket: AppendedRecords, waker: Waker) {
        let later = self.queue.iter().rev().take_while(|(waiting, _)| *waiting > ticket).count();
        self.queue.insert(self.queue.len() - later, (ticket, waker));
    }
}

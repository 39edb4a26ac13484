//! Replies that wait until a sink has their records.
//!
//! Each sink has one queue in the order of the batches, because the log reports the position of the sink. A
//! reply that times out is sent earlier, but its entry stays in the queue until all earlier entries are done.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use tollgate_log::{AppendedRecords, Mishap, Settled, SinkPlace};
use tollgate_script::RequestId;

use super::ack_outcome::AckOutcome;
use crate::item_summary::item_summary;
use crate::options::stream::AwaitedKind;

/// One transaction with a reply that waits.
#[derive(Debug)]
pub(crate) struct Loading {
    ticket: AppendedRecords,
    kind: AwaitedKind,
    deadline: Instant,
    id: RequestId,
    /// Reasons of rejects for the client, by the index of the record.
    rejected: RefCell<BTreeMap<usize, String>>,
    state: RefCell<State>,
}

#[derive(Debug)]
enum State {
    Waiting(Option<Waker>),
    Over(AckOutcome),
}

impl Loading {
    pub(super) fn new(
        ticket: AppendedRecords,
        kind: AwaitedKind,
        deadline: Instant,
        id: RequestId,
    ) -> Rc<Self> {
        let (rejected, state) = (RefCell::default(), RefCell::new(State::Waiting(None)));
        Rc::new(Self { ticket, kind, deadline, id, rejected, state })
    }

    /// Stores the reasons why records became rejects. The client may read these reasons.
    pub(super) fn note_rejected(&self, reasons: &[(usize, String)]) {
        self.rejected.borrow_mut().extend(reasons.iter().cloned());
    }

    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<AckOutcome> {
        match &mut *self.state.borrow_mut() {
            State::Over(outcome) => Poll::Ready(*outcome),
            State::Waiting(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Returns the outcome, or `None` while the reply waits.
    pub(super) fn outcome(&self) -> Option<AckOutcome> {
        match &*self.state.borrow() {
            State::Over(outcome) => Some(*outcome),
            State::Waiting(_) => None,
        }
    }

    /// Returns the kind of sink that the reply waits for.
    pub(crate) const fn kind(&self) -> AwaitedKind {
        self.kind
    }

    /// Returns the content of a reply about records that are not all rows.
    pub(crate) fn summary(&self) -> Bytes {
        let rejected = self.rejected.borrow();
        item_summary(self.ticket.count(), rejected.iter().map(|(place, reason)| (*place, reason.as_str())))
    }

    fn settle(&self, settled: &Settled) {
        let mut outcome = AckOutcome::Kept;
        for (place, mishap) in settled.mishaps_of(self.ticket) {
            match mishap {
                Mishap::Missing => outcome = AckOutcome::Missing,
                Mishap::Rejected(reason) => {
                    tracing::info!(id = %self.id, record = place, reason, "the sink refused a record: its reply reports a reject");
                    self.rejected
                        .borrow_mut()
                        .entry(place)
                        .or_insert_with(|| self.kind.rejected().to_owned());
                    if outcome == AckOutcome::Kept {
                        outcome = AckOutcome::Rejected;
                    }
                }
            }
        }
        self.end(outcome);
    }

    /// Sets the outcome, unless there is one already.
    fn end(&self, outcome: AckOutcome) {
        let mut state = self.state.borrow_mut();
        if let State::Waiting(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Over(outcome);
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// All replies that wait, by sink.
#[derive(Default)]
pub(super) struct Loadings(BTreeMap<SinkPlace, VecDeque<Rc<Loading>>>);

impl Loadings {
    /// Adds a reply at the end of the queue.
    pub(super) fn push(&mut self, sink: SinkPlace, loading: Rc<Loading>) {
        self.0.entry(sink).or_default().push_back(loading);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(VecDeque::is_empty)
    }

    /// Releases the replies whose records the sink has.
    pub(super) fn settle(&mut self, settled: &Settled) {
        let Some(queue) = self.0.get_mut(&settled.sink()) else { return };
        while queue.front().is_some_and(|loading| settled.covers(loading.ticket))
            && let Some(loading) = queue.pop_front()
        {
            loading.settle(settled);
        }
    }

    /// Ends the replies that timed out. Returns the oldest records that are still awaited.
    pub(super) fn expire(&mut self, now: Instant) -> Option<AppendedRecords> {
        for queue in self.0.values_mut() {
            queue
                .iter()
                .filter(|loading| loading.deadline <= now)
                .for_each(|loading| loading.end(AckOutcome::Late));
            while queue.front().is_some_and(|loading| loading.outcome().is_some()) {
                queue.pop_front();
            }
        }
        self.0.values().filter_map(|queue| queue.front()).map(|loading| loading.ticket).min()
    }

    /// Ends all waits with `outcome`.
    pub(super) fn end(&mut self, outcome: AckOutcome) {
        for queue in self.0.values_mut() {
            queue.drain(..).for_each(|loading| loading.end(outcome));
        }
    }
}

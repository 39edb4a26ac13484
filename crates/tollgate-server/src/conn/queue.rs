//! Requests of one connection that are in their handlers, in their order: those whose handlers did not return at once, and
//! what came behind them.
//!
//! Handlers with safe methods run side by side. Any other runs when those before it have returned - returned, not
//! acknowledged - and nothing runs behind it (RFC 9112 section 9.3.2). Answers are made, and records appended, in the
//! order of the requests.
//!
//! A handler that waits is polled wherever the connection is, and runs on when what it waits for is there.
//!
//! Handlers run where the connection would wait otherwise, in turns: after a slice of one of them the other connections of
//! the worker have theirs. A connection with many running handlers has no larger share of the worker than one with one:
//! for those of its scripts that go on after a slice, or may not begin at once, it has one place in the lane of the worker. (A
//! reply that a script streams has a place of its own.) And a thread of the worker looks at files for one of its handlers at a time,
//! not before the client has taken the replies to those before it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate_http::{Method, Version};

use super::Arrived;
use crate::handler::{Answer, Handled, Turn, Visit};
use crate::lane::{Door, Guest, Ticket};
use crate::recorder::Recorder;
use crate::reply::Reply;
use crate::turn::give_turn;
use crate::worker::Worker;

/// What the form of a reply depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) is_head: bool,
    pub(super) version: Version,
    /// When the head of the request was complete.
    pub(super) begun: Instant,
}

impl Form {
    pub(super) fn of(arrived: &Arrived) -> Self {
        let head = &arrived.head;
        Self { is_head: head.method() == Method::Head, version: head.version(), begun: arrived.begun }
    }
}

/// What answers a request.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are handlers, and a box for each is an allocation for each"
)]
pub(super) enum Source {
    Handler(Visit),
    /// The server by itself.
    Reply(Reply),
}

/// A request that is answered, and not replied to.
pub(super) struct Answered {
    pub(super) answer: Answer<'static>,
    /// Of a request that had a handler.
    pub(super) handled: Option<Handled>,
    pub(super) form: Form,
}

struct Entry {
    source: Source,
    form: Form,
    /// What it holds, as it was counted.
    bytes: usize,
    /// How long its script ran since it began, or waited.
    ran: Duration,
    /// While its script waits for its turn in the lane.
    guest: Option<Guest>,
}

impl Answered {
    /// Ends the time of a content that nobody takes yet: replies before it leave slowly.
    fn watch(&mut self, context: &mut Context<'_>) {
        if let Some(flow) = &mut self.answer.flow {
            let _ = flow.poll_overdue(context);
        }
    }
}

#[derive(Default)]
pub(super) struct Queue {
    /// Behind all that are answered. At most the last of them has a method that is not safe.
    running: VecDeque<Entry>,
    answered: VecDeque<Answered>,
    /// Of the one that runs next.
    next_index: usize,
    bytes: usize,
    /// Its place among the worker's scripts that go on after a slice, while it has such.
    ticket: Option<Ticket>,
    /// Others are to have their turn: a slice has run, or one can.
    is_turn_over: bool,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.answered.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.running.len() + self.answered.len()
    }

    /// What is held for the requests, and for their replies.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether what comes behind may join: not behind a method that is not safe.
    pub(super) fn takes_more(&self) -> bool {
        self.running.back().is_none_or(Entry::is_safe)
    }

    /// Adds the last one.
    pub(super) fn push(&mut self, source: Source, form: Form) {
        let mut entry = Entry { source, form, bytes: 0, ran: Duration::ZERO, guest: None };
        self.bytes += entry.count();
        self.running.push_back(entry);
    }

    /// Adds one that had its first turn, in which it ran so long.
    pub(super) fn push_begun(&mut self, visit: Visit, turn: Turn, ran: Duration, form: Form) {
        self.is_turn_over = turn == Turn::Sliced;
        self.push(Source::Handler(visit), form);
        if let Some(entry) = self.running.back_mut() {
            entry.note(ran);
        }
    }

    /// Takes the first, if it is answered.
    pub(super) fn pop(&mut self) -> Option<Answered> {
        let answered = self.answered.pop_front()?;
        self.bytes -= answered.answer.reply.content.len();
        if self.is_empty() {
            *self = Self::default();
        }
        Some(answered)
    }

    /// Waits for `future`, and runs the handlers meanwhile. The future stays where it is pinned: it may be large.
    pub(super) fn beside<F: Future + Unpin>(
        &mut self,
        worker: &Worker,
        mut future: F,
    ) -> impl Future<Output = F::Output> {
        poll_fn(move |context| {
            let polled = Pin::new(&mut future).poll(context);
            if polled.is_pending() {
                self.run(worker, context);
            }
            polled
        })
    }

    /// Waits for `future` or the answer to the first request, whichever is there before. None: the answer.
    ///
    /// # Cancel safety
    /// Of `future`: behind the answer it is not polled on.
    pub(super) fn race<F: Future + Unpin>(
        &mut self,
        worker: &Worker,
        mut future: F,
    ) -> impl Future<Output = Option<F::Output>> {
        poll_fn(move |context| {
            if !self.answered.is_empty() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(output) = Pin::new(&mut future).poll(context) {
                return Poll::Ready(Some(output));
            }
            self.run(worker, context);
            if self.answered.is_empty() { Poll::Pending } else { Poll::Ready(None) }
        })
    }

    /// Ends all, in their order: nobody is there to reply to.
    pub(super) fn cancel(&mut self, recorder: &Recorder) {
        for entry in self.running.drain(..) {
            if let Source::Handler(visit) = entry.source {
                visit.cancel(recorder);
            }
        }
        *self = Self::default();
    }

    /// Runs handlers until one has run its slice, or none can go on: those that wait are asked once.
    fn run(&mut self, worker: &Worker, context: &mut Context<'_>) {
        let recorder = &worker.recorder;
        for entry in self.running.iter_mut().filter(|entry| !entry.has_errand()) {
            let before = entry.bytes;
            entry.poll_wait(context);
            self.bytes = self.bytes - before + entry.count();
        }
        self.settle(recorder);
        while !self.is_turn_over
            && let Some(entry) = self.next_to_run()
        {
            let before = entry.bytes;
            if entry.queues_up_first() {
                continue;
            }
            let was_in_lane = entry.is_in_lane();
            // It was taken on before others in the lane made what is in flight now.
            let turn = if was_in_lane && entry.is_untouched() && worker.crowd.is_full() {
                entry.refuse(worker)
            } else {
                entry.run(context)
            };
            let is_in_lane = entry.is_in_lane();
            let after = entry.count();
            self.bytes = self.bytes - before + after;
            self.is_turn_over = turn == Turn::Sliced;
            if was_in_lane && !is_in_lane {
                // Behind one that left the lane the next one takes a place of its own.
                self.ticket = None;
            } else if self.is_turn_over {
                self.spend_ticket();
            }
            self.settle(recorder);
        }
        if !self.running.is_empty() {
            self.queue_up(context);
            self.send_on_errand(context);
        }
        if std::mem::take(&mut self.is_turn_over) {
            give_turn(context);
        }
        for answered in &mut self.answered {
            answered.watch(context);
        }
    }

    /// Whichever script ran a slice, others in the lane waited for it.
    fn spend_ticket(&mut self) {
        if let Some(ticket) = self.ticket.as_mut().filter(|ticket| ticket.is_first()) {
            ticket.spend();
        }
    }

    /// Has a place in the lane as long as a script needs one, and is polled when it is first.
    fn queue_up(&mut self, context: &Context<'_>) {
        let may_begin = self.answered.is_empty();
        let mut in_turn = self.running.iter().filter(|entry| may_begin || !entry.has_to_begin());
        let Some(guest) = in_turn.find_map(|entry| entry.guest.as_ref()) else {
            return self.ticket = None;
        };
        let ticket = self.ticket.get_or_insert_with(|| guest.enter());
        if ticket.is_first() {
            ticket.give_turn();
            self.is_turn_over = true;
        } else {
            ticket.watch(context.waker());
        }
    }

    /// Asks a thread to look at files for the next one that needs it. What is not taken yet is not added to.
    fn send_on_errand(&mut self, context: &mut Context<'_>) {
        if !self.answered.is_empty() || self.running.iter().any(Entry::is_on_errand) {
            return;
        }
        if let Some(entry) = self.running.iter_mut().find(|entry| entry.has_errand()) {
            let before = entry.bytes;
            entry.poll_wait(context);
            self.bytes = self.bytes - before + entry.count();
            // A wait that is over at once is a turn, too.
            self.is_turn_over |= !entry.is_on_errand();
        }
    }

    /// In turns, so that none waits for another that does not end. One that is not safe has to be the first.
    fn next_to_run(&mut self) -> Option<&mut Entry> {
        let count = self.running.len();
        let from = self.next_index.min(count);
        let is_its_turn = self.ticket.as_mut().is_some_and(Ticket::may_run);
        // One that waits to begin adds nothing to what the client has not taken yet.
        let may_begin = self.answered.is_empty();
        let is_in_turn =
            |entry: &Entry| !entry.waits_in_lane() || (is_its_turn && (may_begin || !entry.has_to_begin()));
        let may_run = |index: &usize| {
            let entry = &self.running[*index];
            entry.can_run() && (*index == 0 || entry.is_safe()) && is_in_turn(entry)
        };
        let index = (from..count).chain(0..from).find(may_run)?;
        self.next_index = index + 1;
        self.running.get_mut(index)
    }

    /// Answers those at the front whose handlers have returned.
    fn settle(&mut self, recorder: &Recorder) {
        while let Some(first) = self.running.front_mut()
            && let Some((answer, handled)) = first.answer(recorder)
        {
            self.bytes = self.bytes - first.bytes + answer.reply.content.len();
            let form = first.form;
            self.answered.push_back(Answered { answer, handled, form });
            self.running.pop_front();
            self.next_index = self.next_index.saturating_sub(1);
        }
    }
}

impl Entry {
    fn is_safe(&self) -> bool {
        match &self.source {
            Source::Handler(visit) => visit.is_safe(),
            Source::Reply(_) => true,
        }
    }

    fn can_run(&self) -> bool {
        match &self.source {
            Source::Handler(visit) => visit.can_run(),
            Source::Reply(_) => false,
        }
    }

    fn has_errand(&self) -> bool {
        matches!(&self.source, Source::Handler(visit) if visit.has_errand())
    }

    fn is_on_errand(&self) -> bool {
        matches!(&self.source, Source::Handler(visit) if visit.is_on_errand())
    }

    fn poll_wait(&mut self, context: &mut Context<'_>) {
        if let Source::Handler(visit) = &mut self.source {
            visit.poll_wait(context);
        }
    }

    /// Whether it comes to the lane by this, before it has run.
    fn queues_up_first(&mut self) -> bool {
        if let Source::Handler(visit) = &self.source
            && !self.is_in_lane()
        {
            self.guest = visit.held_back_at().map(Door::welcome);
            return self.is_in_lane();
        }
        false
    }

    /// Whether nothing of its script ran.
    fn has_to_begin(&self) -> bool {
        matches!(&self.source, Source::Handler(visit) if visit.has_to_begin())
    }

    /// Whether it can be refused still.
    fn is_untouched(&self) -> bool {
        matches!(&self.source, Source::Handler(visit) if visit.is_untouched())
    }

    /// Answers in place of its handler, of which nothing ran: too much is in flight.
    fn refuse(&mut self, worker: &Worker) -> Turn {
        if let Source::Handler(visit) = &self.source {
            self.source = Source::Reply(worker.refuse_late(visit));
            self.guest = None;
        }
        Turn::Over
    }

    /// A wait that is over at once is a turn too: whoever waits for nothing, again and again, is not alone.
    fn run(&mut self, context: &mut Context<'_>) -> Turn {
        let Source::Handler(visit) = &mut self.source else { return Turn::Over };
        let (turn, ran) = visit.run();
        if turn == Turn::Waiting && !visit.has_errand() {
            visit.poll_wait(context);
        }
        let turn = if turn == Turn::Waiting && visit.can_run() { Turn::Sliced } else { turn };
        self.note(ran);
        turn
    }

    /// Counts what a script runs up to a wait or its end, and then tells how long it was.
    fn note(&mut self, ran: Duration) {
        let before = self.guest.take();
        self.guest = match &self.source {
            // Of the route that has the request now: one before it may have passed.
            Source::Handler(visit) => visit.sliced_at().map(Door::welcome),
            Source::Reply(_) => None,
        };
        self.ran += ran;
        if !self.is_in_lane() {
            let ran = std::mem::take(&mut self.ran);
            if let Some(before) = before {
                before.learn(ran);
            }
        }
    }

    /// Whether it has to wait for its turn in the lane, and not only for those before it.
    fn waits_in_lane(&self) -> bool {
        self.guest.as_ref().is_some_and(|guest| !(self.has_to_begin() && guest.lets_in()))
    }

    fn is_in_lane(&self) -> bool {
        self.guest.is_some()
    }

    fn answer(&mut self, recorder: &Recorder) -> Option<(Answer<'static>, Option<Handled>)> {
        match &mut self.source {
            Source::Handler(visit) => {
                let answer = visit.answer(recorder)?.into_owned();
                Some((answer, Some(visit.handled())))
            }
            Source::Reply(reply) => Some((reply.clone().into(), None)),
        }
    }

    /// Counts what it holds.
    fn count(&mut self) -> usize {
        self.bytes = match &self.source {
            Source::Handler(visit) => visit.memory_bytes(),
            Source::Reply(reply) => reply.content.len(),
        };
        self.bytes
    }
}

#[cfg(test)]
mod tests;

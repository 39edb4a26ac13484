//! Requests of one connection that are in their handlers, in their order: those whose handlers did not return
//! at once, and what came behind them.
//!
//! Handlers with safe methods run side by side. Any other runs when those before it have returned - returned,
//! not acknowledged - and nothing runs behind it (RFC 9112 section 9.3.2). Answers are made, and records
//! appended, in the order of the requests.
//!
//! A handler that waits is polled wherever the connection is, and runs on when what it waits for is there.
//!
//! Handlers run where the connection would wait otherwise, in turns: after a slice of one of them the other
//! connections of the worker have theirs. A connection with many running handlers has no larger share of the
//! worker than one with one: for those of its scripts that go on after a slice, or may not begin at once, it
//! has one place in the script queue of the worker. (A reply that a script streams has a place of its own.)
//! And a thread of the worker looks at files for one of its handlers at a time, not before the client has
//! taken the replies to those before it.
//!
//! Memory: a handler begins or goes on only while the connection holds less than [`REPLIES_BYTES_MAX`] of
//! replies that the client has not taken. One with a method that is not safe does so behind a longer reply
//! that leaves. While all connections together hold too much, a handler that has not begun is refused, and
//! one that has begun waits. What a handler returned is counted before the next handler runs.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep};
use tollgate_http::{Method, Version};
use tollgate_script::Request;

use crate::admit::Arrived;
use crate::handler::{GatedReply, Handled, Turn, Visit};
use crate::overload::{HeldMemory, QueuePlace, QueuedMemory, RouteCost, WaitingScript};
use crate::recorder::Recorder;
use crate::reply::Reply;
use crate::task_turn::give_turn;
use crate::worker::Worker;

/// Replies that wait are sent when they are this large, even if more requests are there.
pub(super) const REPLIES_BYTES_MAX: usize = 256 << 10;

/// What the form of a reply depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplyForm {
    pub(super) is_head: bool,
    pub(super) version: Version,
    /// When the head of the request was complete.
    pub(super) begun: Instant,
}

impl ReplyForm {
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
pub(super) enum ReplySource {
    Handler(Visit),
    /// The server by itself.
    Reply(Reply),
}

/// A request whose handler returned, and whose reply does not leave yet.
pub(super) struct AnsweredRequest {
    pub(super) answer: GatedReply<'static>,
    /// Of a request that had a handler.
    pub(super) handled: Option<Handled>,
    pub(super) form: ReplyForm,
    bytes: usize,
}

/// A request whose handler runs or waits.
struct RunningRequest {
    source: ReplySource,
    form: ReplyForm,
    /// What it holds, as it was counted.
    bytes: Bytes,
    /// How long its script ran since it began, or waited.
    ran: Duration,
    /// While its script waits for its turn in the script queue.
    waiting_script: Option<WaitingScript>,
}

/// The memory of a request in the queue.
#[derive(Debug, Default, Clone, Copy)]
struct Bytes {
    all: usize,
    /// The part of it that is a reply.
    reply: usize,
}

impl AnsweredRequest {
    /// Ends the time of a content that nobody takes yet: replies before it leave slowly.
    fn watch(&mut self, context: &mut Context<'_>) {
        if let Some(streamed) = &mut self.answer.streamed {
            let _ = streamed.poll_overdue(context);
        }
    }
}

#[derive(Default)]
pub(super) struct Queue {
    /// Behind all that are answered. At most the last of them has a method that is not safe.
    running: VecDeque<RunningRequest>,
    answered: VecDeque<AnsweredRequest>,
    /// Of the one that runs next.
    next_index: usize,
    /// Of those that run.
    bytes: Bytes,
    answered_bytes: usize,
    /// Replies before these, which the client is being sent.
    leaving_bytes: usize,
    /// Until a handler that has begun asks again whether there is room for its reply.
    room_pause: Option<Pin<Box<Sleep>>>,
    /// Its place among the worker's scripts that go on after a slice, while it has such.
    place: Option<QueuePlace>,
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
        self.bytes.all + self.answered_bytes
    }

    /// The same, by what gives it back.
    pub(super) fn queued(&self) -> QueuedMemory {
        QueuedMemory { waiting_bytes: self.answered_bytes, handlers_bytes: self.bytes.all }
    }

    /// Notes how many bytes of replies leave at the moment: what the client has not taken is not added to.
    pub(super) fn let_leave(&mut self, bytes: usize) {
        self.leaving_bytes = bytes;
    }

    /// Whether what comes behind may join: not behind a method that is not safe.
    pub(super) fn takes_more(&self) -> bool {
        self.running.back().is_none_or(RunningRequest::is_safe)
    }

    /// Adds the last one.
    pub(super) fn push(&mut self, source: ReplySource, form: ReplyForm) {
        let mut entry = RunningRequest {
            source,
            form,
            bytes: Bytes::default(),
            ran: Duration::ZERO,
            waiting_script: None,
        };
        entry.count(&mut self.bytes);
        self.running.push_back(entry);
    }

    /// Adds one that had its first turn, in which it ran so long.
    pub(super) fn push_begun(&mut self, visit: Visit, turn: Turn, ran: Duration, form: ReplyForm) {
        self.is_turn_over = turn == Turn::Sliced;
        self.push(ReplySource::Handler(visit), form);
        if let Some(entry) = self.running.back_mut() {
            entry.note(ran);
        }
    }

    /// Takes the first, if it is answered.
    pub(super) fn pop(&mut self) -> Option<AnsweredRequest> {
        let answered = self.answered.pop_front()?;
        self.answered_bytes -= answered.bytes;
        if self.is_empty() {
            *self = Self::default();
        }
        Some(answered)
    }

    /// Waits for `future`, and runs the handlers meanwhile. The future stays where it is pinned: it may be
    /// large.
    pub(super) fn beside<F: Future + Unpin>(
        &mut self,
        worker: &Worker,
        held: &HeldMemory,
        mut future: F,
    ) -> impl Future<Output = F::Output> {
        poll_fn(move |context| {
            let polled = Pin::new(&mut future).poll(context);
            if polled.is_pending() {
                self.run(worker, held, context);
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
        held: &HeldMemory,
        mut future: F,
    ) -> impl Future<Output = Option<F::Output>> {
        poll_fn(move |context| {
            if !self.answered.is_empty() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(output) = Pin::new(&mut future).poll(context) {
                return Poll::Ready(Some(output));
            }
            self.run(worker, held, context);
            if self.answered.is_empty() { Poll::Pending } else { Poll::Ready(None) }
        })
    }

    /// Ends all, in their order: nobody is there to reply to.
    pub(super) fn cancel(&mut self, recorder: &Recorder) {
        for entry in self.running.drain(..) {
            if let ReplySource::Handler(visit) = entry.source {
                visit.cancel(recorder);
            }
        }
        *self = Self::default();
    }

    /// Runs handlers until one has run its slice, or none can go on: those that wait are asked once.
    fn run(&mut self, worker: &Worker, held: &HeldMemory, context: &mut Context<'_>) {
        if self.is_empty() {
            return;
        }
        self.poll_waits(worker, context);
        self.settle(worker);
        held.set_queued(self.queued());
        while !self.is_turn_over
            && let Some(index) = self.next_to_run(worker)
        {
            let entry = &mut self.running[index];
            if entry.queues_up_first() {
                continue;
            }
            let was_in_script_queue = entry.is_in_script_queue();
            // It was taken on before others made what is in flight now.
            let turn = if entry.is_untouched() && worker.capacity.is_full() {
                entry.refuse(worker)
            } else {
                entry.run(context)
            };
            let is_in_script_queue = entry.is_in_script_queue();
            entry.count(&mut self.bytes);
            self.is_turn_over = turn == Turn::Sliced;
            if was_in_script_queue && !is_in_script_queue {
                // Behind one that left the script queue the next one takes a place of its own.
                self.place = None;
            } else if self.is_turn_over {
                self.spend_place();
            }
            self.settle(worker);
            held.set_queued(self.queued());
        }
        if !self.running.is_empty() {
            self.queue_up(worker, context);
            self.start_read(context);
            self.await_room(worker, context);
        }
        held.set_queued(self.queued());
        if std::mem::take(&mut self.is_turn_over) {
            give_turn(context);
        }
        for answered in &mut self.answered {
            answered.watch(context);
        }
    }

    /// Polls what handlers wait for. A backend is not asked for more of a reply than there is room for.
    fn poll_waits(&mut self, worker: &Worker, context: &mut Context<'_>) {
        for index in 0..self.running.len() {
            let entry = &self.running[index];
            if entry.has_pending_read() || (entry.awaits_reply() && !self.may_go_on(index, worker)) {
                continue;
            }
            let entry = &mut self.running[index];
            entry.poll_wait(context);
            entry.count(&mut self.bytes);
        }
    }

    /// Whether there is room for what a handler may return. The first one does not wait for what those behind
    /// it returned.
    fn may_go_on(&self, index: usize, worker: &Worker) -> bool {
        let returned_bytes = if index == 0 { 0 } else { self.bytes.reply };
        let has_room = if self.running[index].is_safe() {
            self.leaving_bytes + self.answered_bytes + returned_bytes < REPLIES_BYTES_MAX
        } else {
            // It changes something, and nothing runs behind it: as long as peers may hold more it does not
            // wait for its own.
            let is_behind_much = self.leaving_bytes >= REPLIES_BYTES_MAX;
            self.answered_bytes < REPLIES_BYTES_MAX
                && !(is_behind_much && worker.capacity.is_full_for_peers())
        };
        has_room && !self.has_to_await_room(index, worker)
    }

    /// Whether a handler waits for room. One that has not begun does not wait, as it is refused. The first one
    /// waits only for room that the log or the peers make. Those behind it also wait for what handlers hold:
    /// their replies cannot leave before the first one's.
    fn has_to_await_room(&self, index: usize, worker: &Worker) -> bool {
        let is_full = match index {
            0 => worker.capacity.is_full_without_handlers(),
            _ => worker.capacity.is_full(),
        };
        is_full && !self.running[index].is_untouched()
    }

    /// Asks again, a moment later, if a handler waits for room: what makes it is another connection, which
    /// wakes none.
    fn await_room(&mut self, worker: &Worker, context: &mut Context<'_>) {
        let awaits_room = |index: usize| {
            let entry = &self.running[index];
            (entry.can_run() || entry.awaits_reply()) && self.has_to_await_room(index, worker)
        };
        if !(0..self.running.len()).any(awaits_room) {
            return self.room_pause = None;
        }
        let pause = self.room_pause.get_or_insert_with(|| Box::pin(sleep(ROOM_PAUSE)));
        if pause.as_mut().poll(context).is_ready() {
            self.room_pause = None;
            give_turn(context);
        }
    }

    /// Whichever script ran a slice, others in the script queue waited for it.
    fn spend_place(&mut self) {
        if let Some(place) = self.place.as_mut().filter(|place| place.is_first()) {
            place.spend();
        }
    }

    /// Has a place in the script queue as long as a script needs one, and is polled when it is first.
    fn queue_up(&mut self, worker: &Worker, context: &Context<'_>) {
        let may_begin = self.answered.is_empty();
        let mut in_turn = (0..self.running.len()).filter(|index| {
            (may_begin || !self.running[*index].has_to_begin()) && self.may_go_on(*index, worker)
        });
        let Some(waiting_script) = in_turn.find_map(|index| self.running[index].waiting_script.as_ref())
        else {
            return self.place = None;
        };
        let place = self.place.get_or_insert_with(|| waiting_script.enter());
        if place.is_first() {
            place.give_turn();
            self.is_turn_over = true;
        } else {
            place.watch(context.waker());
        }
    }

    /// Asks a thread to look at files for the next one that needs it. What is not taken yet is not added to.
    fn start_read(&mut self, context: &mut Context<'_>) {
        if !self.answered.is_empty() || self.running.iter().any(RunningRequest::is_reading) {
            return;
        }
        if let Some(entry) = self.running.iter_mut().find(|entry| entry.has_pending_read()) {
            entry.poll_wait(context);
            entry.count(&mut self.bytes);
            // A wait that is over at once is a turn, too.
            self.is_turn_over |= !entry.is_reading();
        }
    }

    /// In turns, so that none waits for another that does not end. One that is not safe has to be the first.
    fn next_to_run(&mut self, worker: &Worker) -> Option<usize> {
        let count = self.running.len();
        let from = self.next_index.min(count);
        let is_its_turn = self.place.as_mut().is_some_and(QueuePlace::may_run);
        // One that waits to begin adds nothing to what the client has not taken yet.
        let may_begin = self.answered.is_empty();
        let is_in_turn = |entry: &RunningRequest| {
            !entry.waits_in_script_queue() || (is_its_turn && (may_begin || !entry.has_to_begin()))
        };
        let may_run = |index: &usize| {
            let entry = &self.running[*index];
            entry.can_run()
                && (*index == 0 || entry.is_safe())
                && is_in_turn(entry)
                && self.may_go_on(*index, worker)
        };
        let index = (from..count).chain(0..from).find(may_run)?;
        self.next_index = index + 1;
        Some(index)
    }

    /// Answers those at the front whose handlers have returned, and those that need no handler as far as
    /// there is room.
    fn settle(&mut self, worker: &Worker) {
        while let Some(first) = self.running.front() {
            if first.is_at_once() {
                if !self.may_go_on(0, worker) {
                    return;
                }
                if worker.capacity.is_full() && first.is_untouched() {
                    self.running[0].refuse(worker);
                }
            }
            let Some(first) = self.running.front_mut() else { return };
            let Some((answer, handled)) = first.answer(&worker.recorder) else { return };
            first.forget(&mut self.bytes);
            let form = first.form;
            let streamed_bytes = answer.streamed.as_ref().map_or(0, |streamed| streamed.memory_bytes());
            let bytes = size_of::<AnsweredRequest>() + answer.reply.memory_bytes() + streamed_bytes;
            self.answered_bytes += bytes;
            self.answered.push_back(AnsweredRequest { answer, handled, form, bytes });
            self.running.pop_front();
            self.next_index = self.next_index.saturating_sub(1);
        }
    }
}

impl RunningRequest {
    fn is_safe(&self) -> bool {
        match &self.source {
            ReplySource::Handler(visit) => visit.is_safe(),
            ReplySource::Reply(_) => true,
        }
    }

    fn can_run(&self) -> bool {
        match &self.source {
            ReplySource::Handler(visit) => visit.can_run(),
            ReplySource::Reply(_) => false,
        }
    }

    fn has_pending_read(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.has_pending_read())
    }

    fn is_reading(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.is_reading())
    }

    /// Whether it is answered as soon as it is the first.
    fn is_at_once(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.is_at_once())
    }

    /// Whether a backend sends its reply.
    fn awaits_reply(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.awaits_reply())
    }

    fn poll_wait(&mut self, context: &mut Context<'_>) {
        if let ReplySource::Handler(visit) = &mut self.source {
            visit.poll_wait(context);
        }
    }

    /// Whether it comes to the script queue by this, before it has run.
    fn queues_up_first(&mut self) -> bool {
        if let ReplySource::Handler(visit) = &self.source
            && !self.is_in_script_queue()
        {
            self.waiting_script = visit.held_back_at().map(RouteCost::begin_waiting);
            return self.is_in_script_queue();
        }
        false
    }

    /// Whether nothing of its script ran.
    fn has_to_begin(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.has_to_begin())
    }

    /// Whether it can be refused still.
    fn is_untouched(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.is_untouched())
    }

    /// Answers in place of its handler, of which nothing ran: too much is in flight.
    fn refuse(&mut self, worker: &Worker) -> Turn {
        if let ReplySource::Handler(visit) = &self.source {
            self.source = ReplySource::Reply(worker.refuse_late(visit));
            self.waiting_script = None;
        }
        Turn::Over
    }

    /// A wait that is over at once is a turn too: whoever waits for nothing, again and again, is not alone.
    fn run(&mut self, context: &mut Context<'_>) -> Turn {
        let ReplySource::Handler(visit) = &mut self.source else { return Turn::Over };
        let (turn, ran) = visit.run();
        if turn == Turn::Waiting && !visit.has_pending_read() {
            visit.poll_wait(context);
        }
        let turn = if turn == Turn::Waiting && visit.can_run() { Turn::Sliced } else { turn };
        self.note(ran);
        turn
    }

    /// Counts what a script runs up to a wait or its end, and then tells how long it was.
    fn note(&mut self, ran: Duration) {
        let before = self.waiting_script.take();
        self.waiting_script = match &self.source {
            // Of the route that has the request now: one before it may have passed.
            ReplySource::Handler(visit) => visit.sliced_at().map(RouteCost::begin_waiting),
            ReplySource::Reply(_) => None,
        };
        self.ran += ran;
        if !self.is_in_script_queue() {
            let ran = std::mem::take(&mut self.ran);
            if let Some(before) = before {
                before.learn(ran);
            }
        }
    }

    /// Whether it has to wait for its turn in the script queue, and not only for those before it.
    fn waits_in_script_queue(&self) -> bool {
        self.waiting_script
            .as_ref()
            .is_some_and(|waiting_script| !(self.has_to_begin() && waiting_script.may_begin()))
    }

    fn is_in_script_queue(&self) -> bool {
        self.waiting_script.is_some()
    }

    fn answer(&mut self, recorder: &Recorder) -> Option<(GatedReply<'static>, Option<Handled>)> {
        match &mut self.source {
            ReplySource::Handler(visit) => {
                let answer = visit.answer(recorder)?.into_owned();
                Some((answer, Some(visit.handled())))
            }
            ReplySource::Reply(reply) => Some((reply.clone().into(), None)),
        }
    }

    /// Counts what it holds now, and what all of them hold by that.
    fn count(&mut self, all: &mut Bytes) {
        let (held, reply) = match &self.source {
            ReplySource::Handler(visit) => (REQUEST_BYTES + visit.memory_bytes(), visit.reply_bytes()),
            ReplySource::Reply(reply) => (reply.memory_bytes(), reply.memory_bytes()),
        };
        let bytes = Bytes { all: size_of::<Self>() + held, reply };
        self.replace(bytes, all);
    }

    /// Takes it off what all of them hold.
    fn forget(&mut self, all: &mut Bytes) {
        self.replace(Bytes::default(), all);
    }

    fn replace(&mut self, bytes: Bytes, all: &mut Bytes) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        all.all = all.all - before.all + bytes.all;
        all.reply = all.reply - before.reply + bytes.reply;
    }
}

/// What a request takes beside the bytes of its head and body: where its parts are.
const REQUEST_BYTES: usize = size_of::<Request>() + 256;
/// How soon a handler that has begun asks again for room.
const ROOM_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;

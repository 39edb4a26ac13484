//! One request in its handler, and the memory that it holds.

use std::mem::take;
use std::task::Context;
use std::time::{Duration, Instant};

use tollgate_http::{Method, Version};
use tollgate_script::Request;

use crate::admit::Arrived;
use crate::handler::{GatedReply, Handled, Turn, Visit};
use crate::overload::{RouteCost, WaitingScript};
use crate::recorder::Recorder;
use crate::reply::Reply;
use crate::worker::Worker;

/// What a request takes beside the bytes of its head and body: where its parts are.
const REQUEST_BYTES: usize = size_of::<Request>() + 256;
/// A first handler that has made so much does not wait for room: most likely it holds its reply.
const MUCH_BYTES: usize = 64 << 10;

/// What the form of a reply depends on.
#[derive(Debug, Clone, Copy)]
pub(in crate::conn) struct ReplyForm {
    pub(in crate::conn) is_head: bool,
    pub(in crate::conn) version: Version,
    /// When the head of the request was complete.
    pub(in crate::conn) begun: Instant,
}

impl ReplyForm {
    pub(in crate::conn) fn of(arrived: &Arrived) -> Self {
        let head = &arrived.head;
        Self { is_head: head.method() == Method::Head, version: head.version(), begun: arrived.begun }
    }
}

/// What answers a request.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are handlers, and a box for each is an allocation for each"
)]
pub(in crate::conn) enum ReplySource {
    Handler(Visit),
    /// The server by itself.
    Reply(Reply),
}

/// The memory of a request in the queue.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct HeldBytes {
    pub(super) all: usize,
    /// The part of it that its handler made.
    pub(super) made: usize,
    /// The part of it that is a reply.
    pub(super) reply: usize,
}

/// A request whose handler runs or waits.
pub(super) struct RunningRequest {
    source: ReplySource,
    pub(super) form: ReplyForm,
    /// What it holds, as it was counted.
    bytes: HeldBytes,
    /// How long its script ran since it began, or waited.
    ran: Duration,
    /// While its script waits for its turn in the script queue.
    pub(super) waiting_script: Option<WaitingScript>,
}

impl RunningRequest {
    #[inline]
    pub(super) fn new(source: ReplySource, form: ReplyForm) -> Self {
        Self { source, form, bytes: HeldBytes::default(), ran: Duration::ZERO, waiting_script: None }
    }

    #[inline]
    pub(super) fn is_safe(&self) -> bool {
        match &self.source {
            ReplySource::Handler(visit) => visit.is_safe(),
            ReplySource::Reply(_) => true,
        }
    }

    #[inline]
    pub(super) fn can_run(&self) -> bool {
        match &self.source {
            ReplySource::Handler(visit) => visit.can_run(),
            ReplySource::Reply(_) => false,
        }
    }

    #[inline]
    pub(super) fn has_pending_read(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.has_pending_read())
    }

    #[inline]
    pub(super) fn is_reading(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.is_reading())
    }

    /// Whether its handler has made so much that it is better to end it than to let it wait for room.
    #[inline]
    pub(super) fn holds_much(&self) -> bool {
        self.bytes.made >= MUCH_BYTES
    }

    /// What it holds, in bytes, as it was counted.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.all
    }

    /// Whether it is answered as soon as it is the first.
    #[inline]
    pub(super) fn is_at_once(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.is_at_once())
    }

    /// Whether a backend sends its reply.
    #[inline]
    pub(super) fn awaits_reply(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.awaits_reply())
    }

    #[inline]
    pub(super) fn poll_wait(&mut self, context: &mut Context<'_>) {
        if let ReplySource::Handler(visit) = &mut self.source {
            visit.poll_wait(context);
        }
    }

    /// Lets its script wait in the script queue before it has run, if its route asks for that. Returns
    /// whether it waits there now.
    #[inline]
    pub(super) fn queues_up_first(&mut self) -> bool {
        if let ReplySource::Handler(visit) = &self.source
            && !self.is_in_script_queue()
        {
            self.waiting_script = visit.held_back_at().map(RouteCost::begin_waiting);
            return self.is_in_script_queue();
        }
        false
    }

    /// Whether nothing of its script ran.
    #[inline]
    pub(super) fn has_to_begin(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.has_to_begin())
    }

    /// Whether it can still be refused.
    #[inline]
    pub(super) fn is_untouched(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.is_untouched())
    }

    /// Answers in place of its handler, of which nothing ran: too much is in flight.
    pub(super) fn refuse(&mut self, worker: &Worker) -> Turn {
        if let ReplySource::Handler(visit) = &self.source {
            self.source = ReplySource::Reply(worker.refuse_late(visit));
            self.waiting_script = None;
        }
        Turn::Over
    }

    /// Runs its handler for a turn. A wait that is over at once is a slice too, so that a script which waits
    /// for nothing, again and again, lets others have their turn.
    #[inline]
    pub(super) fn run(&mut self, context: &mut Context<'_>) -> Turn {
        let ReplySource::Handler(visit) = &mut self.source else { return Turn::Over };
        let (turn, ran) = visit.run();
        if turn == Turn::Waiting && !visit.has_pending_read() {
            visit.poll_wait(context);
        }
        let turn = if turn == Turn::Waiting && visit.can_run() { Turn::Sliced } else { turn };
        self.note(ran);
        turn
    }

    /// Adds up what a script runs up to a wait or its end. Then the cost of its route learns the sum.
    #[inline]
    pub(super) fn note(&mut self, ran: Duration) {
        let before = self.waiting_script.take();
        self.waiting_script = match &self.source {
            // Of the route that has the request now: one before it may have passed.
            ReplySource::Handler(visit) => visit.sliced_at().map(RouteCost::begin_waiting),
            ReplySource::Reply(_) => None,
        };
        self.ran += ran;
        if !self.is_in_script_queue() {
            let ran = take(&mut self.ran);
            if let Some(before) = before {
                before.learn(ran);
            }
        }
    }

    /// Whether it has to wait for its turn in the script queue, and not only for those before it.
    #[inline]
    pub(super) fn waits_in_script_queue(&self) -> bool {
        self.waiting_script
            .as_ref()
            .is_some_and(|waiting_script| !(self.has_to_begin() && waiting_script.may_begin()))
    }

    #[inline]
    pub(super) fn is_in_script_queue(&self) -> bool {
        self.waiting_script.is_some()
    }

    #[inline]
    pub(super) fn answer(&mut self, recorder: &Recorder) -> Option<(GatedReply<'static>, Option<Handled>)> {
        match &mut self.source {
            ReplySource::Handler(visit) => {
                let answer = visit.answer(recorder)?.into_owned();
                Some((answer, Some(visit.handled())))
            }
            ReplySource::Reply(reply) => Some((reply.clone().into(), None)),
        }
    }

    /// Ends it without a reply, because the client is gone.
    pub(super) fn cancel(self, recorder: &Recorder) {
        if let ReplySource::Handler(visit) = self.source {
            visit.cancel(recorder);
        }
    }

    /// Counts what it holds now, and changes the sum over all requests by that.
    #[inline]
    pub(super) fn count(&mut self, sum: &mut HeldBytes) {
        let bytes = match &self.source {
            ReplySource::Handler(visit) => HeldBytes {
                all: REQUEST_BYTES + visit.memory_bytes(),
                made: visit.made_bytes(),
                reply: visit.reply_bytes(),
            },
            ReplySource::Reply(reply) => {
                let bytes = reply.memory_bytes();
                HeldBytes { all: bytes, made: bytes, reply: bytes }
            }
        };
        let bytes = HeldBytes { all: size_of::<Self>() + bytes.all, ..bytes };
        self.replace(bytes, sum);
    }

    /// Takes what it holds off the sum over all requests.
    #[inline]
    pub(super) fn forget(&mut self, sum: &mut HeldBytes) {
        self.replace(HeldBytes::default(), sum);
    }

    #[inline]
    fn replace(&mut self, bytes: HeldBytes, sum: &mut HeldBytes) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        sum.all = sum.all - before.all + bytes.all;
        sum.made = sum.made - before.made + bytes.made;
        sum.reply = sum.reply - before.reply + bytes.reply;
    }
}

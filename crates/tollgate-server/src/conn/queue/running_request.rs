//! One request in its handler, and the memory that it holds.

use std::mem::take;
use std::task::Context;
use std::time::{Duration, Instant};

use tollgate_http::{Method, Version};
use tollgate_script::Request;

use crate::access_log::AccessEntry;
use crate::admit::Arrived;
use crate::handler::{GatedReply, Handled, Turn, Visit};
use crate::overload::{RouteCost, WaitingScript};
use crate::recorder::Recorder;
use crate::reply::Reply;
use crate::worker::Worker;

/// Estimated size of a request in bytes, in addition to its head and body.
const REQUEST_BYTES: usize = size_of::<Request>() + 256;
/// Number of produced bytes from which on the first handler does not wait for memory. Such a handler has most
/// likely produced its reply.
const MUCH_BYTES: usize = 64 << 10;

/// The properties of a request that decide the form of its reply.
pub(in crate::conn) struct ReplyForm {
    pub(in crate::conn) is_head: bool,
    pub(in crate::conn) version: Version,
    /// Time when the head of the request was complete.
    pub(in crate::conn) begun: Instant,
    /// Whether the reply announces the policy of `Strict-Transport-Security`.
    pub(in crate::conn) has_policy: bool,
    /// The line of the request in the access log, if it gets one.
    pub(in crate::conn) line: Option<Box<AccessEntry>>,
}

impl ReplyForm {
    pub(in crate::conn) fn of(arrived: &mut Arrived, has_policy: bool) -> Self {
        let line = arrived.take_line();
        let Arrived { head, begun, .. } = arrived;
        let is_head = head.method() == Method::Head;
        Self { is_head, version: head.version(), begun: *begun, has_policy, line }
    }
}

/// The source of the reply to a request.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are handlers, and a box for each is an allocation for each"
)]
pub(in crate::conn) enum ReplySource {
    Handler(Visit),
    /// A reply of the server, without a handler.
    Reply(Reply),
}

/// The memory of a request in the queue, in bytes.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct HeldBytes {
    pub(super) all: usize,
    /// The part of the memory that is a reply.
    pub(super) reply: usize,
}

/// A request whose handler runs or waits.
pub(super) struct RunningRequest {
    source: ReplySource,
    pub(super) form: ReplyForm,
    /// The memory of the request at the last count.
    bytes: HeldBytes,
    /// The part of the memory that the handler has produced, in bytes.
    made_bytes: usize,
    /// Time that the script has run since it began or last waited.
    ran: Duration,
    /// Counts the script while it waits for a turn in the script queue.
    pub(super) waiting_script: Option<WaitingScript>,
}

impl RunningRequest {
    #[inline]
    pub(super) fn new(source: ReplySource, form: ReplyForm) -> Self {
        Self {
            source,
            form,
            bytes: HeldBytes::default(),
            made_bytes: 0,
            ran: Duration::ZERO,
            waiting_script: None,
        }
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

    /// Returns whether the handler has produced at least [`MUCH_BYTES`]. Such a handler should end soon
    /// instead of waiting for memory.
    #[inline]
    pub(super) fn holds_much(&self) -> bool {
        self.made_bytes >= MUCH_BYTES
    }

    /// Returns the memory of the request at the last count, in bytes.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.all
    }

    /// Returns whether the request is answered as soon as it is the first request of the queue.
    #[inline]
    pub(super) fn is_at_once(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.is_at_once())
    }

    /// Returns whether the request waits for the reply of a backend.
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

    /// Puts the script into the script queue before the first slice, if scripts of the route are known to be
    /// long. Returns whether the script waits there now.
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

    /// Returns whether no part of the script has run.
    #[inline]
    pub(super) fn has_to_begin(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.has_to_begin())
    }

    /// Returns whether the request can still be refused.
    #[inline]
    pub(super) fn is_untouched(&self) -> bool {
        matches!(&self.source, ReplySource::Handler(visit) if visit.is_untouched())
    }

    /// Replaces a handler that has not run with a refusal, because connections hold too much memory.
    pub(super) fn refuse(&mut self, worker: &Worker) -> Turn {
        if let ReplySource::Handler(visit) = &self.source {
            self.source = ReplySource::Reply(worker.refuse_late(visit));
            self.waiting_script = None;
        }
        Turn::Over
    }

    /// Runs the handler for a turn.
    ///
    /// A wait that ends at once counts as a slice. Other connections therefore have their turn even if a
    /// script repeats such waits.
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

    /// Adds `ran` to the time of a script until the script waits or ends. The sum is then added to the cost
    /// of the route.
    #[inline]
    pub(super) fn note(&mut self, ran: Duration) {
        let before = self.waiting_script.take();
        self.waiting_script = match &self.source {
            // The route may have changed, because a handler can pass its request to another route.
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

    /// Returns whether the script has to wait for its turn in the script queue, and not only for the requests
    /// before it.
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

    /// Ends the request without a reply, because the client is gone.
    pub(super) fn cancel(self, recorder: &Recorder) {
        if let ReplySource::Handler(visit) = self.source {
            visit.cancel(recorder);
        }
    }

    /// Counts the memory that the request holds now, and updates the sum over all requests.
    #[inline]
    pub(super) fn count(&mut self, sum: &mut HeldBytes) {
        let (held, made, reply) = match &self.source {
            ReplySource::Handler(visit) => {
                (REQUEST_BYTES + visit.memory_bytes(), visit.made_bytes(), visit.reply_bytes())
            }
            ReplySource::Reply(reply) => {
                let bytes = reply.memory_bytes();
                (bytes, bytes, bytes)
            }
        };
        self.made_bytes = made;
        let line_bytes = self.form.line.as_ref().map_or(0, |line| line.memory_bytes());
        let bytes = HeldBytes { all: size_of::<Self>() + held + line_bytes, reply };
        self.replace(bytes, sum);
    }

    /// Removes the memory of this request from the sum over all requests.
    #[inline]
    pub(super) fn forget(&mut self, sum: &mut HeldBytes) {
        self.replace(HeldBytes::default(), sum);
    }

    #[inline]
    fn replace(&mut self, bytes: HeldBytes, sum: &mut HeldBytes) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        sum.all = sum.all - before.all + bytes.all;
        sum.reply = sum.reply - before.reply + bytes.reply;
    }
}

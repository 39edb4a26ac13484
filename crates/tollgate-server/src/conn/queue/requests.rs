//! All requests of a connection in their order, and the memory that they hold together.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::Sleep;

use super::running_request::{HeldBytes, ReplyForm, ReplySource, RunningRequest};
use crate::handler::{GatedReply, Handled, Turn, Visit};
use crate::overload::{QueuePlace, QueuedMemory};
use crate::recorder::Recorder;

/// A request whose handler has returned, and whose reply is not sent yet.
pub(in crate::conn) struct AnsweredRequest {
    pub(in crate::conn) answer: GatedReply<'static>,
    /// `Some` for a request that had a handler.
    pub(in crate::conn) handled: Option<Handled>,
    pub(in crate::conn) form: ReplyForm,
    bytes: usize,
}

impl AnsweredRequest {
    /// Checks the time limit of streamed content that waits because the client takes earlier replies slowly.
    #[inline]
    pub(super) fn watch(&mut self, context: &mut Context<'_>) {
        if let Some(streamed) = &mut self.answer.streamed {
            let _ = streamed.poll_overdue(context);
        }
    }
}

/// The requests of a connection that wait for their handlers, or for their replies to be sent.
#[derive(Default)]
pub(in crate::conn) struct Queue {
    /// Requests whose handlers run or wait. These requests follow all answered requests. Only the last
    /// request may have an unsafe method.
    pub(super) running: VecDeque<RunningRequest>,
    pub(super) answered: VecDeque<AnsweredRequest>,
    /// The index of the request that runs next.
    pub(super) next_index: usize,
    /// Memory that the running requests hold.
    pub(super) bytes: HeldBytes,
    pub(super) answered_bytes: usize,
    /// Bytes of earlier replies that are being sent to the client.
    pub(super) leaving_bytes: usize,
    /// Pause after which a handler that has begun checks again whether memory for its reply is available.
    pub(super) room_pause: Option<Pin<Box<Sleep>>>,
    /// The place of the connection in the script queue, while a script needs one.
    pub(super) place: Option<QueuePlace>,
    /// Whether other connections have their turn next, because a slice has run or can run.
    pub(super) is_turn_over: bool,
}

impl Queue {
    pub(in crate::conn) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.answered.is_empty()
    }

    pub(in crate::conn) fn count(&self) -> usize {
        self.running.len() + self.answered.len()
    }

    /// Returns the bytes that the requests and their replies hold.
    pub(in crate::conn) fn bytes(&self) -> usize {
        self.bytes.all + self.answered_bytes
    }

    /// Returns the held bytes, split by the event that frees them. If the first handler has already produced
    /// much of its reply, it does not wait for memory. The bytes of this handler then count with the answers.
    pub(in crate::conn) fn queued(&self) -> QueuedMemory {
        let first = self.running.front().filter(|first| first.holds_much());
        let first_bytes = first.map_or(0, RunningRequest::held_bytes);
        QueuedMemory {
            waiting_bytes: self.answered_bytes + first_bytes,
            handlers_bytes: self.bytes.all - first_bytes,
        }
    }

    /// Records the size of the replies that are being sent. This size limits the replies that may be added.
    pub(in crate::conn) fn let_leave(&mut self, bytes: usize) {
        self.leaving_bytes = bytes;
    }

    /// Returns whether another request may join. No request joins after a request with an unsafe method.
    pub(in crate::conn) fn takes_more(&self) -> bool {
        self.running.back().is_none_or(RunningRequest::is_safe)
    }

    /// Adds a request at the end.
    pub(in crate::conn) fn push(&mut self, source: ReplySource, form: ReplyForm) {
        let mut request = RunningRequest::new(source, form);
        request.count(&mut self.bytes);
        self.running.push_back(request);
    }

    /// Adds a request whose handler already had its first turn, and ran for `ran` in that turn.
    pub(in crate::conn) fn push_begun(&mut self, visit: Visit, turn: Turn, ran: Duration, form: ReplyForm) {
        self.is_turn_over = turn == Turn::Sliced;
        self.push(ReplySource::Handler(visit), form);
        if let Some(request) = self.running.back_mut() {
            request.note(ran);
        }
    }

    /// Removes and returns the first request, if it is answered.
    pub(in crate::conn) fn pop(&mut self) -> Option<AnsweredRequest> {
        let answered = self.answered.pop_front()?;
        self.answered_bytes -= answered.bytes;
        if self.is_empty() {
            *self = Self::default();
        }
        Some(answered)
    }

    /// Moves the first running request to the answered requests. Returns false if its handler has not
    /// returned.
    #[inline]
    pub(super) fn answer_first(&mut self, recorder: &Recorder) -> bool {
        let Some(first) = self.running.front_mut() else { return false };
        let Some((answer, handled)) = first.answer(recorder) else { return false };
        first.forget(&mut self.bytes);
        let streamed_bytes = answer.streamed.as_ref().map_or(0, |streamed| streamed.memory_bytes());
        let bytes = size_of::<AnsweredRequest>() + answer.reply.memory_bytes() + streamed_bytes;
        self.answered_bytes += bytes;
        if let Some(RunningRequest { form, .. }) = self.running.pop_front() {
            self.answered.push_back(AnsweredRequest { answer, handled, form, bytes });
        }
        self.next_index = self.next_index.saturating_sub(1);
        true
    }

    /// Cancels all requests in their order, because the client is gone.
    pub(in crate::conn) fn cancel(&mut self, recorder: &Recorder) {
        for request in self.running.drain(..) {
            request.cancel(recorder);
        }
        *self = Self::default();
    }
}

//! The state of one connection.

use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use tollgate_http::HeadReader;

use super::body::BodyReader;
use super::client::ConnectionClient;
use super::queue::{Queue, REPLIES_BYTES_MAX};
use super::replies::Replies;
use super::transport::Transport;
use super::uploading::Uploading;
use crate::deadline::{Deadlines, Slot};
use crate::observe::Flight;
use crate::options::ConnectionLimits;
use crate::overload::HeldMemory;
use crate::service::Rules;
use crate::worker::Worker;

pub(super) struct Connection<S> {
    pub(super) worker: Rc<Worker>,
    /// Of the request at hand, or of the last one.
    pub(super) rules: Rc<Rules>,
    pub(super) stream: S,
    pub(super) client: ConnectionClient,
    pub(super) slot: Slot,
    pub(super) held: HeldMemory,
    pub(super) flight: Flight,
    /// Bytes that came and belong to nothing yet.
    pub(super) input: BytesMut,
    pub(super) head_reader: HeadReader,
    pub(super) reading: Reading,
    pub(super) queue: Queue,
    pub(super) replies: Replies,
    pub(super) reuse: Reuse,
    /// Until when no further request of it is looked at, if one was refused and it may not come again at
    /// once.
    pub(super) paused_until: Option<Instant>,
    pub(super) requests: u64,
}

/// What of a request has come.
pub(super) enum Reading {
    /// Some of its head, in the head reader, or nothing.
    Head,
    Body(Box<BodyReader>),
    /// Some of a body whose handler runs.
    Upload(Box<Uploading>),
}

/// What becomes of the connection when all replies are sent. Unless it is open, no further request is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse {
    /// It goes on.
    Open,
    /// It ends: the peer asked for that by a head without content, and sends nothing more.
    Leave,
    /// It ends: the peer asked for that, and sends nothing more, but for a line end behind its content, as
    /// some do.
    Close,
    /// It ends although the peer may still be sending, or about to: at a limit, because the server does, or
    /// by a refusal.
    Linger,
    /// It ends: the peer said that it sends no more.
    Ended,
}

impl Reuse {
    /// The same for a connection that has to end, in this way if nothing ended it before.
    pub(super) fn ending(self, end: Self) -> Self {
        if self == Self::Open { end } else { self }
    }
}

impl<S: Transport> Connection<S> {
    pub(super) fn new(worker: Rc<Worker>, stream: S) -> Self {
        Self {
            slot: Deadlines::enter(&worker.deadlines),
            held: HeldMemory::new(&worker.capacity),
            flight: Flight::new(&worker.cells),
            rules: worker.rules(),
            worker,
            stream,
            client: ConnectionClient::default(),
            input: BytesMut::new(),
            head_reader: HeadReader::default(),
            reading: Reading::Head,
            queue: Queue::default(),
            replies: Replies::default(),
            reuse: Reuse::Open,
            paused_until: None,
            requests: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.replies.count() + self.queue.count() >= self.limits().pipeline_depth_max
            || self.replies.bytes_len() + self.queue.bytes() >= REPLIES_BYTES_MAX
    }

    pub(super) fn limits(&self) -> &ConnectionLimits {
        &self.rules.limits
    }

    /// Whether nothing of a request has come: a blank line asks for nothing (RFC 9112 section 2.2).
    pub(super) fn is_between_requests(&self) -> bool {
        matches!((&self.reading, self.input.as_ref()), (Reading::Head, [] | [b'\r']))
    }

    /// Counts what the connection holds now. False: it became more, and peers may not have that much held.
    pub(super) fn count_held(&self) -> bool {
        self.count_held_with(0)
    }

    /// The same, with `bytes` that are on their way to the peer.
    pub(super) fn count_held_with(&self, bytes: usize) -> bool {
        self.held.set_all(self.memory_bytes() + bytes, self.queue.queued())
    }

    /// What the connection holds beside its queue, as far as the peer decides how much that is.
    pub(super) fn memory_bytes(&self) -> usize {
        let body_bytes = match &self.reading {
            Reading::Head => 0,
            Reading::Body(body) => body.memory_bytes(),
            Reading::Upload(uploading) => uploading.upload.bytes(),
        };
        self.input.capacity() + body_bytes + self.replies.memory_bytes()
    }
}

/// Whoever was in a handler is told of: the peer is gone, or the server ends.
impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.queue.cancel(&self.worker.recorder);
        self.worker.scratch.take_back(std::mem::take(&mut self.input));
    }
}

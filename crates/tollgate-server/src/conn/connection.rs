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
use crate::access_log::AccessEntry;
use crate::admit::Arrived;
use crate::deadline::{Deadlines, Slot};
use crate::observe::Flight;
use crate::options::ConnectionLimits;
use crate::overload::HeldMemory;
use crate::service::Rules;
use crate::worker::Worker;

pub(super) struct Connection<S> {
    pub(super) worker: Rc<Worker>,
    /// Rules of the current request. Between requests, rules of the last request.
    pub(super) rules: Rc<Rules>,
    pub(super) stream: S,
    pub(super) client: ConnectionClient,
    pub(super) slot: Slot,
    pub(super) held: HeldMemory,
    pub(super) flight: Flight,
    /// Bytes that were read and do not belong to a request yet.
    pub(super) input: BytesMut,
    pub(super) head_reader: HeadReader,
    pub(super) reading: Reading,
    pub(super) queue: Queue,
    pub(super) replies: Replies,
    pub(super) reuse: Reuse,
    /// Time until which the connection begins no further request. The time is set when a request was refused
    /// and the client has to pause.
    pub(super) paused_until: Option<Instant>,
    pub(super) requests: u64,
    /// The line of the request whose content is streamed, if it gets one.
    pub(super) streamed_line: Option<Box<AccessEntry>>,
}

/// The part of a request that has arrived.
pub(super) enum Reading {
    /// No byte of a request has arrived, or a part of its head. The head reader holds the state of that part.
    Head,
    /// The head of a request has arrived. Its credentials are checked before its content is read.
    Checking(Box<Arrived>),
    Body(Box<BodyReader>),
    /// A part of a body has arrived, and its handler already runs.
    Upload(Box<Uploading>),
}

/// State of the connection after all replies are sent. Only `Open` lets the connection take another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse {
    /// The connection serves further requests.
    Open,
    /// The connection ends because the peer requested the end, in a request without content. The peer sends
    /// nothing more.
    Leave,
    /// The connection ends because the peer requested the end, in a request with content. Some clients send a
    /// line end after the content, and nothing more.
    Close,
    /// The connection ends although the peer may still send. Causes are a limit, the end of the server, or a
    /// refusal.
    Linger,
    /// The connection ends because the peer closed its sending half.
    Ended,
}

impl Reuse {
    /// Returns the state of a connection that has to end. `end` is ignored if the connection already had to
    /// end.
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
            streamed_line: None,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.replies.count() + self.queue.count() >= self.limits().pipeline_depth_max
            || self.replies.bytes_len() + self.queue.bytes() >= REPLIES_BYTES_MAX
    }

    pub(super) fn limits(&self) -> &ConnectionLimits {
        &self.rules.limits
    }

    /// Returns whether no part of a request has arrived. A blank line does not begin a request (RFC 9112
    /// section 2.2).
    pub(super) fn is_between_requests(&self) -> bool {
        matches!((&self.reading, self.input.as_ref()), (Reading::Head, [] | [b'\r']))
    }

    /// Counts the memory that the connection holds now.
    ///
    /// Returns false if the amount grew, and all connections hold more memory than peers may hold.
    pub(super) fn count_held(&self) -> bool {
        self.count_held_with(0)
    }

    /// Counts the memory like [`count_held`](Self::count_held), plus `bytes` that are being sent to the peer.
    pub(super) fn count_held_with(&self, bytes: usize) -> bool {
        self.held.set_all(self.memory_bytes() + bytes, self.queue.queued())
    }

    /// Returns the memory of the connection without its queue, in bytes. Only memory whose amount the peer
    /// controls is counted.
    pub(super) fn memory_bytes(&self) -> usize {
        let body_bytes = match &self.reading {
            Reading::Head | Reading::Checking(_) => 0,
            Reading::Body(body) => body.memory_bytes(),
            Reading::Upload(uploading) => uploading.upload.bytes(),
        };
        self.input.capacity() + body_bytes + self.replies.memory_bytes()
    }
}

/// Cancels the requests in handlers, because the peer is gone or the server ends.
impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.queue.cancel(&self.worker.recorder);
        self.worker.scratch.take_back(std::mem::take(&mut self.input));
    }
}

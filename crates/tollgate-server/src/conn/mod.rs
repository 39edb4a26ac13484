//! Step 2: one connection, from its bytes to replies in order.
//!
//! Four parts of state: [`Reading`] what of a request has come, [`Queue`] whose handlers run, [`Replies`] what waits to
//! leave, [`Reuse`] what becomes of the connection afterwards. A pass answers every complete request of the read buffer,
//! waits until the log has their records, sends all replies by one write, and reads on. A handler that does not return at
//! once joins the queue, and so does all that comes behind it; the queue runs wherever the connection waits.
//!
//! The engine knows a byte stream, not a socket, so that TLS can join. Deadlines are kept by [`deadline`].

mod answering;
#[cfg(test)]
mod bench;
mod body;
mod client;
mod coding;
mod deadline;
mod ending;
mod exchange;
mod flow;
mod outlet;
mod queue;
mod relay;
mod socket;
mod stream;
mod transport;
mod trial;
mod uploading;
mod wait;

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use tollgate_http::{HeadReader, StatusCode};

use crate::crowd::{Held, Seat};
use crate::observe::Flight;
use crate::options::ConnectionLimits;
use crate::reply::{Replies, Reply};
use crate::service::Rules;
use crate::worker::Worker;
use body::BodyReader;
use client::Client;
pub(crate) use client::{Origin, RequestOrigin};
pub(crate) use deadline::Deadlines;
use deadline::{Phase, Slot};
pub(crate) use exchange::{Arrived, Destination};
use flow::beside_flow;
use outlet::{Outlet, Then};
use queue::Queue;
pub(crate) use socket::Socket;
pub(crate) use stream::Scratch;
pub(crate) use transport::{Ending, Plain, Transport, UNSENT_BYTES};
use uploading::Uploading;

/// Replies that wait are sent when they are this large, even if more requests are there.
const REPLIES_BYTES_MAX: usize = 256 << 10;

/// Serves one connection to its end.
///
/// It counts as one from the call on, not from the first poll: a worker that drains waits for it.
pub(crate) fn serve<S: Transport>(
    worker: Rc<Worker>,
    stream: S,
    origin: Origin,
    seat: Seat,
) -> impl Future<Output = ()> {
    let mut connection = Connection::new(worker, stream);
    async move {
        let _seat = seat;
        // An error of the stream is the peer's leaving: there is nobody to tell.
        if connection.arrive(origin).await.is_ok() {
            let _gone = connection.run().await;
        }
    }
}

/// Tells a connection why it is not served, whatever it came for.
pub(crate) fn refuse<S: Transport>(
    worker: Rc<Worker>,
    stream: S,
    text: &'static str,
) -> impl Future<Output = ()> {
    worker.refusals.set(worker.refusals.get() + 1);
    let mut connection = Connection::new(worker, stream);
    connection.end_with(Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text));
    async move {
        let _gone = connection.run().await;
        let refusals = &connection.worker.refusals;
        refusals.set(refusals.get() - 1);
    }
}

struct Connection<S> {
    worker: Rc<Worker>,
    /// Of the request at hand, or of the last one.
    rules: Rc<Rules>,
    stream: S,
    client: Client,
    slot: Slot,
    held: Held,
    flight: Flight,
    /// Bytes that came and belong to nothing yet.
    input: BytesMut,
    head_reader: HeadReader,
    reading: Reading,
    queue: Queue,
    replies: Replies,
    reuse: Reuse,
    /// Until when no further request of it is looked at, if one was refused and it may not come again at once.
    rest: Option<Instant>,
    requests: u64,
}

/// What of a request has come.
enum Reading {
    /// Some of its head, in the head reader, or nothing.
    Head,
    Body(Box<BodyReader>),
    /// Some of a body whose handler runs.
    Upload(Box<Uploading>),
}

/// What becomes of the connection when all replies are sent. Unless it is open, no further request is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    /// It goes on.
    Open,
    /// It ends: the peer asked for that by a head without content, and sends nothing more.
    Leave,
    /// It ends: the peer asked for that, and sends nothing more, but for a line end behind its content, as some do.
    Close,
    /// It ends although the peer may still be sending, or about to: at a limit, because the server does, or by a refusal.
    Linger,
    /// It ends: the peer said that it sends no more.
    Ended,
}

impl Reuse {
    /// The same for a connection that has to end, in this way if nothing ended it before.
    fn ending(self, end: Self) -> Self {
        if self == Self::Open { end } else { self }
    }
}

/// The peer is gone, or took nothing for too long.
struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl<S: Transport> Connection<S> {
    fn new(worker: Rc<Worker>, stream: S) -> Self {
        Self {
            slot: Deadlines::enter(&worker.deadlines),
            held: Held::new(&worker.crowd),
            flight: Flight::new(&worker.cells),
            rules: worker.rules(),
            worker,
            stream,
            client: Client::default(),
            input: BytesMut::new(),
            head_reader: HeadReader::default(),
            reading: Reading::Head,
            queue: Queue::default(),
            replies: Replies::default(),
            reuse: Reuse::Open,
            rest: None,
            requests: 0,
        }
    }

    async fn run(&mut self) -> Result<(), Gone> {
        loop {
            self.answer_what_came();
            let is_followed = self.replies.is_followed();
            let is_more_there = is_followed || (self.replies.count() > 0 && self.is_full());
            let asked = self.replies.last_begun();
            self.send_replies().await?;
            match self.reuse {
                Reuse::Open if is_more_there => {}
                Reuse::Open if self.may_rest() => self.rest().await,
                Reuse::Open => self.read_on().await?,
                _ if !self.queue.is_empty() => self.read_on().await?,
                Reuse::Leave if self.was_answered_at_once(asked) => return Ok(()),
                Reuse::Leave | Reuse::Close => return self.close().await,
                Reuse::Linger => return self.linger().await,
                Reuse::Ended => return Ok(()),
            }
        }
    }

    fn is_full(&self) -> bool {
        self.replies.count() + self.queue.count() >= self.limits().pipeline_depth_max
            || self.replies.bytes_len() + self.queue.bytes() >= REPLIES_BYTES_MAX
    }

    fn limits(&self) -> &ConnectionLimits {
        &self.rules.limits
    }

    /// Whether nothing of a request has come: a blank line asks for nothing (RFC 9112 section 2.2).
    fn is_between_requests(&self) -> bool {
        matches!((&self.reading, self.input.as_ref()), (Reading::Head, [] | [b'\r']))
    }

    /// Sends the replies at hand, when the log has their records.
    async fn send_replies(&mut self) -> Result<(), Gone> {
        if self.replies.count() == 0 {
            return Ok(());
        }
        // Replies that are made can only be counted; what makes more of them is refused until they are gone.
        self.count_held();
        self.queue.let_leave(self.replies.memory_bytes());
        self.flight.set(self.replies.count() + self.queue.count());
        let recorder = &self.worker.recorder;
        if !self.queue.beside(&self.worker, &self.held, pin!(self.replies.release(recorder))).await {
            self.reuse = Reuse::Linger;
            self.queue.cancel(recorder);
        }
        self.replies.count_leaving(&self.worker.cells);
        let mut flow = self.replies.take_flow();
        let is_end = self.reuse != Reuse::Open && self.queue.is_empty() && flow.is_none();
        let then = if is_end { Then::End } else { Then::More };
        let Self { stream, slot, held, rules, worker, queue, replies, .. } = self;
        let mut outlet = Outlet { stream, slot, held, limits: &rules.limits, scratch: &worker.scratch };
        let flowing = flow.as_mut().map(|(flow, _)| flow);
        queue
            .beside(worker, held, beside_flow(pin!(outlet.send(replies, then, &worker.copies)), flowing))
            .await?;
        queue.let_leave(0);
        self.worker.cells.count_sent(self.replies.bytes_len());
        self.replies.clear();
        self.flight.set(self.queue.count() + usize::from(flow.is_some()));
        match flow {
            // On the heap, so that connections that stream nothing stay small.
            Some((flow, framing)) => Box::pin(self.pour(flow, framing)).await,
            None => Ok(()),
        }
    }

    /// Counts what the connection holds now. False: it became more, and peers may not have that much held.
    fn count_held(&self) -> bool {
        self.count_held_with(0)
    }

    /// The same, with `bytes` that are on their way to the peer.
    fn count_held_with(&self, bytes: usize) -> bool {
        self.held.set_all(self.memory_bytes() + bytes, self.queue.queued())
    }

    /// What the connection holds beside its queue, as far as the peer decides how much that is.
    fn memory_bytes(&self) -> usize {
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

//! Step 2: one connection, from its bytes to replies in order.
//!
//! Three parts of state, an enum each: [`Reading`] what of a request has come, [`Replies`] what waits to leave,
//! [`Reuse`] what becomes of the connection afterwards. A pass answers every complete request of the read buffer, waits
//! until the log has their records, sends all replies by one write, and reads on.
//!
//! The engine knows a byte stream, not a socket, so that TLS can join. Deadlines are kept by [`deadline`].

mod body;
mod client;
mod coding;
mod deadline;
mod ending;
mod exchange;
mod stream;

use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tollgate_http::{
    CONTINUE, Connection as ConnectionOption, HeadReader, Method, RequestError, StatusCode, Version,
};
use tollgate_script::Body;

use crate::crowd::{Held, Seat};
use crate::handler::{Answer, Exchange};
use crate::options::ConnectionLimits;
use crate::reply::{Replies, Reply, Writing};
use crate::service::Rules;
use crate::worker::Worker;
use body::{BodyReader, Progress};
use client::Client;
pub(crate) use client::Origin;
pub(crate) use deadline::Deadlines;
use deadline::{Phase, Slot};
pub(crate) use exchange::{Arrived, Destination};
pub(crate) use stream::Scratch;
use stream::{Came, read, write_all};

/// Replies that wait are sent when they are this large, even if more requests are there.
const REPLIES_BYTES_MAX: usize = 256 << 10;
/// What a new TCP connection sends before the first acknowledgement (RFC 6928).
const FIRST_WINDOW_BYTES: usize = 14 << 10;

/// Serves one connection to its end.
///
/// It counts as one from the call on, not from the first poll: a worker that drains waits for it.
pub(crate) fn serve<S: AsyncRead + AsyncWrite + Unpin>(
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

/// Tells a connection that there are too many, whatever it came for.
pub(crate) fn refuse<S: AsyncRead + AsyncWrite + Unpin>(
    worker: Rc<Worker>,
    stream: S,
) -> impl Future<Output = ()> {
    worker.refusals.set(worker.refusals.get() + 1);
    let mut connection = Connection::new(worker, stream);
    let text = "too many connections: nothing was recorded";
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
    /// Bytes that came and belong to nothing yet.
    input: BytesMut,
    head_reader: HeadReader,
    reading: Reading,
    replies: Replies,
    reuse: Reuse,
    requests: u64,
}

/// What of a request has come.
enum Reading {
    /// Some of its head, in the head reader, or nothing.
    Head,
    Body(Box<BodyReader>),
}

/// A whole request on the way to its reply, and what that has to look like.
struct Complete {
    exchange: Result<Exchange, Reply>,
    is_head: bool,
    version: Version,
    is_persistent: bool,
}

/// What becomes of the connection when the replies at hand are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    /// It goes on.
    Open,
    /// It ends: somebody asked for that.
    Close,
    /// It ends although the peer may still be sending.
    Linger,
}

/// The peer is gone, or took nothing for too long.
struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(worker: Rc<Worker>, stream: S) -> Self {
        Self {
            slot: Deadlines::enter(&worker.deadlines),
            held: Held::new(&worker.crowd),
            rules: worker.rules(),
            worker,
            stream,
            client: Client::default(),
            input: BytesMut::new(),
            head_reader: HeadReader::default(),
            reading: Reading::Head,
            replies: Replies::default(),
            reuse: Reuse::Open,
            requests: 0,
        }
    }

    async fn run(&mut self) -> Result<(), Gone> {
        loop {
            self.answer_what_came().await;
            let is_more_there = self.is_full();
            let is_under_way = self.replies.bytes_len() > FIRST_WINDOW_BYTES;
            self.send_replies().await?;
            match self.reuse {
                Reuse::Open if is_more_there => {}
                Reuse::Open => self.read_on().await?,
                Reuse::Close if !is_under_way => return self.close().await,
                Reuse::Close | Reuse::Linger => return self.linger().await,
            }
        }
    }

    /// Answers the complete requests of the buffer, in their order.
    async fn answer_what_came(&mut self) {
        if matches!(self.reading, Reading::Head) && !self.worker.goes_by(&self.rules) {
            self.rules = self.worker.rules();
            self.client.reconsider(&self.worker, &self.rules);
        }
        while self.reuse == Reuse::Open && !self.is_full() {
            match self.next_request() {
                Ok(Some(complete)) => self.answer(complete).await,
                Ok(None) => return,
                Err(error) => self.refuse(&error),
            }
        }
    }

    fn is_full(&self) -> bool {
        self.replies.count() >= self.limits().pipeline_depth_max
            || self.replies.bytes_len() >= REPLIES_BYTES_MAX
    }

    fn limits(&self) -> &ConnectionLimits {
        &self.rules.limits
    }

    /// Takes the next complete request off the buffer. None: more bytes are needed.
    fn next_request(&mut self) -> Result<Option<Complete>, RequestError> {
        if let Reading::Head = &self.reading {
            let limits = &self.rules.limits.head;
            let Some(head) = self.head_reader.read(&mut self.input, limits)? else { return Ok(None) };
            let mut arrived = self.worker.receive(head);
            if !arrived.head.framing().has_content() {
                return Ok(Some(self.complete(arrived, Body::default())));
            }
            let coding = arrived.check_content();
            if arrived.is_answered() && arrived.head.expects_continue() {
                // RFC 9110 section 10.1.1: the client asked before it sent, and is told.
                self.reuse = Reuse::Linger;
                return Ok(Some(self.complete(arrived, Body::default())));
            }
            self.reading = Reading::Body(Box::new(BodyReader::new(arrived, coding, &self.rules.limits)));
        }
        let Reading::Body(body) = &mut self.reading else { return Ok(None) };
        let content = match body.read(&mut self.input) {
            Ok(Progress::NeedMore | Progress::Full) => return Ok(None),
            Ok(Progress::Done(content)) => content,
            // The body is not worth reading to its end, and no reason for another answer.
            Err(RequestError::BodyTooLarge { .. }) if body.arrived.is_answered() => {
                self.reuse = Reuse::Linger;
                Body::default()
            }
            Err(error) => return Err(error),
        };
        match std::mem::replace(&mut self.reading, Reading::Head) {
            Reading::Body(body) => Ok(Some(self.complete(body.arrived, content))),
            Reading::Head => Ok(None),
        }
    }

    #[inline]
    fn complete(&mut self, arrived: Arrived, body: Body) -> Complete {
        Complete {
            is_head: arrived.head.method() == Method::Head,
            version: arrived.head.version(),
            is_persistent: arrived.head.is_persistent(),
            exchange: match self.client.of(&arrived.head, &self.worker, &self.rules) {
                Ok(client) => self.worker.exchange(arrived, body, client, &self.rules),
                Err(too_many) => Err(too_many.reply()),
            },
        }
    }

    async fn answer(&mut self, complete: Complete) {
        let Complete { exchange, is_head, version, is_persistent } = complete;
        self.slot.set(Phase::Handling);
        self.requests += 1;
        let is_last = self.limits().requests_max.is_some_and(|max| self.requests >= max);
        if (is_last || !is_persistent) && self.reuse == Reuse::Open {
            self.reuse = Reuse::Close;
        }
        let (Answer { reply, gate }, request) = match exchange {
            Ok(exchange) => (exchange.answer(&self.worker.recorder).await, Some(exchange.request)),
            Err(reply) => (reply.into(), None),
        };
        if self.reuse == Reuse::Open && self.worker.deadlines.is_draining() {
            self.reuse = Reuse::Close;
        }
        let connection = match (self.reuse, version) {
            (Reuse::Close | Reuse::Linger, _) => Some(ConnectionOption::Close),
            (Reuse::Open, Version::Http10) => Some(ConnectionOption::KeepAlive),
            (Reuse::Open, Version::Http11) => None,
        };
        let id = request.as_ref().filter(|_| self.rules.tells_request_ids()).map(|request| &request.id);
        self.replies.push(&reply, gate, id, Writing { date: self.worker.clock.date(), is_head, connection });
    }

    /// Answers what is no request. After this nothing that comes is looked at.
    fn refuse(&mut self, error: &RequestError) {
        tracing::debug!(peer = ?self.client.peer, "request refused: {error}");
        self.end_with(Reply::text(error.status(), error.client_text()));
    }

    fn end_with(&mut self, mut reply: Reply) {
        self.reuse = Reuse::Linger;
        if let Reading::Body(body) = &self.reading
            && let Some(grant) = body.arrived.grant()
        {
            grant.add_to(&mut reply);
        }
        let (date, is_head) = (self.worker.clock.date(), self.is_head_request());
        let writing = Writing { date, is_head, connection: Some(ConnectionOption::Close) };
        self.replies.push(&reply, None, None, writing);
    }

    /// Whether the request that is being read is HEAD, as far as that is known: a refusal has no content then either
    /// (RFC 9110 section 9.3.2).
    fn is_head_request(&self) -> bool {
        match &self.reading {
            Reading::Head => self.input.starts_with(b"HEAD "),
            Reading::Body(body) => body.arrived.head.method() == Method::Head,
        }
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
        self.held.set(self.memory_bytes());
        if !self.replies.release(&self.worker.recorder).await {
            self.reuse = Reuse::Linger;
        }
        write_all(&mut self.stream, &self.slot, &self.held, self.replies.bytes(), &self.rules.limits).await?;
        self.replies.clear();
        Ok(())
    }

    /// Reads more of what the connection waits for; what does not come in time or at all ends it.
    async fn read_on(&mut self) -> Result<(), Gone> {
        self.ask_for_body().await?;
        let (phase, timeout) = self.awaited();
        self.slot.arm(phase, timeout);
        if let Reading::Body(body) = &self.reading
            && body.is_full()
        {
            self.spool().await;
            return Ok(());
        }
        match &self.reading {
            // As much as came already: a length that is only announced takes no memory.
            Reading::Body(body) => self.input.reserve(body.missing_bytes(&self.input).min(self.input.len())),
            // A connection that waits for a request holds no buffer.
            Reading::Head if self.input.is_empty() => self.input = BytesMut::new(),
            Reading::Head => {}
        }
        if !self.held.set(self.memory_bytes()) {
            self.give_up();
            return Ok(());
        }
        let before = self.input.len();
        match read(&mut self.stream, &self.slot, &self.worker.scratch, &mut self.input).await? {
            Came::Bytes => {
                self.earn_time(self.input.len() - before);
                Ok(())
            }
            Came::End => self.end_of_stream(),
            Came::TooLate => self.too_late(),
        }
    }

    /// Moves what came of a body out of memory. The peer waits meanwhile: nothing is read.
    async fn spool(&mut self) {
        self.held.set(self.memory_bytes());
        let Reading::Body(body) = &mut self.reading else { return };
        if let Err(error) = body.spool(&self.worker.spool).await {
            tracing::warn!(peer = ?self.client.peer, "request refused: {error}");
            self.let_go(error.reply());
        }
    }

    /// What is waited for, and how long.
    fn awaited(&self) -> (Phase, Duration) {
        let limits = self.limits();
        match &self.reading {
            Reading::Head if self.head_reader.has_started() => (Phase::Head, limits.head_timeout),
            Reading::Head => (Phase::Idle, limits.idle_timeout),
            Reading::Body(body) => {
                let timeout = body.arrived.body_timeout(limits);
                let grace = if limits.body_rate_min == 0 { timeout } else { limits.body_rate_grace };
                (Phase::Body, grace.min(timeout))
            }
        }
    }

    /// Lets go of a request that did not come whole: there is no memory for the rest of it.
    fn give_up(&mut self) {
        let text = "too much is in flight: nothing was recorded";
        self.let_go(Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text));
    }

    /// Answers a request that did not come whole, and frees what came of it.
    fn let_go(&mut self, reply: Reply) {
        self.end_with(reply);
        self.input = BytesMut::new();
        self.reading = Reading::Head;
        self.held.set(self.memory_bytes());
    }

    /// A body that comes fast enough may go on coming.
    fn earn_time(&self, bytes: usize) {
        if let Reading::Body(body) = &self.reading {
            let limits = self.limits();
            self.slot.earn(
                bytes,
                limits.body_rate_min,
                self.slot.after(body.arrived.begun, body.arrived.body_timeout(limits)),
            );
        }
    }

    /// What the connection holds, as far as the peer decides how much that is.
    fn memory_bytes(&self) -> usize {
        let body_bytes = match &self.reading {
            Reading::Head => 0,
            Reading::Body(body) => body.memory_bytes(),
        };
        self.input.capacity() + body_bytes + self.replies.memory_bytes()
    }

    /// RFC 9110 section 10.1.1: a client that waits for it is told to send its body.
    async fn ask_for_body(&mut self) -> Result<(), Gone> {
        let Reading::Body(body) = &mut self.reading else { return Ok(()) };
        if body.take_continue() {
            write_all(&mut self.stream, &self.slot, &self.held, CONTINUE, &self.rules.limits).await?;
        }
        Ok(())
    }

    fn end_of_stream(&mut self) -> Result<(), Gone> {
        match &self.reading {
            _ if self.is_between_requests() => Err(Gone),
            Reading::Head => {
                self.end_with(Reply::text(StatusCode::BAD_REQUEST, "incomplete request"));
                Ok(())
            }
            Reading::Body(body) => {
                let error = body.incomplete(&self.input);
                self.refuse(&error);
                Ok(())
            }
        }
    }

    fn too_late(&mut self) -> Result<(), Gone> {
        if self.is_between_requests() {
            return Err(Gone);
        }
        self.end_with(Reply::text(StatusCode::REQUEST_TIMEOUT, "the request took too long"));
        Ok(())
    }
}

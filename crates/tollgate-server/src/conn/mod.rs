//! Step 2: one connection, from its bytes to replies in order.
//!
//! Three parts of state, an enum each: [`Reading`] what of a request has come, [`Replies`] what waits to leave,
//! [`Reuse`] what becomes of the connection afterwards. A pass answers every complete request of the read buffer, waits
//! until the log has their records, sends all replies by one write, and reads on.
//!
//! The engine knows a byte stream, not a socket, so that TLS can join. Deadlines are kept by [`deadline`].

mod body;
mod deadline;
mod exchange;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_http::{
    CONTINUE, Connection as ConnectionOption, HeadReader, Method, RequestError, StatusCode, Version,
};

use crate::cors::Grant;
use crate::handler::{Answer, Exchange};
use crate::options::ConnectionLimits;
use crate::reply::{Replies, Reply, Writing};
use crate::worker::Worker;
use body::BodyReader;
pub(crate) use deadline::Deadlines;
use deadline::{Phase, Slot};
pub(crate) use exchange::{Arrived, Destination};

/// What one read takes, at most.
const READ_BYTES_MAX: usize = 64 << 10;
/// Replies that wait are sent when they are this large, even if more requests are there.
const REPLIES_BYTES_MAX: usize = 256 << 10;
/// RFC 9112 section 9.6: how long, and how many bytes, a peer may still send to a connection that ends.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// Serves one connection to its end.
///
/// It counts as one from the call on, not from the first poll: a worker that drains waits for it.
pub(crate) fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    worker: Rc<Worker>,
    stream: S,
    peer: SocketAddr,
) -> impl Future<Output = ()> {
    let connection = Connection {
        slot: Deadlines::enter(&worker.deadlines),
        worker,
        stream,
        peer: peer.ip().to_canonical(),
        input: BytesMut::new(),
        head_reader: HeadReader::default(),
        reading: Reading::Head,
        grant: None,
        replies: Replies::default(),
        reuse: Reuse::Open,
    };
    async move {
        // An error of the stream is the peer's leaving: there is nobody to tell.
        let _gone = connection.run().await;
    }
}

struct Connection<S> {
    worker: Rc<Worker>,
    stream: S,
    peer: IpAddr,
    slot: Slot,
    /// Bytes that came and belong to nothing yet.
    input: BytesMut,
    head_reader: HeadReader,
    reading: Reading,
    /// What a refusal of the body that comes has to say to its page.
    grant: Option<Grant>,
    replies: Replies,
    reuse: Reuse,
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
    async fn run(mut self) -> Result<(), Gone> {
        loop {
            self.answer_what_came().await;
            let is_more_there = self.is_full();
            self.send_replies().await?;
            match self.reuse {
                Reuse::Open if is_more_there => {}
                Reuse::Open => self.read_on().await?,
                Reuse::Close if self.input.is_empty() => return Ok(()),
                Reuse::Close | Reuse::Linger => return self.linger().await,
            }
        }
    }

    /// Answers the complete requests of the buffer, in their order.
    async fn answer_what_came(&mut self) {
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
        &self.worker.limits
    }

    /// Takes the next complete request off the buffer. None: more bytes are needed.
    fn next_request(&mut self) -> Result<Option<Complete>, RequestError> {
        if let Reading::Head = &self.reading {
            let limits = &self.worker.limits.head;
            let Some(head) = self.head_reader.read(&mut self.input, limits)? else { return Ok(None) };
            let arrived = self.worker.receive(head);
            if !arrived.head.framing().has_content() {
                return Ok(Some(self.complete(arrived, Bytes::new())));
            }
            if arrived.is_refused_before_body() {
                // RFC 9110 section 10.1.1: the client asked before it sent, and is told.
                self.reuse = Reuse::Linger;
                return Ok(Some(self.complete(arrived, Bytes::new())));
            }
            self.grant = arrived.grant();
            let body = BodyReader::new(arrived, limits)?;
            self.reading = Reading::Body(Box::new(body));
        }
        let Reading::Body(body) = &mut self.reading else { return Ok(None) };
        let Some(content) = body.read(&mut self.input)? else { return Ok(None) };
        self.grant = None;
        match std::mem::replace(&mut self.reading, Reading::Head) {
            Reading::Body(body) => Ok(Some(self.complete(body.arrived, content))),
            Reading::Head => Ok(None),
        }
    }

    fn complete(&self, arrived: Arrived, body: Bytes) -> Complete {
        Complete {
            is_head: arrived.head.method() == Method::Head,
            version: arrived.head.version(),
            is_persistent: arrived.head.is_persistent(),
            exchange: self.worker.exchange(arrived, body, self.peer),
        }
    }

    async fn answer(&mut self, complete: Complete) {
        let Complete { exchange, is_head, version, is_persistent } = complete;
        self.slot.set(Phase::Handling);
        if !is_persistent && self.reuse == Reuse::Open {
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
        let id = request.as_ref().filter(|_| self.worker.tells_request_ids()).map(|request| &request.id);
        self.replies.push(&reply, gate, id, Writing { date: self.worker.clock.date(), is_head, connection });
    }

    /// Answers what is no request. After this nothing that comes is looked at.
    fn refuse(&mut self, error: &RequestError) {
        tracing::debug!(peer = %self.peer, "request refused: {error}");
        self.end_with(Reply::text(error.status(), error.client_text()));
    }

    fn end_with(&mut self, mut reply: Reply) {
        self.reuse = Reuse::Linger;
        if let Some(grant) = self.grant.take() {
            grant.add_to(&mut reply);
        }
        let connection = Some(ConnectionOption::Close);
        let writing = Writing { date: self.worker.clock.date(), is_head: false, connection };
        self.replies.push(&reply, None, None, writing);
    }

    /// Sends the replies at hand, when the log has their records.
    async fn send_replies(&mut self) -> Result<(), Gone> {
        if self.replies.count() == 0 {
            return Ok(());
        }
        if !self.replies.release(&self.worker.recorder).await {
            self.reuse = Reuse::Linger;
        }
        write_all(&mut self.stream, &self.slot, self.replies.bytes(), self.worker.limits.write_timeout)
            .await?;
        self.replies.clear();
        Ok(())
    }

    /// Reads more of what the connection waits for; what does not come in time or at all ends it.
    async fn read_on(&mut self) -> Result<(), Gone> {
        self.ask_for_body().await?;
        let (phase, timeout) = self.awaited();
        self.slot.arm(phase, timeout);
        match &self.reading {
            Reading::Body(body) => self.input.reserve(body.missing_bytes(&self.input).min(READ_BYTES_MAX)),
            // A connection that waits for a request holds no buffer.
            Reading::Head if self.input.is_empty() => self.input = BytesMut::new(),
            Reading::Head => {}
        }
        match read(&mut self.stream, &self.slot, &self.worker.scratch, &mut self.input).await? {
            Came::Bytes => Ok(()),
            Came::End => self.end_of_stream(),
            Came::TooLate => self.too_late(),
        }
    }

    /// What is waited for, and how long.
    fn awaited(&self) -> (Phase, Duration) {
        let limits = self.limits();
        match &self.reading {
            Reading::Head if self.head_reader.has_started() => (Phase::Head, limits.head_timeout),
            Reading::Head => (Phase::Idle, limits.idle_timeout),
            Reading::Body(body) => (Phase::Body, body.arrived.body_timeout(limits)),
        }
    }

    /// RFC 9110 section 10.1.1: a client that waits for it is told to send its body.
    async fn ask_for_body(&mut self) -> Result<(), Gone> {
        let Reading::Body(body) = &mut self.reading else { return Ok(()) };
        if body.take_continue(&self.input) {
            write_all(&mut self.stream, &self.slot, CONTINUE, self.worker.limits.write_timeout).await?;
        }
        Ok(())
    }

    fn end_of_stream(&mut self) -> Result<(), Gone> {
        match &self.reading {
            Reading::Head if !self.head_reader.has_started() => Err(Gone),
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
        if matches!(&self.reading, Reading::Head) && !self.head_reader.has_started() {
            return Err(Gone);
        }
        self.end_with(Reply::text(StatusCode::REQUEST_TIMEOUT, "the request took too long"));
        Ok(())
    }

    /// RFC 9112 section 9.6: closing while the peer sends would make its system throw the reply away.
    async fn linger(mut self) -> Result<(), Gone> {
        let mut stream = pin!(&mut self.stream);
        poll_fn(|context| stream.as_mut().poll_shutdown(context)).await?;
        self.slot.arm(Phase::Lingering, LINGER_TIMEOUT);
        let mut discarded = self.input.len();
        while discarded < LINGER_BYTES_MAX {
            self.input.clear();
            match read(&mut self.stream, &self.slot, &self.worker.scratch, &mut self.input).await? {
                Came::Bytes => discarded += self.input.len(),
                Came::End | Came::TooLate => break,
            }
        }
        Ok(())
    }
}

enum Came {
    Bytes,
    End,
    TooLate,
}

/// What the connections of a worker read into, one at a time.
pub(crate) struct Scratch(RefCell<Box<[u8]>>);

impl Default for Scratch {
    fn default() -> Self {
        Self(RefCell::new(vec![0; READ_BYTES_MAX].into()))
    }
}

/// Appends what comes to `input`, until the deadline of `slot`.
async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    slot: &Slot,
    scratch: &Scratch,
    input: &mut BytesMut,
) -> io::Result<Came> {
    poll_fn(|context| {
        let mut scratch = scratch.0.borrow_mut();
        let mut came = ReadBuf::new(&mut scratch);
        match Pin::new(&mut *stream).poll_read(context, &mut came) {
            // What came is taken even then: a request that is here when draining begins is answered.
            Poll::Pending if slot.is_over() => Poll::Ready(Ok(Came::TooLate)),
            Poll::Pending => {
                slot.watch(context.waker());
                Poll::Pending
            }
            Poll::Ready(Ok(())) if came.filled().is_empty() => Poll::Ready(Ok(Came::End)),
            Poll::Ready(Ok(())) => {
                input.extend_from_slice(came.filled());
                Poll::Ready(Ok(Came::Bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    })
    .await
}

/// Sends all of `bytes`; each part that the peer takes gives it another `timeout` for the next.
async fn write_all<S: AsyncWrite + Unpin>(
    stream: &mut S,
    slot: &Slot,
    mut bytes: &[u8],
    timeout: Duration,
) -> Result<(), Gone> {
    slot.arm(Phase::Writing, timeout);
    poll_fn(|context| {
        while !bytes.is_empty() {
            if slot.is_over() {
                return Poll::Ready(Err(Gone));
            }
            slot.watch(context.waker());
            let taken = ready!(Pin::new(&mut *stream).poll_write(context, bytes))?;
            if taken == 0 {
                return Poll::Ready(Err(Gone));
            }
            bytes = &bytes[taken..];
            slot.extend(timeout);
        }
        Poll::Ready(Ok(()))
    })
    .await
}

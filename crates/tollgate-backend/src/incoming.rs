//! A reply that is arriving. The caller polls its content at its own pace, without the framing.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use tokio::sync::OwnedSemaphorePermit;
use tollgate_http::{ChunkedDecoder, Decoded, Limits, ReplyFraming, ReplyHead};

use crate::attempt::Attempt;
use crate::breaker::AttemptResult;
use crate::exchange::late;
use crate::link::{HEAD_READ_BYTES_MAX, READ_BYTES_MAX};
use crate::outgoing::Trailers;
use crate::{Failure, FailureKind, Phase};

/// A reply whose head arrived. Dropping this value ends the request and closes its connection.
pub struct Incoming {
    /// The head of the final reply.
    pub head: ReplyHead,
    /// The interim replies before it, except `100 Continue` (RFC 9110 section 15.2).
    pub interim: Vec<ReplyHead>,
    /// Content of the reply.
    pub content: Content,
}

/// The content of a reply.
pub struct Content {
    state: State,
    lease: Option<Lease>,
    /// Time when the head of the reply arrived.
    begun: Instant,
    /// Deadline for the whole content.
    end: Instant,
    /// Deadline for the next bytes. `None` while the caller does not wait for bytes.
    due: Option<Instant>,
    /// The time when the head arrived. `None` after the caller has waited. A known time saves a reading of
    /// the clock.
    now: Option<Instant>,
    /// Trailer field lines, after the end of the content.
    trailers: Vec<u8>,
}

/// Result of relaying a piece of content.
#[derive(Debug, Clone, Copy)]
pub struct Relayed {
    /// Number of bytes that `send` has sent.
    pub sent_bytes: usize,
    /// Whether the piece had the maximum size, so that the next piece is probably available.
    pub is_more_there: bool,
}

/// Resources that a request holds until its reply is over.
pub(crate) struct Lease {
    pub(crate) attempt: Attempt,
    pub(crate) is_reusable: bool,
    pub(crate) _place: OwnedSemaphorePermit,
}

enum State {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
    Over,
}

impl State {
    /// Counts bytes of content with a known length. The content is over after the last byte.
    fn count(&mut self, bytes: usize) {
        if let Self::Length(left) = self {
            *left -= bytes as u64;
            if *left == 0 {
                *self = Self::Over;
            }
        }
    }
}

/// A complete reply.
#[derive(Debug)]
pub struct Gathered {
    /// Head of the reply.
    pub head: ReplyHead,
    /// The content, without a transfer coding.
    pub content: Bytes,
}

impl Content {
    pub(crate) fn new(
        lease: Lease,
        framing: ReplyFraming,
        trailers: Trailers,
        limits: &Limits,
        now: Instant,
        end: Instant,
    ) -> Self {
        let state = match framing {
            ReplyFraming::None | ReplyFraming::Length(0) => State::Over,
            ReplyFraming::Length(bytes) => State::Length(bytes),
            ReplyFraming::Chunked => State::Chunked(Box::new(match trailers {
                Trailers::Discarded => ChunkedDecoder::new(limits),
                Trailers::Kept => ChunkedDecoder::keeping_trailers(limits),
            })),
            ReplyFraming::UntilClose => State::UntilClose,
        };
        let mut content = Self {
            state,
            lease: Some(lease),
            begun: now,
            end,
            due: None,
            now: Some(now),
            trailers: Vec::new(),
        };
        if content.is_over() {
            content.release();
        }
        content
    }

    /// Returns whether the whole content was read.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Returns the trailer fields as lines, after the end of the content, if they were [asked
    /// for](crate::Outgoing::accept_trailers).
    ///
    /// The list leaves out fields that no trailer section may have (RFC 9110 section 6.5.1).
    pub fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// Returns the number of missing bytes, if it is known.
    pub fn missing_bytes(&self) -> Option<u64> {
        match self.state {
            State::Length(bytes) => Some(bytes),
            State::Over => Some(0),
            State::Chunked(_) | State::UntilClose => None,
        }
    }

    /// Appends arriving content to `out`. The result is ready when content was appended, or when the content
    /// is over.
    ///
    /// # Errors
    /// The content will never be complete.
    pub fn poll_read(&mut self, context: &mut Context<'_>, out: &mut BytesMut) -> Poll<Result<(), Failure>> {
        self.poll_some(context, out, READ_BYTES_MAX)
    }

    /// Appends arriving content to `out` like [`poll_read`](Self::poll_read), up to 16 KiB in one call. With
    /// this limit, only a little content is moved together with the head before it.
    pub fn poll_first(&mut self, context: &mut Context<'_>, out: &mut BytesMut) -> Poll<Result<(), Failure>> {
        self.poll_some(context, out, HEAD_READ_BYTES_MAX)
    }

    fn poll_some(
        &mut self,
        context: &mut Context<'_>,
        out: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<Result<(), Failure>> {
        let before = out.len();
        loop {
            if let Err(kind) = self.decode(out) {
                return Poll::Ready(Err(self.failed(kind)));
            }
            if self.is_over() {
                self.release();
                return Poll::Ready(Ok(()));
            }
            if out.len() > before {
                self.came();
                return Poll::Ready(Ok(()));
            }
            match self.poll_input(context, out, bytes_max) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(kind)) => return Poll::Ready(Err(self.failed(kind))),
            }
        }
    }

    /// Returns whether the arriving bytes are the content itself, so that it can be
    /// [relayed](Self::poll_relay).
    pub fn is_plain(&self) -> bool {
        matches!(self.state, State::Length(_))
    }

    /// Reads up to 64 KiB into memory that all connections of the worker share, and lends it to `send`.
    ///
    /// `send` returns how many bytes it sent. Bytes that were not sent are appended to `out`. The result has
    /// the number of sent bytes, and whether more content is probably available.
    ///
    /// # Errors
    /// The content will never be complete.
    pub fn poll_relay(
        &mut self,
        context: &mut Context<'_>,
        out: &mut BytesMut,
        send: impl FnOnce(&mut Context<'_>, &[u8]) -> usize,
    ) -> Poll<Result<Relayed, Failure>> {
        let attempt = self.lease.as_mut().map(|lease| &mut lease.attempt);
        let quiet = attempt.and_then(|Attempt { upstream, link, .. }| {
            Some((upstream, link.as_mut().filter(|link| link.input.is_empty())?))
        });
        let (State::Length(left), Some((upstream, link))) = (&self.state, quiet) else {
            return self.poll_read(context, out).map_ok(|()| Relayed { sent_bytes: 0, is_more_there: false });
        };
        let bytes_max = usize::try_from(*left).unwrap_or(usize::MAX);
        // A second context is needed while the first is borrowed.
        let waker = context.waker().clone();
        let lent = link.poll_lend(context, &upstream.scratch, bytes_max, |came| {
            if came.is_empty() {
                return (0, 0);
            }
            let sent_bytes = send(&mut Context::from_waker(&waker), came);
            out.extend_from_slice(&came[sent_bytes..]);
            (came.len(), sent_bytes)
        });
        let failure = match lent {
            Poll::Ready(Ok((came_bytes @ 1.., sent_bytes))) => {
                self.state.count(came_bytes);
                if self.is_over() {
                    self.release();
                } else {
                    self.came();
                }
                return Poll::Ready(Ok(Relayed { sent_bytes, is_more_there: came_bytes == READ_BYTES_MAX }));
            }
            Poll::Ready(Ok(_)) => FailureKind::Closed,
            Poll::Ready(Err(error)) => FailureKind::Broken(error),
            Poll::Pending => match self.poll_late(context) {
                Poll::Ready(kind) => kind,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(Err(self.failed(failure)))
    }

    /// Records that a piece arrived.
    fn came(&mut self) {
        self.due = None;
        if self.is_undecided() {
            self.decide(Instant::now());
        }
    }

    fn is_undecided(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.attempt.is_undecided())
    }

    /// Counts content that lasts longer than `breaker.open` as a success, because other requests wait for the
    /// result of a probe.
    fn decide(&mut self, now: Instant) {
        if let Some(Lease { attempt, .. }) = &mut self.lease
            && now >= self.begun + attempt.upstream.shared.options.breaker.open
        {
            attempt.succeed_early(now);
        }
    }

    /// The result is ready when the total time of the request is over. The failure names the client as the
    /// cause, because the client did not read the content.
    pub fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<Failure> {
        loop {
            let is_undecided = self.is_undecided();
            let Some(lease) = &mut self.lease else { return Poll::Pending };
            let options = &lease.attempt.upstream.shared.options;
            let limit = options.timeouts.total;
            let at = if is_undecided { self.end.min(self.begun + options.breaker.open) } else { self.end };
            let Some(link) = &mut lease.attempt.link else { return Poll::Pending };
            ready!(link.poll_until(context, at));
            if at == self.end {
                return Poll::Ready(self.failed(FailureKind::NotTaken { limit }));
            }
            self.decide(at);
        }
    }

    /// The result is ready when no bytes arrived before a deadline.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<FailureKind> {
        self.now = None;
        loop {
            let is_undecided = self.is_undecided();
            let Some(Lease { attempt, .. }) = &mut self.lease else {
                return Poll::Ready(FailureKind::Closed);
            };
            let options = &attempt.upstream.shared.options;
            let Some(link) = &mut attempt.link else { return Poll::Ready(FailureKind::Closed) };
            let idle = options.timeouts.idle;
            let due = *self.due.get_or_insert_with(|| self.end.min(Instant::now() + idle));
            let at = if is_undecided { due.min(self.begun + options.breaker.open) } else { due };
            ready!(link.poll_until(context, at));
            if at == due {
                return Poll::Ready(late(due, self.end, idle, &options.timeouts));
            }
            self.decide(at);
        }
    }

    /// Waits for the whole content, up to `bytes_max`. `has_room` returns whether the request may hold that
    /// many bytes of memory.
    ///
    /// # Errors
    /// The content is longer, will never be complete, or exceeds the available memory.
    pub async fn gather(
        &mut self,
        bytes_max: usize,
        mut has_room: impl FnMut(usize) -> bool,
    ) -> Result<Bytes, Failure> {
        let mut out = BytesMut::new();
        if let Some(bytes) = self.missing_bytes().filter(|bytes| *bytes > bytes_max as u64) {
            return Err(self.failed(FailureKind::TooLarge { bytes, limit: bytes_max }));
        }
        while !self.is_over() {
            poll_fn(|context| self.poll_read(context, &mut out)).await?;
            if out.len() > bytes_max {
                let bytes = out.len() as u64;
                return Err(self.failed(FailureKind::TooLarge { bytes, limit: bytes_max }));
            }
            if !has_room(out.capacity()) {
                return Err(self.failed(FailureKind::NoRoom { bytes: out.len() }));
            }
        }
        Ok(out.freeze())
    }

    /// Decodes content from the arrived bytes.
    fn decode(&mut self, out: &mut BytesMut) -> Result<(), FailureKind> {
        let Some(Lease { attempt, .. }) = &mut self.lease else { return Ok(()) };
        let Some(link) = &mut attempt.link else { return Ok(()) };
        let input = &mut link.input;
        if input.is_empty() {
            return Ok(());
        }
        match &mut self.state {
            State::Length(left) => {
                let bytes = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                append(out, input.split_to(bytes));
                self.state.count(bytes);
            }
            State::Chunked(decoder) => {
                let decoded = decoder.decode(input, out, u64::MAX);
                if decoded.map_err(|error| FailureKind::NoReply(error.into()))? == Decoded::Done {
                    decoder.trailers().for_each(|(name, value)| {
                        for piece in [name, b": ", value, b"\r\n"] {
                            self.trailers.extend_from_slice(piece);
                        }
                    });
                    self.state = State::Over;
                }
            }
            State::UntilClose => append(out, input.split()),
            State::Over => {}
        }
        Ok(())
    }

    /// Reads more bytes. Bytes that need no decoding go to `out` without a copy.
    fn poll_input(
        &mut self,
        context: &mut Context<'_>,
        out: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<Result<(), FailureKind>> {
        let Some(Lease { attempt, .. }) = &mut self.lease else {
            return Poll::Ready(Err(FailureKind::Closed));
        };
        let upstream = &attempt.upstream;
        let Some(link) = &mut attempt.link else { return Poll::Ready(Err(FailureKind::Closed)) };
        let read = match &mut self.state {
            State::Length(left) => {
                let left_bytes = usize::try_from(*left).unwrap_or(usize::MAX);
                let read = link.poll_read_into(context, &upstream.scratch, out, left_bytes.min(bytes_max));
                if let Poll::Ready(Ok(bytes)) = &read {
                    self.state.count(*bytes);
                }
                read
            }
            _ => link.poll_read(context, &upstream.scratch, bytes_max),
        };
        match read {
            Poll::Ready(Ok(0)) if matches!(self.state, State::UntilClose) => {
                self.state = State::Over;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Ok(0)) => Poll::Ready(Err(FailureKind::Closed)),
            Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(FailureKind::Broken(error))),
            Poll::Pending => self.poll_late(context).map(Err),
        }
    }

    /// Ends the request. A reusable connection is kept, unless bytes arrived after the end of the reply.
    fn release(&mut self) {
        let now = self.now.unwrap_or_else(Instant::now);
        let Some(Lease { mut attempt, is_reusable, .. }) = self.lease.take() else { return };
        attempt.conclude(AttemptResult::Success, now);
        let Some(link) = attempt.link.take() else { return };
        if !link.input.is_empty() {
            let (backend, address) = (&attempt.upstream.shared.options.name, &attempt.target.place);
            tracing::warn!(backend, %address, "the backend sent bytes after its reply: connection closed");
        } else if is_reusable {
            attempt.upstream.keep(&attempt.target, link, now);
        }
    }

    /// Reports the result when the caller stops reading. If no read waits for the backend, the result is a
    /// success.
    ///
    /// If a read waits, the result counts as neither success nor failure.
    fn leave(&mut self) {
        if self.due.is_none()
            && let Some(Lease { attempt, .. }) = &mut self.lease
        {
            attempt.conclude(AttemptResult::Success, Instant::now());
        }
    }

    fn failed(&mut self, kind: FailureKind) -> Failure {
        self.state = State::Over;
        if !kind.blames_backend() {
            self.leave();
        }
        match self.lease.take() {
            Some(lease) => lease.attempt.fail_late(Phase::Content, kind),
            None => Failure { backend: String::new(), address: None, phase: Phase::Content, kind },
        }
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.leave();
    }
}

fn append(out: &mut BytesMut, piece: BytesMut) {
    if out.capacity() == 0 {
        *out = piece;
    } else {
        out.extend_from_slice(&piece);
    }
}

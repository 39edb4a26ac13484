//! Sends a request, and reads the head of the reply at the same time, because a backend may reply before it
//! has the whole request.

use std::future::poll_fn;
use std::io;
use std::mem::replace;
use std::task::{Context, Poll};
use std::time::Instant;

use tollgate_http::{Limits, ReplyHead, ReplyHeadReader};

use crate::link::{HEAD_READ_BYTES_MAX, Link, Scratch};
use crate::outgoing::{Outgoing, OutgoingContent};
use crate::streamed::Framed;
use crate::{BrokenOff, FailureKind, Phase, Timeouts};

/// Maximum size of one piece of spooled content.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of interim replies before the final reply, including `100 Continue`.
const INTERIM_MAX: usize = 32;

/// The head of a reply, and the interim replies before it.
pub(crate) struct ReceivedHead {
    pub(crate) head: ReplyHead,
    /// Interim replies other than `100 Continue`, in their order.
    pub(crate) interim: Vec<ReplyHead>,
    /// Whether the whole request was sent. Only then can the connection be reused.
    pub(crate) is_sent: bool,
}

/// A request that failed on a connection.
pub(crate) struct Broken {
    pub(crate) phase: Phase,
    pub(crate) kind: FailureKind,
    /// Bytes of the request that the system accepted.
    pub(crate) sent_bytes: u64,
}

impl Broken {
    /// Returns whether the failure fits a kept connection that was already closed: no byte of a reply
    /// arrived.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self.phase, Phase::Send | Phase::FirstByte)
            && matches!(self.kind, FailureKind::Closed | FailureKind::Broken(_))
    }
}

/// Sends a request and reads the head of its reply.
///
/// # Cancel safety
/// After a drop of the future, the connection must not be used again.
pub(crate) async fn exchange(
    link: &mut Link,
    request: &Outgoing,
    timeouts: &Timeouts,
    end: Instant,
    limits: &Limits,
    scratch: &Scratch,
) -> Result<ReceivedHead, Broken> {
    let mut sender = Sender::new(request);
    let mut reader = ReplyHeadReader::default();
    let mut interim = Vec::new();
    let mut interim_count = 0;
    let mut due = None;
    // Whether a byte of the next head arrived.
    let mut has_begun = false;
    let mut moved_bytes = 0;
    let result = poll_fn(|context| {
        loop {
            if let Err(kind) = sender.poll(link, context) {
                return Poll::Ready(Err(kind));
            }
            let moved_before = replace(&mut moved_bytes, sender.sent_bytes + link.flushed_bytes());
            if moved_bytes > moved_before || sender.is_waiting() {
                due = None;
            }
            match link.poll_read(context, scratch, HEAD_READ_BYTES_MAX) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(FailureKind::Closed)),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(FailureKind::Broken(error))),
                Poll::Pending => {
                    let wait = match has_begun {
                        true => timeouts.idle,
                        // The request waits for content of the client here. The client connection has its own
                        // timeouts for this wait.
                        false if sender.is_waiting() => timeouts.total,
                        false => timeouts.first_byte,
                    };
                    let at = *due.get_or_insert_with(|| end.min(Instant::now() + wait));
                    if link.poll_until(context, at).is_pending() {
                        return Poll::Pending;
                    }
                    if sender.is_waiting() {
                        return Poll::Ready(Err(FailureKind::BrokenOff(BrokenOff::TOO_LATE)));
                    }
                    return Poll::Ready(Err(late(at, end, wait, timeouts)));
                }
            }
            if !has_begun {
                (has_begun, due) = (true, None);
            }
            while let Some(head) =
                reader.read(&mut link.input, request.method, limits).map_err(FailureKind::NoReply)?
            {
                if head.status().is_some() {
                    return Poll::Ready(Ok(head));
                }
                // Tollgate itself sends `100 Continue` to the client.
                if head.code() != 100 {
                    interim.push(head);
                }
                interim_count += 1;
                if interim_count > INTERIM_MAX {
                    return Poll::Ready(Err(FailureKind::Interim { limit: INTERIM_MAX }));
                }
                // An interim reply shows that the backend works. The timeout for the first byte therefore
                // begins again for the next head.
                (has_begun, due) = (!link.input.is_empty(), None);
            }
        }
    })
    .await;
    let (is_sent, sent_bytes) = (sender.is_done() && link.is_flushed(), sender.sent_bytes);
    match result {
        Ok(head) => Ok(ReceivedHead { head, interim, is_sent }),
        Err(kind) => {
            let phase = match has_begun || interim_count > 0 {
                true => Phase::Head,
                false if is_sent => Phase::FirstByte,
                false => Phase::Send,
            };
            Err(Broken { phase, kind, sent_bytes })
        }
    }
}

/// Returns the failure for the timeout that was reached: the total time, or `wait`.
pub(crate) fn late(at: Instant, end: Instant, wait: std::time::Duration, timeouts: &Timeouts) -> FailureKind {
    if at == end {
        FailureKind::TotalTimedOut { limit: timeouts.total }
    } else {
        FailureKind::TimedOut { limit: wait }
    }
}

/// Sends the bytes of a request.
struct Sender<'a> {
    request: &'a Outgoing,
    sent_bytes: u64,
    /// Offset of a piece of spooled content, and the bytes of that piece.
    piece: (u64, Vec<u8>),
    /// Framing of streamed content.
    framed: Framed,
    /// Whether the socket accepted all bytes that TLS has encrypted so far.
    is_flushed: bool,
    /// The backend accepts no more bytes. A reply of the backend may still arrive.
    is_refused: bool,
}

impl<'a> Sender<'a> {
    fn new(request: &'a Outgoing) -> Self {
        let framed = Framed::default();
        Self { request, sent_bytes: 0, piece: (0, Vec::new()), framed, is_flushed: true, is_refused: false }
    }

    fn is_done(&self) -> bool {
        let head_bytes = self.request.head.len() as u64;
        match &self.request.content {
            OutgoingContent::Memory(bytes) => self.sent_bytes == head_bytes + bytes.len() as u64,
            OutgoingContent::Spooled(spooled) => self.sent_bytes == head_bytes + spooled.bytes_len(),
            OutgoingContent::Streamed(_) => self.sent_bytes >= head_bytes && self.framed.is_done(),
        }
    }

    /// Returns whether all available content was sent, and more must arrive.
    fn is_waiting(&self) -> bool {
        !self.is_refused && self.is_flushed && self.framed.is_waiting()
    }

    /// Sends as many bytes as the system accepts.
    ///
    /// # Errors
    /// The content cannot be read, or broke off.
    fn poll(&mut self, link: &mut Link, context: &mut Context<'_>) -> Result<(), FailureKind> {
        self.poll_write(link, context)?;
        match link.poll_flush(context) {
            Poll::Pending => self.is_flushed = false,
            Poll::Ready(Ok(())) => self.is_flushed = true,
            Poll::Ready(Err(_)) => self.is_refused = true,
        }
        Ok(())
    }

    fn poll_write(&mut self, link: &mut Link, context: &mut Context<'_>) -> Result<(), FailureKind> {
        while !self.is_done() && !self.is_refused {
            let head_bytes = self.request.head.len() as u64;
            let head = self.request.head.get(place(self.sent_bytes)..).unwrap_or_default();
            let content_at = self.sent_bytes.saturating_sub(head_bytes);
            let request = self.request;
            let is_streamed = head.is_empty() && matches!(request.content, OutgoingContent::Streamed(_));
            let content = match &request.content {
                OutgoingContent::Memory(bytes) => bytes.get(place(content_at)..).unwrap_or_default(),
                OutgoingContent::Spooled(_) => self.piece_at(content_at).map_err(FailureKind::Content)?,
                OutgoingContent::Streamed(streamed) if head.is_empty() => {
                    let piece = self.framed.poll_piece(&**streamed, context);
                    match piece.map_err(FailureKind::BrokenOff)? {
                        [] => return Ok(()),
                        piece => piece,
                    }
                }
                // No content is read from the client before the backend has accepted the head.
                OutgoingContent::Streamed(_) => &[],
            };
            match link.poll_write(context, head, content) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(sent)) => {
                    self.sent_bytes += sent as u64;
                    if is_streamed {
                        self.framed.advance(sent);
                    }
                }
                // A later read from the connection returns the cause.
                Poll::Ready(Err(_)) => self.is_refused = true,
            }
        }
        Ok(())
    }

    /// Returns the piece of spooled content that begins at `offset`.
    fn piece_at(&mut self, offset: u64) -> io::Result<&[u8]> {
        let OutgoingContent::Spooled(spooled) = &self.request.content else { return Ok(&[]) };
        let (begin, piece) = &mut self.piece;
        if offset >= *begin + piece.len() as u64 {
            let left = spooled.bytes_len().saturating_sub(offset);
            piece.resize(place(left).min(PIECE_BYTES_MAX), 0);
            let read = spooled.read_at(piece, offset)?;
            if read == 0 && left > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            piece.truncate(read);
            *begin = offset;
        }
        Ok(&piece[place(offset - *begin)..])
    }
}

fn place(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

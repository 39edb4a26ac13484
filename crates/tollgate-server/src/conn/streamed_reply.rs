//! Sends the content of a streamed reply after its head.
//!
//! The bytes of the script are sent as they are written, framed as chunks. For HTTP/1.0, the close of the
//! connection ends the content.
//!
//! The script waits while bytes are sent. A slow client therefore slows the script down, and at most one full
//! pipe of content is in memory. The connection is read while the script waits, so that a client that leaves
//! is noticed.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tollgate_http::{LAST_CHUNK, write_chunk};

use super::connection::Connection;
use super::gone::Gone;
use super::outlet::Outlet;
use super::stream::{Came, read};
use super::transport::{ConnectionEnd, Transport};
use crate::deadline::Phase;
use crate::handler::{ContentSource, ContentStep};
use crate::reply::Framing;

/// A comment of server-sent events (HTML standard, section 9.2.7).
const HEARTBEAT: &[u8] = b":\n\n";

/// The next event of a streamed reply.
enum Next {
    Step(ContentStep),
    /// The script wrote nothing for the heartbeat interval.
    Pause,
    /// The server drains, and the content has no end by itself.
    Drained,
}

/// Whether the peer may still send bytes.
#[derive(PartialEq, Eq)]
pub(super) enum PeerHalf {
    Open,
    Closed,
}

impl<S: Transport> Connection<S> {
    /// Sends the content of a reply whose head is sent.
    pub(super) async fn send_streamed(
        &mut self,
        mut streamed: ContentSource,
        framing: Framing,
    ) -> Result<(), Gone> {
        // With chunks or a length, missing bytes show the client that content was cut off. Content that lasts
        // until the close has no such sign. A reset therefore marks every early end, for example at the drain
        // deadline.
        if framing == Framing::UntilClose {
            self.stream.when_dropped(ConnectionEnd::Reset);
        }
        let sent = self.send_content(&mut streamed, framing).await;
        if framing == Framing::UntilClose && matches!(sent, Ok(ContentStep::Ended | ContentStep::Sliced)) {
            self.stream.when_dropped(ConnectionEnd::Close);
        }
        if let Some(line) = self.streamed_line.as_mut().filter(|_| streamed.is_refused()) {
            line.note_invalid();
        }
        match sent {
            Ok(ContentStep::Broken) => Err(Gone),
            Ok(ContentStep::Ended) => Ok(()),
            Ok(ContentStep::Written | ContentStep::Sliced) | Err(Gone) => {
                self.queue.beside(&self.worker, &self.held, pin!(streamed.abandon())).await;
                sent.map(drop)
            }
        }
    }

    /// Sends the content until the script ends it or the server drains. If the server drains, the script may
    /// still run.
    async fn send_content(
        &mut self,
        streamed: &mut ContentSource,
        framing: Framing,
    ) -> Result<ContentStep, Gone> {
        let mut half = PeerHalf::Open;
        loop {
            let next = match streamed.plain().filter(|_| framing != Framing::Chunked) {
                Some(plain) => Next::Step(self.relay(plain, &mut half).await?),
                None => self.next_of(streamed, &mut half).await?,
            };
            let mut bytes = Vec::new();
            let ending = match next {
                Next::Step(ContentStep::Broken) => return Ok(ContentStep::Broken),
                Next::Step(ContentStep::Ended) => Some(ContentStep::Ended),
                Next::Step(ContentStep::Written | ContentStep::Sliced) => None,
                Next::Pause => {
                    framing.push(&mut bytes, HEARTBEAT);
                    None
                }
                Next::Drained => Some(ContentStep::Sliced),
            };
            let taken = streamed.take();
            if framing != Framing::Chunked && bytes.is_empty() {
                // Bytes that need no framing are sent without a copy.
                if !self.send_part(&taken, streamed).await? {
                    return Ok(ContentStep::Broken);
                }
            } else {
                framing.push(&mut bytes, &taken);
            }
            if ending.is_some() && framing == Framing::Chunked {
                let (zero, end) = LAST_CHUNK.split_at(LAST_CHUNK.len() - 2);
                [zero, &streamed.trailers(), end].iter().for_each(|part| bytes.extend_from_slice(part));
            }
            if !self.send_part(&bytes, streamed).await? {
                return Ok(ContentStep::Broken);
            }
            if let Some(ending) = ending {
                return Ok(ending);
            }
            if let Next::Step(ContentStep::Sliced) = next {
                self.queue.beside(&self.worker, &self.held, pin!(tokio::task::yield_now())).await;
            }
        }
    }

    /// Sends a part, and waits until the system has it. Otherwise a close after the last part would drop
    /// bytes that a stream of TLS still holds. Returns false if the time limit of the content source passed
    /// before the client took the part.
    async fn send_part(&mut self, bytes: &[u8], streamed: &mut ContentSource) -> Result<bool, Gone> {
        if bytes.is_empty() && self.stream.is_flushed() {
            return Ok(true);
        }
        self.count_held_with(bytes.len() + streamed.memory_bytes());
        self.queue.let_leave(bytes.len());
        let Self { stream, slot, held, rules, worker, queue, streamed_line, .. } = self;
        let mut outlet = Outlet { stream, slot, held, limits: &rules.limits, scratch: &worker.scratch };
        let is_sent = {
            let mut write = pin!(outlet.write_through(bytes));
            let sent = poll_fn(|context| match write.as_mut().poll(context) {
                Poll::Ready(written) => Poll::Ready(written.map(|()| true)),
                Poll::Pending => {
                    streamed.pause();
                    streamed.poll_overdue(context).map(|()| Ok(false))
                }
            });
            queue.beside(worker, held, sent).await?
        };
        queue.let_leave(0);
        if is_sent {
            worker.cells.count_sent(bytes.len());
            if let Some(line) = streamed_line {
                line.add_bytes(bytes.len());
            }
        }
        // The script may wait for a long time before it writes again, so the sent bytes are no longer
        // counted.
        self.count_held_with(streamed.memory_bytes());
        Ok(is_sent)
    }

    /// Waits until the script has written bytes, or another event has to be handled.
    async fn next_of(&mut self, streamed: &mut ContentSource, half: &mut PeerHalf) -> io::Result<Next> {
        let heartbeat = streamed.heartbeat();
        if heartbeat.is_some() && self.worker.deadlines.is_draining() {
            return Ok(Next::Drained);
        }
        self.slot.set(if heartbeat.is_some() { Phase::Events } else { Phase::Handling });
        let reads = self.input.is_empty() && *half == PeerHalf::Open;
        let Self { stream, slot, held, worker, input, queue, .. } = self;
        let mut reading = pin!(async {
            if !reads {
                return pending().await;
            }
            let came = read(stream, slot, &worker.scratch, input).await;
            worker.cells.count_received(input.len());
            came
        });
        let mut pause = pin!(async {
            match heartbeat {
                Some(heartbeat) => tokio::time::sleep(heartbeat).await,
                None => pending().await,
            }
        });
        let mut is_read = false;
        let next = poll_fn(|context: &mut Context<'_>| {
            if let Poll::Ready(step) = streamed.poll(context) {
                return Poll::Ready(Ok(Next::Step(step)));
            }
            if !is_read && let Poll::Ready(came) = reading.as_mut().poll(context) {
                is_read = true;
                match came? {
                    // These bytes are further requests, which wait until the content is sent.
                    Came::Bytes => {}
                    // A half-close does not mean that the client is gone.
                    Came::End => *half = PeerHalf::Closed,
                    Came::TooLate => return Poll::Ready(Ok(Next::Drained)),
                }
            }
            if slot.is_over() {
                return Poll::Ready(Ok(Next::Drained));
            }
            slot.watch(context.waker());
            pause.as_mut().poll(context).map(|()| Ok(Next::Pause))
        });
        queue.beside(worker, held, next).await
    }
}

/// Waits for `leaving`, which sends the bytes before a streamed content. The time limit of the content also
/// counts during this wait.
pub(super) fn beside_content<F: Future + Unpin>(
    mut leaving: F,
    mut streamed: Option<&mut ContentSource>,
) -> impl Future<Output = F::Output> {
    poll_fn(move |context| {
        let polled = Pin::new(&mut leaving).poll(context);
        if polled.is_pending()
            && let Some(streamed) = &mut streamed
        {
            let _ = streamed.poll_overdue(context);
        }
        polled
    })
}

impl Framing {
    /// Appends a part of the content in this framing.
    fn push(self, out: &mut Vec<u8>, part: &[u8]) {
        match self {
            Self::Chunked => write_chunk(out, part),
            Self::Length | Self::UntilClose => out.extend_from_slice(part),
        }
    }
}

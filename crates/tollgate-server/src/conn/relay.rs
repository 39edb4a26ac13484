//! Relays content of known length from a backend. The content is read into the buffer of the worker and
//! written from that buffer. Bytes that the client takes at once are therefore neither kept nor copied.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::connection::Connection;
use super::gone::Gone;
use super::streamed_reply::PeerHalf;
use super::transport::Transport;
use crate::deadline::Phase;
use crate::handler::{BackendContent, ContentStep, RelayedPiece};
use crate::task_turn::give_turn;

impl<S: Transport> Connection<S> {
    /// Relays until the content ends, or until the client does not take a whole piece at once. The remaining
    /// bytes of that piece then have to be sent.
    pub(super) async fn relay(
        &mut self,
        streamed: &mut BackendContent,
        half: &mut PeerHalf,
    ) -> Result<ContentStep, Gone> {
        self.slot.set(Phase::Handling);
        let mut reads = self.input.is_empty() && *half == PeerHalf::Open;
        let Self { stream, held, worker, input, queue, streamed_line, .. } = self;
        let relay = poll_fn(|context| {
            loop {
                let send = |context: &mut Context<'_>, bytes: &[u8]| {
                    match Pin::new(&mut *stream).poll_write(context, bytes) {
                        Poll::Ready(Ok(sent)) => sent,
                        // The caller sends the remaining bytes later, and that call returns the error.
                        Poll::Ready(Err(_)) | Poll::Pending => 0,
                    }
                };
                let Poll::Ready(piece) = streamed.poll_relay(context, send) else { break };
                let RelayedPiece { step, sent_bytes, is_more_there } = piece;
                worker.cells.count_sent(sent_bytes);
                if let Some(line) = &mut *streamed_line {
                    line.add_bytes(sent_bytes);
                }
                if step != ContentStep::Written || streamed.memory_bytes() > 0 {
                    return Poll::Ready(Ok(step));
                }
                if is_more_there {
                    give_turn(context);
                    return Poll::Pending;
                }
            }
            // A stream of TLS may hold bytes. An error is returned by the next write or read.
            let _ = Pin::new(&mut *stream).poll_flush(context);
            if reads {
                // Bytes that arrive here are further requests, which wait in `input`.
                match ready!(worker.scratch.poll_read(stream, context, input))? {
                    0 => *half = PeerHalf::Closed,
                    bytes => worker.cells.count_received(bytes),
                }
                reads = false;
            }
            Poll::Pending
        });
        queue.beside(worker, held, relay).await.map_err(|error: io::Error| error.into())
    }
}

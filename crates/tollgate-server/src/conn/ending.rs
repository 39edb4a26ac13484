//! Ends a connection so that its last reply arrives (RFC 9112 section 9.6).

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::{AsyncWrite, ReadBuf};

use super::connection::Connection;
use super::gone::Gone;
use super::stream::{Came, read};
use super::transport::Transport;
use crate::deadline::{LINGER_TIME_DRAINING, Phase};

/// Minimum age of the last request for a further read before the close. For a younger request the read would
/// prove little, because bytes could also arrive after the read.
const MOMENT: Duration = Duration::from_micros(100);
/// Bounds for a peer that still sends while its connection ends: total time, time between two reads, and
/// bytes. These bounds suffice for a peer that sends a whole body before it reads the reply.
const LINGER_TIME_MAX: Duration = Duration::from_secs(10);
const LINGER_PAUSE_MAX: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 64 << 20;

impl<S: Transport> Connection<S> {
    /// Closes the connection while replies are being sent. The system still delivers these replies, as long
    /// as the peer sends nothing.
    pub(super) async fn close(&mut self) -> Result<(), Gone> {
        if self.has_more_come().await? { self.linger().await } else { Ok(()) }
    }

    /// Returns whether the read buffer is empty, and the last request was answered within [`MOMENT`].
    pub(super) fn was_answered_at_once(&self, asked: Option<Instant>) -> bool {
        self.input.is_empty() && asked.is_some_and(|asked| asked.elapsed() < MOMENT)
    }

    /// Returns whether the peer sent bytes that were not read as requests. With such bytes, a close would
    /// destroy the reply.
    async fn has_more_come(&mut self) -> Result<bool, Gone> {
        if !self.input.is_empty() {
            return Ok(true);
        }
        let Self { stream, worker, .. } = self;
        poll_fn(|context| {
            let mut scratch = worker.scratch.bytes.borrow_mut();
            let mut came = ReadBuf::new(&mut scratch);
            match stream.poll_read_last(context, &mut came) {
                Poll::Pending => Poll::Ready(Ok(false)),
                Poll::Ready(Ok(())) => Poll::Ready(Ok(!came.filled().is_empty())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            }
        })
        .await
    }

    /// Closes the sending half, and continues to read for a time (RFC 9112 section 9.6). If the server closed
    /// at once, a peer that still sends would lose the reply.
    pub(super) async fn linger(&mut self) -> Result<(), Gone> {
        let mut stream = pin!(&mut self.stream);
        poll_fn(|context| stream.as_mut().poll_shutdown(context)).await?;
        let clock = self.worker.clock.clone();
        let begun = clock.coarse();
        self.slot.arm(Phase::Lingering, LINGER_PAUSE_MAX);
        let mut discarded = self.input.len();
        while discarded < LINGER_BYTES_MAX && clock.coarse() < self.linger_end(begun) {
            self.slot.extend_until(LINGER_PAUSE_MAX, self.linger_end(begun));
            self.input.clear();
            match read(&mut self.stream, &self.slot, &self.worker.scratch, &mut self.input).await? {
                Came::Bytes => discarded += self.input.len(),
                Came::End | Came::TooLate => break,
            }
        }
        Ok(())
    }

    /// Returns the latest time at which the connection stops lingering, if it began at `begun`.
    fn linger_end(&self, begun: Instant) -> Instant {
        match self.worker.deadlines.draining_since() {
            None => begun + LINGER_TIME_MAX,
            Some(since) => begun.max(since) + LINGER_TIME_DRAINING,
        }
    }
}

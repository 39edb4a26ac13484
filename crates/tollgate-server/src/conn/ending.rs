//! The end of a connection: so that its last reply arrives (RFC 9112 section 9.6).

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

/// Who was answered within so long is not looked at again as it leaves: what would have come by then comes
/// later as well.
const MOMENT: Duration = Duration::from_micros(100);
/// How long, with which pauses, and how many bytes a peer may still send to a connection that
/// ends. Enough for one that sends all of a body before it looks for a reply.
const LINGER_TIME_MAX: Duration = Duration::from_secs(10);
const LINGER_PAUSE_MAX: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 64 << 20;

impl<S: Transport> Connection<S> {
    /// Closes with replies on their way, which the system goes on to deliver as long as the peer sends
    /// nothing.
    pub(super) async fn close(&mut self) -> Result<(), Gone> {
        if self.has_more_come().await? { self.linger().await } else { Ok(()) }
    }

    /// Whether all that came was one request, just now, and has its reply.
    pub(super) fn was_answered_at_once(&self, asked: Option<Instant>) -> bool {
        self.input.is_empty() && asked.is_some_and(|asked| asked.elapsed() < MOMENT)
    }

    /// Whether the peer sent more than was read as requests. To close then would cut off the reply.
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

    /// RFC 9112 section 9.6: closing while the peer sends would make its system throw the reply away.
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

    /// When lingering that began then is over at the latest.
    fn linger_end(&self, begun: Instant) -> Instant {
        match self.worker.deadlines.draining_since() {
            None => begun + LINGER_TIME_MAX,
            Some(since) => begun.max(since) + LINGER_TIME_DRAINING,
        }
    }
}

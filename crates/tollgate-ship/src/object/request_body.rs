//! The body of a request: the limit on bytes per second, and the time of the last progress.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpRequestBody};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::pace::Pacer;

/// The time of the last progress of a request.
#[derive(Debug)]
pub(super) struct CallProgress(Mutex<Instant>);

impl CallProgress {
    /// Starts with the current time as the last progress.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Instant::now())))
    }

    fn at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the time of the last progress. The time may be in the future, because of the limit on bytes per
    /// second.
    fn note(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Waits until no progress has happened for `time`.
    pub(super) async fn stalled(&self, time: Duration) {
        loop {
            let until = self.at() + time;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// The body of a request. Its pieces are sent at the configured rate.
pub(super) struct RequestBody {
    inner: HttpRequestBody,
    pacer: Arc<Pacer>,
    progress: Arc<CallProgress>,
    /// Timer of the next piece, which may not be sent yet.
    held: Option<(Bytes, Pin<Box<Sleep>>)>,
}

impl RequestBody {
    pub(super) fn new(inner: HttpRequestBody, pacer: Arc<Pacer>, progress: Arc<CallProgress>) -> Self {
        Self { inner, pacer, progress, held: None }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if self.held.is_none() {
            let piece = match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                other => return other,
            };
            let now = Instant::now();
            let delay = self.pacer.delay(piece.len() as u64, now.into_std());
            let at = now + delay;
            self.progress.note(at);
            // A timer of zero length would still wait for the next millisecond.
            if delay.is_zero() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            self.held = Some((piece, Box::pin(sleep_until(at))));
        }
        if let Some((_, sleep)) = &mut self.held
            && sleep.as_mut().poll(cx).is_pending()
        {
            return Poll::Pending;
        }
        Poll::Ready(self.held.take().map(|(piece, _)| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.as_ref().map_or(0, |(piece, _)| piece.len() as u64);
        SizeHint::with_exact(held + self.inner.size_hint().lower())
    }
}

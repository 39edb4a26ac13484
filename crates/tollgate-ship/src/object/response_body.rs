//! The body of a response, with a timeout without progress. At its end, the connection is returned to the
//! pool.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use object_store::client::{HttpError, HttpErrorKind};
use tokio::time::{Instant, Sleep, sleep_until};

use super::fault::{broken, stalled};
use super::pool::Lease;

/// Maximum bytes of the body of an error, which is held in memory.
const ERROR_BYTES_MAX: u64 = 1 << 20;

/// The body of a response. When the body is read, the connection is returned to the pool.
pub(super) struct ResponseBody {
    inner: Incoming,
    lease: Option<Lease>,
    timeout: Duration,
    /// Deadline of the next piece. `None`: no piece is awaited.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Maximum number of bytes that may still arrive. `None`: the reader has its own bound.
    left: Option<u64>,
}

impl ResponseBody {
    /// Wraps the body of a response. The body of an error response is bounded.
    pub(super) fn new(inner: Incoming, lease: Lease, timeout: Duration, is_error: bool) -> Self {
        let left = is_error.then_some(ERROR_BYTES_MAX);
        let mut body = Self { inner, lease: Some(lease), timeout, deadline: None, left };
        body.give_back_at_end();
        body
    }

    fn give_back_at_end(&mut self) {
        if self.inner.is_end_stream()
            && let Some(lease) = self.lease.take()
        {
            lease.give_back();
        }
    }

    fn count(&mut self, bytes: u64) -> Result<(), HttpError> {
        let Some(left) = self.left else { return Ok(()) };
        let Some(left) = left.checked_sub(bytes) else {
            let reason = std::io::Error::other("the body of an error exceeds its limit of 1048576 bytes");
            return Err(HttpError::new(HttpErrorKind::Decode, reason));
        };
        self.left = Some(left);
        Ok(())
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<HttpError> {
        let time = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + time)));
        deadline.as_mut().poll(cx).map(|()| stalled("response"))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Pending => return self.poll_late(cx).map(|error| Some(Err(error))),
            Poll::Ready(frame) => frame,
        };
        self.deadline = None;
        match frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                let counted = self.count(bytes);
                self.give_back_at_end();
                Poll::Ready(Some(counted.map(|()| frame)))
            }
            Some(Err(error)) => {
                drop(self.lease.take());
                Poll::Ready(Some(Err(broken(error))))
            }
            None => {
                self.give_back_at_end();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

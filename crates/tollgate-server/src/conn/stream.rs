//! Bytes from a peer and to it, against the deadline of its connection.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Gone;
use super::deadline::{Phase, Slot};
use crate::crowd::Held;
use crate::options::ConnectionLimits;

/// What one read takes, at most.
const READ_BYTES_MAX: usize = 64 << 10;

/// What a read came to.
pub(super) enum Came {
    Bytes,
    End,
    TooLate,
}

/// What the connections of a worker read into, one at a time.
pub(crate) struct Scratch(pub(super) RefCell<Box<[u8]>>);

impl Default for Scratch {
    fn default() -> Self {
        Self(RefCell::new(vec![0; READ_BYTES_MAX].into()))
    }
}

/// Appends what comes to `input`, until the deadline of `slot`.
pub(super) async fn read<S: AsyncRead + Unpin>(
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

/// Sends all of `bytes`; each part that the peer takes gives it more time for the next. A peer that takes nothing at
/// once while too much is held for such peers is cut off.
pub(super) async fn write_all<S: AsyncWrite + Unpin>(
    stream: &mut S,
    slot: &Slot,
    held: &Held,
    mut bytes: &[u8],
    limits: &ConnectionLimits,
) -> Result<(), Gone> {
    slot.arm(Phase::Writing, limits.write_timeout);
    poll_fn(|context| {
        while !bytes.is_empty() {
            if slot.is_over() {
                return Poll::Ready(Err(Gone));
            }
            slot.watch(context.waker());
            let written = Pin::new(&mut *stream).poll_write(context, bytes);
            if written.is_pending() && held.is_too_much() {
                return Poll::Ready(Err(Gone));
            }
            let taken = ready!(written)?;
            if taken == 0 {
                return Poll::Ready(Err(Gone));
            }
            bytes = &bytes[taken..];
            slot.earn(taken, limits.write_rate_min, slot.within(limits.write_timeout));
        }
        Poll::Ready(Ok(()))
    })
    .await
}

//! Reads bytes from a peer until the deadline of its connection.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use bytes::BytesMut;
use tokio::io::AsyncRead;

use crate::deadline::Slot;
use crate::scratch::Scratch;

/// The result of a read.
pub(super) enum Came {
    Bytes,
    End,
    TooLate,
}

/// Appends the bytes that arrive to `input`, until the deadline of `slot`.
pub(super) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    slot: &Slot,
    scratch: &Scratch,
    input: &mut BytesMut,
) -> io::Result<Came> {
    poll_fn(|context| match scratch.poll_read(stream, context, input) {
        // Bytes that have already arrived are read even after the deadline, so that a request from before a
        // drain is answered.
        Poll::Pending if slot.is_over() => Poll::Ready(Ok(Came::TooLate)),
        Poll::Pending => {
            slot.watch(context.waker());
            Poll::Pending
        }
        Poll::Ready(Ok(0)) => Poll::Ready(Ok(Came::End)),
        Poll::Ready(Ok(_)) => Poll::Ready(Ok(Came::Bytes)),
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
    })
    .await
}

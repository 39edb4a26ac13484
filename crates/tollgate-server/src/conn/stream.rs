//! Bytes from a peer, against the deadline of its connection.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use bytes::BytesMut;
use tokio::io::AsyncRead;

use crate::deadline::Slot;
use crate::scratch::Scratch;

/// What a read came to.
pub(super) enum Came {
    Bytes,
    End,
    TooLate,
}

/// Appends what comes to `input`, until the deadline of `slot`.
pub(super) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    slot: &Slot,
    scratch: &Scratch,
    input: &mut BytesMut,
) -> io::Result<Came> {
    poll_fn(|context| match scratch.poll_read(stream, context, input) {
        // What came is taken even then: a request that is here when draining begins is answered.
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

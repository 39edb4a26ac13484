//! Bytes from a peer, against the deadline of its connection.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, ReadBuf};

use super::deadline::Slot;

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

impl Scratch {
    /// Appends what comes from `stream` to `input`; 0 at the end.
    pub(super) fn poll_read<S: AsyncRead + Unpin>(
        &self,
        stream: &mut S,
        context: &mut Context<'_>,
        input: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        let mut scratch = self.0.borrow_mut();
        let mut came = ReadBuf::new(&mut scratch);
        ready!(Pin::new(stream).poll_read(context, &mut came))?;
        input.extend_from_slice(came.filled());
        Poll::Ready(Ok(came.filled().len()))
    }
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

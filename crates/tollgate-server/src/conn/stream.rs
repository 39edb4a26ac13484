//! Bytes from a peer, against the deadline of its connection.

use std::cell::{Cell, RefCell};
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

/// The room that an input without bytes leaves to the next one, at most: as long as a request is held, so is all of its room.
const ROOM_BYTES_MAX: usize = 1 << 10;

/// What the connections of a worker read into, one at a time.
pub(crate) struct Scratch {
    pub(super) bytes: RefCell<Box<[u8]>>,
    /// Of an input that was read to its end. Mostly that was a moment ago, so it is in the cache.
    room: Cell<BytesMut>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { bytes: RefCell::new(vec![0; READ_BYTES_MAX].into()), room: Cell::default() }
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
        let mut scratch = self.bytes.borrow_mut();
        let mut came = ReadBuf::new(&mut scratch);
        ready!(Pin::new(stream).poll_read(context, &mut came))?;
        if input.capacity() == 0 {
            *input = self.room.take();
        }
        input.extend_from_slice(came.filled());
        Poll::Ready(Ok(came.filled().len()))
    }

    /// Lets the next input have the room of one that is done with, unless that is large or a request is held that lies in it.
    pub(super) fn take_back(&self, mut input: BytesMut) {
        input.clear();
        let is_whole = input.try_reclaim(input.capacity() + 1);
        if is_whole && input.capacity() <= ROOM_BYTES_MAX {
            self.room.set(input);
        }
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

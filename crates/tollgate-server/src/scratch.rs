//! The buffers into which the connections of a worker read.

use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, ReadBuf};
use tollgate_tls::WIRE_BYTES;

/// Maximum bytes of a single read.
const READ_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of one read of TLS records: four records of the maximum size.
const WIRE_BYTES_MAX: usize = 4 * WIRE_BYTES;

/// Maximum size of an input buffer that is reused for the next input, in bytes. A request that refers to its
/// bytes keeps the whole buffer alive, so the buffer has to be small.
const ROOM_BYTES_MAX: usize = 1 << 10;

/// The buffers into which the connections of a worker read. One connection uses the buffers at a time.
pub(crate) struct Scratch {
    pub(crate) bytes: RefCell<Box<[u8]>>,
    /// Buffer of an input that was consumed completely. The input usually ended a moment ago, so the buffer
    /// is in the processor cache.
    room: Cell<BytesMut>,
    /// Buffer for TLS records, which is empty until the first record arrives.
    wire: RefCell<Vec<u8>>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            bytes: RefCell::new(vec![0; READ_BYTES_MAX].into()),
            room: Cell::default(),
            wire: RefCell::default(),
        }
    }
}

impl Scratch {
    /// Appends bytes from `stream` to `input`. Returns 0 at the end of the stream.
    pub(crate) fn poll_read<S: AsyncRead + Unpin>(
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

    /// Returns the buffer for TLS records.
    pub(crate) fn wire(&self) -> RefMut<'_, Vec<u8>> {
        let mut wire = self.wire.borrow_mut();
        wire.resize(WIRE_BYTES_MAX, 0);
        wire
    }

    /// Keeps the buffer of a finished input for the next input, unless the buffer is large or a request still
    /// refers to it.
    pub(crate) fn take_back(&self, mut input: BytesMut) {
        input.clear();
        let is_whole = input.try_reclaim(input.capacity() + 1);
        if is_whole && input.capacity() <= ROOM_BYTES_MAX {
            self.room.set(input);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn read(scratch: &Scratch, mut came: &[u8]) -> BytesMut {
        let mut input = BytesMut::new();
        let read = scratch.poll_read(&mut came, &mut Context::from_waker(Waker::noop()), &mut input);
        assert!(matches!(read, Poll::Ready(Ok(bytes)) if bytes == input.len()));
        input
    }

    #[test]
    fn a_buffer_that_was_read_to_its_end_takes_the_next_input() {
        let scratch = Scratch::default();
        let mut input = read(&scratch, b"one");
        let (head, room) = (input.split_to(3).freeze(), input.as_ptr().wrapping_sub(3));
        drop(head);
        scratch.take_back(input);
        let next = read(&scratch, b"two");
        assert_eq!((&next[..], next.as_ptr()), (&b"two"[..], room));
        assert_eq!(read(&scratch, b"three"), "three");
    }

    #[test]
    fn large_room_is_not_kept() {
        let is_kept = |bytes: usize| {
            let scratch = Scratch::default();
            let mut input = read(&scratch, &vec![b'x'; bytes]);
            drop(input.split());
            scratch.take_back(input);
            scratch.room.take().capacity() > 0
        };
        assert!(is_kept(ROOM_BYTES_MAX));
        assert!(!is_kept(ROOM_BYTES_MAX + 1));
    }

    #[test]
    fn the_rest_of_a_buffer_is_not_kept_while_a_request_is_held_in_it() {
        let scratch = Scratch::default();
        let mut input = read(&scratch, &[b'x'; 500]);
        drop(input.split());
        scratch.take_back(input);
        let mut input = read(&scratch, b"held");
        let held = input.split().freeze();
        assert!(input.capacity() > 0);
        scratch.take_back(input);
        assert_eq!(scratch.room.take().capacity(), 0);
        assert_eq!(held, "held");
    }
}

//! The content of a streamed reply, between the script that writes it and the connection that sends it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A script that wrote as much waits until it is taken.
const PIPE_BYTES_MAX: usize = 64 << 10;

/// Bytes that a script wrote and that are not sent yet: less than 128 KiB, or 64 KiB and an event. The rest
/// of a longer write stays where it is until there is room.
#[derive(Debug, Default)]
pub struct Pipe {
    bytes: RefCell<Vec<u8>>,
    /// Bytes of a write that wait for room, where the script does not hold them.
    copied_bytes: Cell<usize>,
    reader: Cell<Reader>,
    /// Bytes that were taken so far.
    taken_bytes: Cell<u64>,
    writer: RefCell<Option<Waker>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reader {
    #[default]
    There,
    Gone,
}

impl Pipe {
    /// Takes what was written so far; a writer that waits goes on.
    pub fn take(&self) -> Vec<u8> {
        self.wake();
        let bytes = self.bytes.take();
        self.taken_bytes.set(self.taken_bytes.get() + bytes.len() as u64);
        bytes
    }

    /// Tells the writer that nobody sends any more.
    pub fn close(&self) {
        self.reader.set(Reader::Gone);
        self.bytes.take();
        self.wake();
    }

    /// Bytes that were written and not taken.
    pub fn bytes_len(&self) -> usize {
        self.bytes.borrow().len()
    }

    /// Bytes that are held for the writer.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes_len() + self.copied_bytes.get()
    }

    /// Notes how much of a write is a copy that waits for room.
    pub(crate) fn hold_copied(&self, bytes: usize) {
        self.copied_bytes.set(bytes);
    }

    /// Bytes that were taken so far.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.get()
    }

    /// Adds up to 64 KiB unless the pipe is full, and returns how many bytes. A pipe whose reader is gone
    /// takes all.
    pub(crate) fn push(&self, bytes: &[u8]) -> usize {
        if !self.is_open() {
            return bytes.len();
        }
        if self.is_full() {
            return 0;
        }
        let taken = bytes.len().min(PIPE_BYTES_MAX);
        self.bytes.borrow_mut().extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Adds all bytes, whether there is room or not: they have to leave together. False: the reply is not
    /// sent any more.
    pub(crate) fn push_whole(&self, bytes: &[u8]) -> bool {
        if self.is_open() {
            self.bytes.borrow_mut().extend_from_slice(bytes);
        }
        self.is_open()
    }

    /// Whether a writer has to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes_len() >= PIPE_BYTES_MAX
    }

    /// Waits until there is room. False: nobody sends any more.
    pub(crate) async fn room(self: Rc<Self>) -> bool {
        poll_fn(|context| {
            if self.is_full() {
                self.writer.replace(Some(context.waker().clone()));
                return Poll::Pending;
            }
            Poll::Ready(self.is_open())
        })
        .await
    }

    /// Whether anybody takes what is written.
    pub(crate) fn is_open(&self) -> bool {
        self.reader.get() == Reader::There
    }

    fn wake(&self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

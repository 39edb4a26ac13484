//! The pipe for the content of a streamed reply, between the script and the connection.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::conversion::DEPTH_MAX;

/// Number of bytes in the pipe from which on a script waits.
const PIPE_BYTES_MAX: usize = 64 << 10;

/// Bytes that a script wrote and the connection has not yet taken.
///
/// The pipe holds fewer than 128 KiB, or 64 KiB plus one event. The remaining bytes of a longer write stay
/// with the script until the pipe has space.
#[derive(Debug, Default)]
pub struct Pipe {
    bytes: RefCell<Vec<u8>>,
    /// Number of bytes that a waiting write holds in a copy, outside the values of the script.
    copied_bytes: Cell<usize>,
    reader: Cell<Reader>,
    /// Number of bytes that the connection took so far.
    taken_bytes: Cell<u64>,
    writer: RefCell<Option<Waker>>,
    /// The names of the XML elements that the script opened, the innermost last.
    open_elements: RefCell<Vec<String>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reader {
    #[default]
    There,
    Gone,
}

impl Pipe {
    /// Removes and returns the written bytes, and wakes a waiting writer.
    pub fn take(&self) -> Vec<u8> {
        self.wake();
        let bytes = self.bytes.take();
        self.taken_bytes.set(self.taken_bytes.get() + bytes.len() as u64);
        bytes
    }

    /// Discards the content, and wakes the writer, because the connection sends no more.
    pub fn close(&self) {
        self.reader.set(Reader::Gone);
        self.bytes.take();
        self.wake();
    }

    /// Returns the number of bytes that are written and not yet taken.
    pub fn bytes_len(&self) -> usize {
        self.bytes.borrow().len()
    }

    /// Returns the memory that the pipe holds for the writer, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes_len() + self.copied_bytes.get()
    }

    /// Records the number of bytes that a waiting write holds in a copy.
    pub(crate) fn hold_copied(&self, bytes: usize) {
        self.copied_bytes.set(bytes);
    }

    /// Returns the number of bytes that the connection took so far.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.get()
    }

    /// Adds up to 64 KiB unless the pipe is full, and returns the number of added bytes.
    ///
    /// A closed pipe accepts and discards all bytes.
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

    /// Adds all bytes even if the pipe is full, because an event must not be split. Returns false if the pipe
    /// is closed.
    pub(crate) fn push_whole(&self, bytes: &[u8]) -> bool {
        if self.is_open() {
            self.bytes.borrow_mut().extend_from_slice(bytes);
        }
        self.is_open()
    }

    /// Returns whether nothing was written so far.
    pub(crate) fn is_untouched(&self) -> bool {
        self.taken_bytes.get() == 0 && self.bytes_len() == 0
    }

    /// Records that an XML element begins. Returns false if it would be nested too deep.
    pub(crate) fn open_element(&self, tag: String) -> bool {
        let mut open = self.open_elements.borrow_mut();
        let fits = open.len() < DEPTH_MAX;
        if fits {
            open.push(tag);
        }
        fits
    }

    /// Returns the name of the innermost open XML element, which ends now.
    pub(crate) fn close_element(&self) -> Option<String> {
        self.open_elements.borrow_mut().pop()
    }

    /// Returns the fault of a script that has written all, if the client would get XML without its end.
    pub(crate) fn unclosed(&self) -> Option<String> {
        let open = self.open_elements.borrow();
        let tag = open.last().filter(|_| self.is_open())?;
        Some(format!("the function write returned before the element \"{tag}\" was closed: call out:close"))
    }

    /// Returns whether a writer must wait.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes_len() >= PIPE_BYTES_MAX
    }

    /// Waits until the pipe has space. Returns false if the pipe is closed.
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

    /// Returns whether the connection still takes bytes.
    pub(crate) fn is_open(&self) -> bool {
        self.reader.get() == Reader::There
    }

    fn wake(&self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

//! The output of `log cat` and `log tail`: counts the written bytes, and notices that the reader has ended.

use std::io::{self, Write, stdout};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Counts the bytes that are written.
pub(super) struct Output<'a> {
    inner: &'a mut dyn Write,
    bytes: u64,
}

impl<'a> Output<'a> {
    pub(super) const fn new(inner: &'a mut dyn Write) -> Self {
        Self { inner, bytes: 0 }
    }

    /// Returns the number of bytes that were written so far.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Waits until the reader of stdout has ended, `time` has passed, or a signal arrives.
///
/// Returns whether the reader has ended.
///
/// # Errors
/// The system cannot poll.
pub(super) fn is_closed_within(time: Duration) -> io::Result<bool> {
    let stdout = stdout();
    // The end of a reader is reported without being asked for.
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    match poll(&mut polled, Timespec::try_from(time).ok().as_ref()) {
        Ok(0) | Err(Errno::INTR) => Ok(false),
        Ok(_) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

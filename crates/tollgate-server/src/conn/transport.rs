//! The byte stream of a connection. The stream can send files without a copy in the memory of the process, if
//! the system supports this.

use std::fs::File;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Minimum bytes of a file that the system sends in one call. These bytes may exceed the unsent bound,
/// because the system checks the bound only before each packet. A larger unsent bound therefore gains nothing
/// for shorter files.
pub(super) const FILE_BYTES_AT_ONCE: u64 = 64 << 10;
/// Unsent bound for files at the end of a connection, in bytes. The bound can be large, because the pages of
/// a file are in memory only once for all peers.
pub(super) const UNSENT_FILE_BYTES: u32 = 1 << 20;

/// Kind of the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The system still delivers the bytes that it holds for the peer.
    Close,
    /// The connection ends at once, and the peer sees that its content is not complete.
    Reset,
}

/// The byte stream to which replies are sent. The default methods are for streams that are not a plain
/// socket.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Sends bytes when further bytes follow at once, so that all of them may share a packet.
    fn poll_write_more(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(context, bytes)
    }

    /// Returns whether the system has all bytes that were written.
    fn is_flushed(&self) -> bool {
        true
    }

    /// Raises the unsent bound for files, so that fewer calls send them.
    fn let_files_go_ahead(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Lets the system hold a packet that is not full until the connection ends, if that helps.
    fn hold_back(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Lets the system send up to `len` bytes of a file. Returns 0 at the end of the file, and `None` if the
    /// bytes have to pass through memory.
    fn poll_send_file(
        &mut self,
        _context: &mut Context<'_>,
        _file: &File,
        _offset: u64,
        _len: usize,
    ) -> Option<Poll<io::Result<usize>>> {
        None
    }

    /// Returns the number of bytes that the system holds and the peer has not confirmed. `None` if the number
    /// is unknown.
    fn untaken_bytes(&self) -> Option<usize> {
        None
    }

    /// Waits until the peer resets the connection, but not for a half-close. Without this wait, a connection
    /// that does not read now would not notice a reset.
    fn broken_off(&mut self) -> impl Future<Output = io::Error> {
        pending()
    }

    /// Reads available bytes before a close. The task need not be woken for later bytes.
    fn poll_read_last(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self).poll_read(context, buffer)
    }

    /// Sets how the connection ends when it is dropped.
    fn when_dropped(&mut self, ending: ConnectionEnd);
}

/// Any byte stream, without features of a socket.
pub(crate) struct PlainStream<S>(pub(crate) S);

impl<S: AsyncRead + AsyncWrite + Unpin> Transport for PlainStream<S> {
    /// The kind of the end is ignored, because a plain byte stream has only one kind.
    fn when_dropped(&mut self, _: ConnectionEnd) {}
}

impl<S: AsyncRead + Unpin> AsyncRead for PlainStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PlainStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

//! What a connection is made of: bytes both ways and, where the system can, files that go past our memory.

use std::fs::File;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What leaves of a file by one call all the same, as the bound is looked at before each packet: letting more
/// go ahead is no gain.
pub(super) const FILE_BYTES_AT_ONCE: u64 = 64 << 10;
/// The same at the end of a connection, for files: their pages are in memory once, however many peers wait
/// for them.
pub(super) const UNSENT_FILE_BYTES: u32 = 1 << 20;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// What the system holds for the peer is still delivered.
    Close,
    /// It goes at once, and the peer sees that what it has is not all.
    Reset,
}

/// A byte stream that replies leave by. The methods have defaults for streams that are more than a socket.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Sends bytes that others follow at once, with which they may share a packet.
    fn poll_write_more(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(context, bytes)
    }

    /// Has the system take more of files ahead, so that they leave by fewer calls.
    fn let_files_go_ahead(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Has the system keep a packet that is not full until the connection ends, where that is a gain.
    fn hold_back(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Sends up to `len` bytes of a file by the system; 0 at its end. None: they have to pass through memory.
    fn poll_send_file(
        &mut self,
        _context: &mut Context<'_>,
        _file: &File,
        _offset: u64,
        _len: usize,
    ) -> Option<Poll<io::Result<usize>>> {
        None
    }

    /// How many bytes the system holds that the peer has not confirmed. None: nobody knows.
    fn untaken_bytes(&self) -> Option<usize> {
        None
    }

    /// Waits until the peer has broken the connection off; one that only ended its half has not. For who
    /// reads nothing now, and would not hear of it otherwise.
    fn broken_off(&mut self) -> impl Future<Output = io::Error> {
        pending()
    }

    /// Reads what has come. Who is about to close asks, and need not hear of more.
    fn poll_read_last(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self).poll_read(context, buffer)
    }

    /// What becomes of the connection when it is dropped.
    fn when_dropped(&mut self, ending: ConnectionEnd);
}

/// Any byte stream, as what it is.
pub(crate) struct PlainStream<S>(pub(crate) S);

impl<S: AsyncRead + AsyncWrite + Unpin> Transport for PlainStream<S> {
    /// A byte stream has one way to end.
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

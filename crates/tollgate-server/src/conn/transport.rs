//! What a connection is made of: bytes both ways and, where the system can, files that go past our memory.

use std::fs::File;
use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{SendFlags, send};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::reply::Framing;

/// What the system takes of a reply ahead of what it may send: enough to keep a fast peer busy until we are asked for more. What a peer
/// does not take stays with us, where it is counted and bounded, and not in the system. Half of the longest packet: with more, a second
/// one may lie behind the first, and where the congestion control paces (bbr) each that does costs a timer (`docs/performance.md`).
pub(crate) const UNSENT_BYTES: u32 = 32 << 10;
/// What leaves of a file by one call all the same, as the bound is looked at before each packet: letting more go ahead is no gain.
pub(super) const FILE_BYTES_AT_ONCE: u64 = 64 << 10;
/// The same at the end of a connection, for files: their pages are in memory once, however many peers wait for them.
const UNSENT_FILE_BYTES: u32 = 1 << 20;

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

    /// Waits until the peer has broken the connection off; one that only ended its half has not. For who reads nothing now, and
    /// would not hear of it otherwise.
    fn broken_off(&self) -> impl Future<Output = io::Error> {
        pending()
    }

    /// Ends a reply that is not whole, so that the client sees it. Without its last chunk it shows; where the end of the
    /// connection is the end of the content, the connection has to be reset.
    fn abort(&mut self, framing: Framing);
}

macro_rules! socket_transport {
    ($socket:ty, $go_ahead:expr) => {
        impl Transport for $socket {
            fn let_files_go_ahead(&mut self) -> io::Result<()> {
                $go_ahead(self)
            }

            fn poll_write_more(
                &mut self,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                loop {
                    ready!(self.poll_write_ready(context))?;
                    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
                    let sent = self.try_io(Interest::WRITABLE, || Ok(send(self.as_fd(), bytes, flags)?));
                    if !is_blocked(&sent) {
                        return Poll::Ready(sent);
                    }
                }
            }

            fn poll_send_file(
                &mut self,
                context: &mut Context<'_>,
                file: &File,
                offset: u64,
                len: usize,
            ) -> Option<Poll<io::Result<usize>>> {
                loop {
                    match self.poll_write_ready(context) {
                        Poll::Pending => return Some(Poll::Pending),
                        Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                        Poll::Ready(Ok(())) => {}
                    }
                    let mut at = offset;
                    let send = || Ok(rustix::fs::sendfile(self.as_fd(), file, Some(&mut at), len)?);
                    let sent = self.try_io(Interest::WRITABLE, send);
                    match &sent {
                        Err(error) if is_unable(error) => return None,
                        _ if is_blocked(&sent) => {}
                        _ => return Some(Poll::Ready(sent)),
                    }
                }
            }

            async fn broken_off(&self) -> io::Error {
                match self.ready(Interest::ERROR).await {
                    Ok(_) => {
                        let told = self.take_error().ok().flatten();
                        told.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())
                    }
                    Err(error) => error,
                }
            }

            fn abort(&mut self, framing: Framing) {
                if framing == Framing::UntilClose {
                    // A system that refuses closes it as usual.
                    let _ = SockRef::from(&*self).set_linger(Some(Duration::ZERO));
                }
            }
        }
    };
}

socket_transport!(TcpStream, |stream: &TcpStream| {
    SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_FILE_BYTES)
});
socket_transport!(UnixStream, |_: &UnixStream| Ok(()));

/// Readiness was a guess: the runtime asks the system anew.
fn is_blocked(sent: &io::Result<usize>) -> bool {
    matches!(sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// sendfile(2): errors of files that it cannot send.
fn is_unable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}

/// Any byte stream, as what it is.
pub(crate) struct Plain<S>(pub(crate) S);

impl<S: AsyncRead + AsyncWrite + Unpin> Transport for Plain<S> {
    /// A byte stream has one way to end.
    fn abort(&mut self, _: Framing) {}
}

impl<S: AsyncRead + Unpin> AsyncRead for Plain<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Plain<S> {
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

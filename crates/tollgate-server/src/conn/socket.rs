//! The socket of a connection. The socket is registered with the runtime only when a call would block.
//!
//! A connection with one request that is closed after the reply needs no wait, and therefore no registration.
//! An unregistered socket is read only once, because a client that sends more usually has to be awaited.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::transport::{ConnectionEnd, Transport, UNSENT_FILE_BYTES};
use crate::listen::SocketFamily;
use crate::sys;

/// Minimum packet size at which [`Socket`] holds the last packet back for the FIN, in bytes. A packet of this
/// size, for example on loopback, holds most replies completely. A file needs many shorter packets, and
/// holding back the last packet would slow all of them (`docs/explanation/decisions/last-packet.md`).
const LONG_PACKET_BYTES: u32 = 32 << 10;

/// The socket of one connection.
pub(crate) enum Socket<R> {
    /// The socket was accepted, and neither registered nor read. Calls are made at once, and a call that
    /// would block registers the socket.
    Fresh(OwnedFd),
    /// The socket was read once, and is not registered.
    Read(OwnedFd),
    /// The socket is registered, so the runtime reports when it is readable or writable.
    Registered(R),
    /// The system could not register the socket, so the socket is closed.
    Lost,
}

/// A socket that is registered with the runtime.
pub(crate) trait Registered: AsyncRead + AsFd + Unpin + Sized {
    const FAMILY: SocketFamily;

    /// # Errors
    /// The system cannot register the socket.
    fn register(socket: OwnedFd) -> io::Result<Self>;

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Makes a call that writes. If the call would block, the runtime waits for the next readiness event.
    fn try_write<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T>;

    async fn broken_off(&self) -> io::Error;
}

impl<R: Registered> Socket<R> {
    /// Wraps a non-blocking socket that may already have bytes to read.
    pub(crate) fn with_bytes(accepted: OwnedFd) -> Self {
        Self::Fresh(accepted)
    }

    /// Wraps a non-blocking socket and registers it, because it has to be awaited.
    pub(crate) fn awaited(accepted: OwnedFd) -> Self {
        let mut socket = Self::Fresh(accepted);
        // An error is ignored, because `registered` logs it, and the first read returns an error again.
        let _ = socket.registered();
        socket
    }

    fn as_fd(&self) -> io::Result<BorrowedFd<'_>> {
        match self {
            Self::Fresh(socket) | Self::Read(socket) => Ok(socket.as_fd()),
            Self::Registered(stream) => Ok(stream.as_fd()),
            Self::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sets an option that only TCP sockets have.
    fn set_of_tcp(&self, set: impl FnOnce(SockRef<'_>) -> io::Result<()>) -> io::Result<()> {
        match R::FAMILY {
            SocketFamily::Tcp => set(SockRef::from(&self.as_fd()?)),
            SocketFamily::Unix => Ok(()),
        }
    }

    /// Registers the socket, if it is not registered yet. The system reports at registration if the socket is
    /// ready, so no event is missed.
    fn registered(&mut self) -> io::Result<&mut R> {
        if let Self::Fresh(_) | Self::Read(_) = self
            && let Self::Fresh(socket) | Self::Read(socket) = std::mem::replace(self, Self::Lost)
        {
            let registered = R::register(socket).inspect_err(|error| {
                tracing::warn!(%error, "the event queue refused a connection, which is closed");
            });
            *self = Self::Registered(registered?);
        }
        match self {
            Self::Registered(stream) => Ok(stream),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Makes a call. If the call would block, registers the socket, and repeats the call when the socket is
    /// ready.
    fn poll_call<T>(
        &mut self,
        context: &mut Context<'_>,
        mut call: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) -> Poll<io::Result<T>> {
        if let Self::Fresh(socket) | Self::Read(socket) = self {
            match call(socket.as_fd()) {
                Err(Errno::AGAIN) => {}
                made => return Poll::Ready(made.map_err(io::Error::from)),
            }
        }
        let stream = self.registered()?;
        loop {
            ready!(stream.poll_writable(context))?;
            let made = stream.try_write(|| Ok(call(stream.as_fd())?));
            if !matches!(&made, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                return Poll::Ready(made);
            }
        }
    }
}

impl<R: Registered> Transport for Socket<R> {
    fn poll_write_more(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_call(context, |socket| send(socket, bytes, SendFlags::MORE | SendFlags::NOSIGNAL))
    }

    fn let_files_go_ahead(&mut self) -> io::Result<()> {
        self.set_of_tcp(|socket| socket.set_tcp_notsent_lowat(UNSENT_FILE_BYTES))
    }

    fn hold_back(&mut self) -> io::Result<()> {
        self.set_of_tcp(|socket| match socket.tcp_mss()? {
            LONG_PACKET_BYTES.. => socket.set_tcp_cork(true),
            _ => Ok(()),
        })
    }

    fn poll_send_file(
        &mut self,
        context: &mut Context<'_>,
        file: &File,
        offset: u64,
        len: usize,
    ) -> Option<Poll<io::Result<usize>>> {
        match self.poll_call(context, |socket| rustix::fs::sendfile(socket, file, Some(&mut { offset }), len))
        {
            Poll::Ready(Err(error)) if is_unable(&error) => None,
            sent => Some(sent),
        }
    }

    fn poll_read_last(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Fresh(socket) | Self::Read(socket) => read(socket, buffer),
            _ => Pin::new(self).poll_read(context, buffer),
        }
    }

    fn untaken_bytes(&self) -> Option<usize> {
        sys::unconfirmed_bytes(self.as_fd().ok()?)
    }

    async fn broken_off(&mut self) -> io::Error {
        match self.registered() {
            Ok(stream) => stream.broken_off().await,
            Err(error) => error,
        }
    }

    fn when_dropped(&mut self, ending: ConnectionEnd) {
        if let Ok(socket) = self.as_fd() {
            let linger = (ending == ConnectionEnd::Reset).then_some(Duration::ZERO);
            // If the system refuses the option, the socket is closed normally.
            let _ = SockRef::from(&socket).set_linger(linger);
        }
    }
}

impl<R: Registered> AsyncRead for Socket<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Self::Fresh(socket) = this
            && let Poll::Ready(came) = read(socket, buffer)
        {
            if let Self::Fresh(socket) = std::mem::replace(this, Self::Lost) {
                *this = Self::Read(socket);
            }
            return Poll::Ready(came);
        }
        Pin::new(this.registered()?).poll_read(context, buffer)
    }
}

impl<R: Registered> AsyncWrite for Socket<R> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_call(context, |socket| send(socket, bytes, SendFlags::NOSIGNAL))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_call(context, |socket| {
            sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(shutdown(self.as_fd()?, Shutdown::Write)?))
    }
}

/// Reads the available bytes. Returns pending if no bytes are available. In that case the task is not woken
/// later.
fn read(socket: &OwnedFd, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    match recv(socket, buffer.initialize_unfilled(), RecvFlags::empty()) {
        Ok((_, came)) => {
            buffer.advance(came);
            Poll::Ready(Ok(()))
        }
        Err(Errno::AGAIN) => Poll::Pending,
        Err(error) => Poll::Ready(Err(error.into())),
    }
}

/// Returns whether sendfile(2) failed because it cannot send this file.
fn is_unable(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}

macro_rules! registered {
    ($stream:ty, $family:expr) => {
        impl Registered for $stream {
            const FAMILY: SocketFamily = $family;

            fn register(socket: OwnedFd) -> io::Result<Self> {
                Self::from_std(socket.into())
            }

            fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_write_ready(context)
            }

            fn try_write<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
                self.try_io(Interest::WRITABLE, call)
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
        }
    };
}

registered!(TcpStream, SocketFamily::Tcp);
registered!(UnixStream, SocketFamily::Unix);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net;
    use std::os::unix::net as unix;
    use std::pin::pin;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::sys::tests::packets_sent;

    fn unix_pair() -> (Socket<UnixStream>, unix::UnixStream) {
        let (ours, peer) = unix::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Socket::with_bytes(ours.into()), peer)
    }

    fn tcp_pair() -> (Socket<TcpStream>, net::TcpStream) {
        tcp_pair_of_packets(None)
    }

    /// Returns a connected pair of sockets. The peer accepts packets of at most `bytes` bytes.
    fn tcp_pair_of_packets(bytes: Option<u32>) -> (Socket<TcpStream>, net::TcpStream) {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        if let Some(bytes) = bytes {
            peer.set_tcp_mss(bytes).unwrap();
        }
        peer.connect(&listener.local_addr().unwrap().into()).unwrap();
        let peer = net::TcpStream::from(peer);
        let (ours, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Socket::with_bytes(ours.into()), peer)
    }

    fn block_on<F: Future>(task: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(task)
    }

    /// Polls once, and returns the result without a wait.
    async fn now<T>(mut call: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        poll_fn(|context| Poll::Ready(call(context))).await
    }

    async fn read_now<R: Registered>(socket: &mut Socket<R>) -> Option<Vec<u8>> {
        let mut buffer = [0; 64];
        let mut came = ReadBuf::new(&mut buffer);
        match now(|context| Pin::new(&mut *socket).poll_read(context, &mut came)).await {
            Poll::Ready(read) => read.map(|()| came.filled().to_vec()).ok(),
            Poll::Pending => None,
        }
    }

    fn is_registered<R>(socket: &Socket<R>) -> bool {
        matches!(socket, Socket::Registered(_))
    }

    #[test]
    fn one_request_and_its_reply_take_no_registration() {
        block_on(async {
            let (mut socket, mut peer) = unix_pair();
            peer.write_all(b"request").unwrap();
            assert_eq!(read_now(&mut socket).await.as_deref(), Some(&b"request"[..]));
            socket.write_all(b"reply").await.unwrap();
            let mut buffer = [0; 64];
            let mut came = ReadBuf::new(&mut buffer);
            assert!(now(|context| socket.poll_read_last(context, &mut came)).await.is_pending());
            peer.write_all(b"more").unwrap();
            assert!(now(|context| socket.poll_read_last(context, &mut came)).await.is_ready());
            assert_eq!(came.filled(), b"more");
            socket.shutdown().await.unwrap();
            assert!(!is_registered(&socket));
            let mut reply = String::new();
            peer.read_to_string(&mut reply).unwrap();
            assert_eq!(reply, "reply");
        });
    }

    #[test]
    fn a_request_that_comes_later_is_waited_for() {
        block_on(async {
            let (mut socket, mut peer) = tcp_pair();
            let mut came = [0; 7];
            let mut reading = pin!(socket.read_exact(&mut came));
            assert!(now(|context| reading.as_mut().poll(context)).await.is_pending());
            peer.write_all(b"request").unwrap();
            reading.await.unwrap();
            assert!(is_registered(&socket) && came == *b"request");
        });
    }

    #[test]
    fn bytes_that_come_before_their_socket_is_registered_are_noticed() {
        block_on(async {
            let (mut socket, mut peer) = tcp_pair();
            peer.write_all(b"one").unwrap();
            assert!(read_now(&mut socket).await.is_some() && !is_registered(&socket));
            peer.write_all(b"two").unwrap();
            let mut came = [0; 3];
            socket.read_exact(&mut came).await.unwrap();
            assert!(is_registered(&socket) && came == *b"two");
        });
    }

    #[test]
    fn a_peer_that_ended_its_half_is_told_as_often_as_asked() {
        block_on(async {
            let (mut socket, peer) = tcp_pair();
            peer.shutdown(net::Shutdown::Write).unwrap();
            for _ in 0..3 {
                assert_eq!(socket.read(&mut [0; 9]).await.unwrap(), 0);
            }
        });
    }

    #[test]
    fn a_peer_that_takes_nothing_is_waited_for_and_gets_all_in_its_order() {
        let file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..1_000_000).map(|at| (at % 251) as u8).collect();
        std::os::unix::fs::FileExt::write_all_at(&file, &content, 0).unwrap();
        block_on(async {
            let (mut socket, mut peer) = tcp_pair();
            let mut sent = 0;
            // Sends all bytes that the system takes without a wait.
            while !is_registered(&socket) {
                let rest = &content[sent % content.len()..];
                let taken = match sent % 3 {
                    0 => now(|context| socket.poll_write_more(context, rest)).await,
                    1 => now(|context| Pin::new(&mut socket).poll_write(context, rest)).await,
                    _ => {
                        let (at, len) = ((sent % content.len()) as u64, rest.len());
                        now(|context| socket.poll_send_file(context, &file, at, len).unwrap()).await
                    }
                };
                if let Poll::Ready(taken) = taken {
                    sent += taken.unwrap();
                }
            }
            let reading = std::thread::spawn(move || {
                let mut came = Vec::new();
                peer.read_to_end(&mut came).map(|_| came)
            });
            let rest = &content[sent % content.len()..];
            socket.write_all(rest).await.unwrap();
            drop(socket);
            let came = reading.join().unwrap().unwrap();
            assert_eq!(came.len(), sent + rest.len());
            assert!(came.chunks(content.len()).all(|part| part == content));
        });
    }

    #[test]
    fn a_connection_that_reads_nothing_notices_that_its_peer_is_gone() {
        block_on(async {
            let (mut socket, peer) = tcp_pair();
            SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
            let mut broken_off = pin!(socket.broken_off());
            assert!(now(|context| broken_off.as_mut().poll(context)).await.is_pending());
            drop(peer);
            assert_eq!(broken_off.await.kind(), io::ErrorKind::ConnectionReset);
        });
    }

    #[test]
    fn the_end_of_a_file_is_held_back_in_long_packets_only() {
        for (bytes, is_held_back) in [(Some(1448), false), (Some(32_000), false), (None, true)] {
            let (mut socket, _peer) = tcp_pair_of_packets(bytes);
            socket.hold_back().unwrap();
            let corked = SockRef::from(&socket.as_fd().unwrap()).tcp_cork().unwrap();
            assert_eq!(corked, is_held_back, "{bytes:?}");
        }
    }

    #[test]
    fn held_back_bytes_share_a_packet_with_the_end_of_the_connection() {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"reply", 0).unwrap();
        block_on(async {
            for (by_file, held_back, packets) in
                [(false, false, 2), (false, true, 1), (true, false, 2), (true, true, 1)]
            {
                let (mut socket, mut peer) = tcp_pair();
                let before = packets_sent(socket.as_fd().unwrap());
                let sent = if by_file {
                    if held_back {
                        socket.hold_back().unwrap();
                    }
                    now(|context| socket.poll_send_file(context, &file, 0, 5).unwrap()).await
                } else if held_back {
                    now(|context| socket.poll_write_more(context, b"reply")).await
                } else {
                    now(|context| Pin::new(&mut socket).poll_write(context, b"reply")).await
                };
                assert!(matches!(sent, Poll::Ready(Ok(5))), "{sent:?}");
                socket.shutdown().await.unwrap();
                assert_eq!(packets_sent(socket.as_fd().unwrap()) - before, packets, "{by_file} {held_back}");
                let mut reply = String::new();
                peer.read_to_string(&mut reply).unwrap();
                assert_eq!(reply, "reply");
            }
        });
    }
}

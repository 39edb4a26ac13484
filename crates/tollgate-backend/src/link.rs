//! One connection to a backend, and the bytes that arrived on it.

use std::cell::{RefCell, RefMut};
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Sleep;
use tollgate_tls::{TlsReader, WIRE_BYTES};

use crate::target::TargetAddress;
use crate::tls::{ClientStream, handshake};
use crate::{FailureKind, Phase, TlsOptions};

/// Read buffers that the connections of a worker share. One connection uses the buffers at a time.
pub(crate) struct Scratch {
    content: RefCell<Box<[u8]>>,
    /// Buffer for TLS records, which is empty until the first TLS record arrives.
    wire: RefCell<Vec<u8>>,
}

pub(crate) const READ_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of one read while a head is awaited. A short reply fits completely. Of a long reply, only a
/// little content has to be moved.
pub(crate) const HEAD_READ_BYTES_MAX: usize = 16 << 10;

impl Default for Scratch {
    fn default() -> Self {
        Self { content: RefCell::new(vec![0; READ_BYTES_MAX].into()), wire: RefCell::default() }
    }
}

impl Scratch {
    fn wire(&self) -> RefMut<'_, Vec<u8>> {
        let mut wire = self.wire.borrow_mut();
        wire.resize(WIRE_BYTES, 0);
        wire
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// TLS over TCP. The value is on the heap, so that the other variants stay small.
    Tls(Box<ClientStream>),
}

pub(crate) struct Link {
    stream: Stream,
    /// Bytes that arrived and were not parsed as a reply. This buffer holds no memory while it is empty.
    pub(crate) input: BytesMut,
    pub(crate) made: Instant,
    pub(crate) idle_since: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    fn poll_read<T>(
        &mut self,
        context: &mut Context<'_>,
        scratch: &Scratch,
        bytes_max: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        let mut content = scratch.content.borrow_mut();
        let bytes_max = bytes_max.min(READ_BYTES_MAX);
        let mut came = ReadBuf::new(&mut content[..bytes_max]);
        ready!(match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, &mut came),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, &mut came),
            Self::Tls(stream) => stream.poll_read(context, &mut scratch.wire(), &mut came),
        })?;
        Poll::Ready(Ok(take(came.filled())))
    }
}

impl Link {
    /// Creates a connection. `phase` is set to the current phase: connect or handshake.
    ///
    /// # Errors
    /// The peer accepts no connection, or cannot prove its identity.
    pub(crate) async fn connect(
        place: &TargetAddress,
        tls: Option<&TlsOptions>,
        phase: &mut Phase,
    ) -> Result<Self, FailureKind> {
        let stream = match place {
            TargetAddress::Tcp(address) => Stream::Tcp(tcp(address).await.map_err(FailureKind::Connect)?),
            TargetAddress::Tls { address, name } => {
                let socket = tcp(address).await.map_err(FailureKind::Connect)?;
                *phase = Phase::Handshake;
                let options = tls.ok_or(FailureKind::NoTls)?;
                let stream = handshake(socket, name.clone(), options).await;
                Stream::Tls(Box::new(stream.map_err(FailureKind::Handshake)?))
            }
            TargetAddress::Unix(path) => {
                Stream::Unix(UnixStream::connect(path).await.map_err(FailureKind::Connect)?)
            }
        };
        let now = Instant::now();
        Ok(Self { stream, input: BytesMut::new(), made: now, idle_since: now, timer: None })
    }

    /// Returns whether neither a byte nor the end of the stream arrived since the last reply.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let came = match &mut self.stream {
            Stream::Tcp(stream) => stream.try_read(&mut byte),
            Stream::Unix(stream) => stream.try_read(&mut byte),
            Stream::Tls(stream) => return self.input.is_empty() && stream.is_quiet(),
        };
        self.input.is_empty() && came.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Appends up to `bytes_max` arriving bytes to the input. 0 means the end.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        scratch: &Scratch,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let input = &mut self.input;
        let append = |came: &[u8]| {
            input.extend_from_slice(came);
            came.len()
        };
        self.stream.poll_read(context, scratch, bytes_max, append)
    }

    /// Lends up to `bytes_max` arriving bytes to `take`. At the end of the stream, `take` gets an empty
    /// slice. The input must be empty.
    pub(crate) fn poll_lend<T>(
        &mut self,
        context: &mut Context<'_>,
        scratch: &Scratch,
        bytes_max: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        self.stream.poll_read(context, scratch, bytes_max, take)
    }

    /// Appends up to `bytes_max` arriving bytes to `out`. 0 means the end. The input must be empty.
    pub(crate) fn poll_read_into(
        &mut self,
        context: &mut Context<'_>,
        scratch: &Scratch,
        out: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        // The buffer is reserved only after bytes arrived, so that a connection that waits holds no buffer.
        ready!(match &mut self.stream {
            Stream::Tcp(stream) => stream.poll_read_ready(context),
            Stream::Unix(stream) => stream.poll_read_ready(context),
            Stream::Tls(stream) => stream.poll_read_ready(context, &mut scratch.wire()).map(Ok),
        })?;
        out.reserve(bytes_max.min(READ_BYTES_MAX));
        let mut out = out.limit(bytes_max.min(READ_BYTES_MAX));
        match &mut self.stream {
            Stream::Tcp(stream) => pin!(stream.read_buf(&mut out)).poll(context),
            Stream::Unix(stream) => pin!(stream.read_buf(&mut out)).poll(context),
            Stream::Tls(stream) => {
                let mut reader = TlsReader { stream, wire: &mut scratch.wire() };
                pin!(reader.read_buf(&mut out)).poll(context)
            }
        }
    }

    /// Sends as many bytes of two pieces as the system accepts. TLS may accept bytes before the system does:
    /// see [`Self::poll_flush`].
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        let slices = [IoSlice::new(first), IoSlice::new(second)];
        let sent = match (&mut self.stream, first, second) {
            (Stream::Tcp(stream), piece, []) | (Stream::Tcp(stream), [], piece) => {
                Pin::new(stream).poll_write(context, piece)
            }
            (Stream::Unix(stream), piece, []) | (Stream::Unix(stream), [], piece) => {
                Pin::new(stream).poll_write(context, piece)
            }
            (Stream::Tcp(stream), ..) => Pin::new(stream).poll_write_vectored(context, &slices),
            (Stream::Unix(stream), ..) => Pin::new(stream).poll_write_vectored(context, &slices),
            (Stream::Tls(stream), ..) => stream.poll_write(context, &slices),
        };
        match ready!(sent) {
            Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            sent => Poll::Ready(sent),
        }
    }

    /// Sends the bytes that TLS accepted and has not yet sent.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => stream.poll_flush(context),
        }
    }

    /// Returns whether all written bytes were sent.
    pub(crate) fn is_flushed(&self) -> bool {
        match &self.stream {
            Stream::Tcp(_) | Stream::Unix(_) => true,
            Stream::Tls(stream) => stream.is_flushed(),
        }
    }

    /// Returns a count that rises while bytes accepted by TLS are sent.
    pub(crate) fn flushed_bytes(&self) -> u64 {
        match &self.stream {
            Stream::Tcp(_) | Stream::Unix(_) => 0,
            Stream::Tls(stream) => stream.left_bytes(),
        }
    }

    /// The result is ready at the time `at`. If `at` is later than in the last call, the call does not access
    /// the timers of the runtime.
    pub(crate) fn poll_until(&mut self, context: &mut Context<'_>, at: Instant) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
        if timer.deadline() != at.into() {
            timer.as_mut().reset(at.into());
        }
        timer.as_mut().poll(context)
    }
}

async fn tcp(address: &SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

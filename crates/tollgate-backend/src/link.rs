//! One connection to a backend, and what came on it.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Sleep;

use crate::target::Place;

/// What the connections of a worker read into, one at a time.
pub(crate) struct Scratch(RefCell<Box<[u8]>>);

pub(crate) const READ_BYTES_MAX: usize = 64 << 10;
/// What is read at once while a head is awaited: with it comes all of a short reply, and little to be moved of a long one.
pub(crate) const HEAD_READ_BYTES_MAX: usize = 16 << 10;

impl Default for Scratch {
    fn default() -> Self {
        Self(RefCell::new(vec![0; READ_BYTES_MAX].into()))
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

pub(crate) struct Link {
    stream: Stream,
    /// What came and was not read as a reply. Holds no memory while it is empty.
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
        let mut scratch = scratch.0.borrow_mut();
        let bytes_max = bytes_max.min(READ_BYTES_MAX);
        let mut came = ReadBuf::new(&mut scratch[..bytes_max]);
        ready!(match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, &mut came),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, &mut came),
        })?;
        Poll::Ready(Ok(take(came.filled())))
    }
}

impl Link {
    pub(crate) async fn connect(place: &Place) -> io::Result<Self> {
        let stream = match place {
            Place::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Place::Unix(path) => Stream::Unix(UnixStream::connect(path).await?),
        };
        let now = Instant::now();
        Ok(Self { stream, input: BytesMut::new(), made: now, idle_since: now, timer: None })
    }

    /// Whether nothing came since the last reply, not even the end.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let came = match &self.stream {
            Stream::Tcp(stream) => stream.try_read(&mut byte),
            Stream::Unix(stream) => stream.try_read(&mut byte),
        };
        self.input.is_empty() && came.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Appends up to `bytes_max` of what comes to the input; 0 at the end.
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

    /// Lends up to `bytes_max` of what comes to `take`, past the input, which is empty; none at the end.
    pub(crate) fn poll_lend<T>(
        &mut self,
        context: &mut Context<'_>,
        scratch: &Scratch,
        bytes_max: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        self.stream.poll_read(context, scratch, bytes_max, take)
    }

    /// Appends up to `bytes_max` of what comes to `out`, past the input, which is empty; 0 at the end.
    pub(crate) fn poll_read_into(
        &mut self,
        context: &mut Context<'_>,
        out: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        // Whoever waits holds no buffer.
        ready!(match &self.stream {
            Stream::Tcp(stream) => stream.poll_read_ready(context),
            Stream::Unix(stream) => stream.poll_read_ready(context),
        })?;
        out.reserve(bytes_max.min(READ_BYTES_MAX));
        let mut out = out.limit(bytes_max.min(READ_BYTES_MAX));
        match &mut self.stream {
            Stream::Tcp(stream) => pin!(stream.read_buf(&mut out)).poll(context),
            Stream::Unix(stream) => pin!(stream.read_buf(&mut out)).poll(context),
        }
    }

    /// Sends of two pieces what the system takes.
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
        };
        match ready!(sent) {
            Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            sent => Poll::Ready(sent),
        }
    }

    /// Ready once a moment has come. A later moment than that of the last call costs no look at the timers.
    pub(crate) fn poll_until(&mut self, context: &mut Context<'_>, at: Instant) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
        if timer.deadline() != at.into() {
            timer.as_mut().reset(at.into());
        }
        timer.as_mut().poll(context)
    }
}

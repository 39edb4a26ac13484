//! One connection to a backend, and what came on it.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Sleep;

use crate::target::Place;

/// What the connections of a worker read into, one at a time.
pub(crate) struct Scratch(RefCell<Box<[u8]>>);

const READ_BYTES_MAX: usize = 64 << 10;

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

    /// Appends what comes to the input; 0 at the end.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        scratch: &Scratch,
    ) -> Poll<io::Result<usize>> {
        let mut scratch = scratch.0.borrow_mut();
        let mut came = ReadBuf::new(&mut scratch);
        ready!(match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, &mut came),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, &mut came),
        })?;
        self.input.extend_from_slice(came.filled());
        Poll::Ready(Ok(came.filled().len()))
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

//! A TLS session over a socket, as the byte stream of a connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_tls::TlsStream;

use super::transport::{ConnectionEnd, Transport};
use crate::worker::Worker;

/// Maximum bytes that wait for further bytes, so that all of them share a record: the content of one record
/// (RFC 8446 section 5.1).
const WAITING_BYTES_MAX: usize = 16 << 10;

/// A TLS session after its handshake.
pub(super) struct TlsSocket<S: Transport> {
    stream: TlsStream<S, ServerConnection>,
    /// Bytes that are not encrypted yet, because further bytes follow at once. The buffer is usually empty
    /// and then holds no memory.
    waiting: Vec<u8>,
    worker: Rc<Worker>,
}

impl<S: Transport> TlsSocket<S> {
    pub(super) fn new(stream: TlsStream<S, ServerConnection>, worker: Rc<Worker>) -> Self {
        Self { stream, waiting: Vec::new(), worker }
    }

    /// Encrypts the waiting bytes and `bytes`, and sends as much as the socket accepts. Returns how many of
    /// `bytes` were taken.
    fn poll_encrypt(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let slices = [IoSlice::new(&self.waiting), IoSlice::new(bytes)];
        let taken = ready!(self.stream.poll_write(context, &slices))?;
        match taken.checked_sub(self.waiting.len()) {
            Some(of_bytes) => {
                self.waiting = Vec::new();
                Poll::Ready(Ok(of_bytes))
            }
            None => Poll::Ready(Err(io::Error::other("a TLS session took too few bytes"))),
        }
    }

    /// Sends all bytes that were taken.
    fn poll_send_all(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.waiting.is_empty() {
            ready!(self.poll_encrypt(context, &[]))?;
        }
        self.stream.poll_flush(context)
    }
}

impl<S: Transport> Transport for TlsSocket<S> {
    fn poll_write_more(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.waiting.len() + bytes.len() > WAITING_BYTES_MAX {
            return self.poll_encrypt(context, bytes);
        }
        self.waiting.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn is_flushed(&self) -> bool {
        self.waiting.is_empty() && self.stream.is_flushed()
    }

    fn untaken_bytes(&self) -> Option<usize> {
        self.stream.socket().untaken_bytes()
    }

    async fn broken_off(&mut self) -> io::Error {
        self.stream.socket_mut().broken_off().await
    }

    fn when_dropped(&mut self, ending: ConnectionEnd) {
        self.stream.set_end_announced(ending == ConnectionEnd::Close);
        self.stream.socket_mut().when_dropped(ending);
    }
}

impl<S: Transport> AsyncRead for TlsSocket<S> {
    /// Reads content. A stream that ends without an announcement ends like any other stream, because the
    /// framing of HTTP shows whether a request is complete (RFC 9112 section 9.8).
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, worker, .. } = self.get_mut();
        match ready!(stream.poll_read(context, &mut worker.scratch.wire(), buffer)) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => Poll::Ready(read),
        }
    }
}

impl<S: Transport> AsyncWrite for TlsSocket<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_encrypt(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send_all(context)
    }

    /// Announces the end of the content (`close_notify`), and closes the sending half of the socket.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send_all(context))?;
        ready!(this.stream.poll_end(context))?;
        Pin::new(this.stream.socket_mut()).poll_shutdown(context)
    }
}

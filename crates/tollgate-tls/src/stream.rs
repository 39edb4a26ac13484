//! A byte stream inside TLS over a socket, for clients and servers. rustls converts it to records and back.
//! The task that owns the stream moves the records when the socket is ready.
//!
//! The memory is bounded: 64 KiB of encrypted bytes that are not sent, and about as much of received bytes
//! that are not read.

#[cfg(test)]
mod tests;
mod wire;

use std::io::{self, BufRead, IoSlice, Write};
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use rustls::client::ClientConnectionData;
use rustls::server::ServerConnectionData;
use rustls::{ClientConnection, ConnectionCommon, Error, ProtocolVersion, ServerConnection, SideData};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::boundary::Boundary;
use wire::Wire;

/// Maximum bytes that are encrypted before the socket accepts them.
const WRITE_BYTES_MAX: usize = 64 << 10;
/// Bytes of one read from the socket: a record of the maximum size and a little more (RFC 8446 section 5.2).
pub const WIRE_BYTES: usize = (16 << 10) + 512;
/// Maximum number of reads in the check for a quiet connection. Only session tickets may arrive on a quiet
/// connection, and they are few.
const QUIET_READS_MAX: usize = 4;
/// Bytes of one read in the check for a quiet connection: a few session tickets.
const QUIET_READ_BYTES: usize = 1 << 10;

/// The client or the server of a TLS session.
pub trait Side: DerefMut<Target = ConnectionCommon<Self::Data>> + Unpin {
    /// The state of this side in rustls.
    type Data: SideData;
}

impl Side for ClientConnection {
    type Data = ClientConnectionData;
}

impl Side for ServerConnection {
    type Data = ServerConnectionData;
}

/// A byte stream inside TLS over the socket `S`. `C` is the session of this side.
pub struct TlsStream<S: AsyncRead + AsyncWrite + Unpin, C: Side> {
    socket: S,
    session: C,
    boundary: Boundary,
    /// Received bytes that wait until earlier content is read. The buffer is usually empty and then holds no
    /// memory.
    ahead: Vec<u8>,
    end: End,
    left_bytes: u64,
    is_end_announced: bool,
}

/// State of the end of the received bytes.
enum End {
    /// The end has not arrived.
    Open,
    /// The peer announced the end (`close_notify`).
    Told,
    /// The stream ended in any other way. The error is returned once.
    Broken(Option<io::Error>),
}

/// A failed handshake.
#[derive(Debug, thiserror::Error)]
pub enum TlsHandshakeError {
    /// The session failed. An alert was sent to the peer.
    #[error("{error}")]
    Tls {
        /// The error of rustls.
        error: Error,
        /// The version, if the peers agreed on one.
        chosen: Option<ProtocolVersion>,
    },
    /// The socket failed or ended.
    #[error("{0}")]
    Socket(#[source] io::Error),
}

impl<S: AsyncRead + AsyncWrite + Unpin, C: Side> TlsStream<S, C> {
    /// Wraps a socket before the handshake. `ahead` holds bytes of the peer that were read already.
    pub fn new(socket: S, mut session: C, ahead: Vec<u8>) -> Self {
        session.set_buffer_limit(Some(WRITE_BYTES_MAX));
        Self {
            socket,
            session,
            boundary: Boundary::default(),
            ahead,
            end: End::Open,
            left_bytes: 0,
            is_end_announced: true,
        }
    }

    /// Returns the socket.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// Returns the socket for calls that neither read nor write.
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Returns the session.
    pub fn session(&self) -> &C {
        &self.session
    }

    /// Returns whether the handshake has not ended.
    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Performs the handshake. The buffer `wire` should have [`WIRE_BYTES`] bytes.
    ///
    /// # Errors
    /// The handshake failed, or the socket failed or ended.
    pub fn poll_handshake(
        &mut self,
        context: &mut Context<'_>,
        wire: &mut [u8],
    ) -> Poll<Result<(), TlsHandshakeError>> {
        while self.session.is_handshaking() {
            ready!(self.poll_handshake_bytes(context, wire))?;
            self.process_handshake(context)?;
        }
        self.poll_flush(context).map_err(TlsHandshakeError::Socket)
    }

    /// Waits for bytes of the handshake. A server can then choose the time of the expensive
    /// [`process_handshake`](Self::process_handshake).
    ///
    /// # Errors
    /// The socket failed or ended.
    pub fn poll_handshake_bytes(
        &mut self,
        context: &mut Context<'_>,
        wire: &mut [u8],
    ) -> Poll<Result<(), TlsHandshakeError>> {
        // A failure is ignored here: if the peer accepts no bytes, the read below returns the cause.
        let _ = self.poll_flush(context);
        if self.ahead.is_empty() {
            let mut came = ReadBuf::new(wire);
            ready!(Pin::new(&mut self.socket).poll_read(context, &mut came))
                .map_err(TlsHandshakeError::Socket)?;
            if came.filled().is_empty() {
                return Poll::Ready(Err(TlsHandshakeError::Socket(io::ErrorKind::UnexpectedEof.into())));
            }
            self.ahead.extend_from_slice(came.filled());
        }
        Poll::Ready(Ok(()))
    }

    /// Processes the bytes of the handshake that have arrived. Bytes after the handshake stay for later.
    ///
    /// # Errors
    /// The handshake failed.
    pub fn process_handshake(&mut self, context: &mut Context<'_>) -> Result<(), TlsHandshakeError> {
        let ahead = std::mem::take(&mut self.ahead);
        let mut came = &ahead[..];
        while self.session.is_handshaking() && !came.is_empty() {
            let before = came;
            self.session.read_tls(&mut came).map_err(TlsHandshakeError::Socket)?;
            self.boundary.pass(&before[..before.len() - came.len()]);
            match self.session.process_new_packets() {
                // The end of the peer may come with the last message of the handshake.
                Ok(state) if state.peer_has_closed() => self.end = End::Told,
                Ok(_) => {}
                Err(error) => {
                    // Sends the alert. A failure to send is ignored.
                    let _ = self.poll_flush(context);
                    let chosen = self.session.protocol_version();
                    return Err(TlsHandshakeError::Tls { error, chosen });
                }
            }
        }
        self.ahead = came.to_vec();
        Ok(())
    }

    /// Returns whether all written bytes were sent.
    pub fn is_flushed(&self) -> bool {
        !self.session.wants_write()
    }

    /// Returns the number of bytes of records that the socket accepted.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Sends the encrypted bytes that are not yet sent.
    ///
    /// # Errors
    /// The socket failed.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            let mut wire = Wire { socket: &mut self.socket, context };
            match self.session.write_tls(&mut wire) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(bytes) => self.left_bytes += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Encrypts bytes, after all earlier bytes were sent. Accepted bytes count as sent, because some of them
    /// may have been sent.
    ///
    /// # Errors
    /// The socket or the session failed.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(context))?;
        let taken = self.session.writer().write_vectored(slices)?;
        // A failure is returned by the next call, because this call has accepted bytes.
        let _ = self.poll_flush(context);
        Poll::Ready(Ok(taken))
    }

    /// Announces the end of the written bytes (`close_notify`), and sends it. Later calls only send the rest.
    ///
    /// # Errors
    /// The socket failed.
    pub fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // rustls queues the announcement only once.
        self.session.send_close_notify();
        self.poll_flush(context)
    }

    /// Sets whether the end is announced (`close_notify`) when the stream is dropped. Without the
    /// announcement, the peer sees that the content is not complete. A new stream announces its end.
    pub fn set_end_announced(&mut self, is_announced: bool) {
        self.is_end_announced = is_announced;
    }

    /// Reads available content into the free space. Reads nothing after an announced end.
    ///
    /// # Errors
    /// The connection broke, or ended without an announcement. Content that lasts until the end is then
    /// truncated (RFC 8446 section 6.1).
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        wire: &mut [u8],
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Continues to send pending bytes. If the peer accepts no bytes, the read below returns the cause.
        let _ = self.poll_flush(context);
        let before = out.filled().len();
        loop {
            self.take(out);
            if out.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            if !self.ahead.is_empty() {
                let ahead = std::mem::take(&mut self.ahead);
                self.feed(&ahead);
                continue;
            }
            if matches!(self.end, End::Open) && self.poll_receive(context, wire).is_ready() {
                continue;
            }
            return match &mut self.end {
                _ if out.filled().len() > before => Poll::Ready(Ok(())),
                End::Open => Poll::Pending,
                End::Told => Poll::Ready(Ok(())),
                End::Broken(error) => {
                    Poll::Ready(Err(error.take().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())))
                }
            };
        }
    }

    /// The result is ready when content is available, or after the end of the stream.
    pub fn poll_read_ready(&mut self, context: &mut Context<'_>, wire: &mut [u8]) -> Poll<()> {
        let _ = self.poll_flush(context);
        while !self.has_content() && self.ahead.is_empty() && matches!(self.end, End::Open) {
            ready!(self.poll_receive(context, wire));
        }
        Poll::Ready(())
    }

    fn has_content(&mut self) -> bool {
        self.session.reader().fill_buf().is_ok_and(|content| !content.is_empty())
    }

    /// Moves decrypted content into the free space.
    fn take(&mut self, out: &mut ReadBuf<'_>) {
        while out.remaining() > 0 {
            let mut reader = self.session.reader();
            let Ok(content @ [_, ..]) = reader.fill_buf() else { return };
            let bytes = content.len().min(out.remaining());
            out.put_slice(&content[..bytes]);
            reader.consume(bytes);
        }
    }

    /// Reads from the socket once.
    fn poll_receive(&mut self, context: &mut Context<'_>, wire: &mut [u8]) -> Poll<()> {
        let mut came = ReadBuf::new(wire);
        match ready!(Pin::new(&mut self.socket).poll_read(context, &mut came)) {
            Ok(()) => self.feed(came.filled()),
            Err(error) => self.end = End::Broken(Some(error)),
        }
        Poll::Ready(())
    }

    /// Passes received bytes to the session. An empty slice means the end of the stream. Bytes that the
    /// session does not accept yet wait in `ahead`.
    fn feed(&mut self, mut came: &[u8]) {
        loop {
            let before = came;
            match self.session.read_tls(&mut came) {
                Ok(bytes) => {
                    self.boundary.pass(&before[..bytes]);
                    self.process(bytes);
                }
                Err(_) if self.has_content() => self.ahead = came.to_vec(),
                Err(error) => self.end = End::Broken(Some(error)),
            }
            if came.is_empty() || !self.ahead.is_empty() || !matches!(self.end, End::Open) {
                return;
            }
        }
    }

    /// Processes received bytes. 0 bytes mean the end of the stream.
    fn process(&mut self, bytes: usize) {
        self.end = match self.session.process_new_packets() {
            Ok(state) if state.peer_has_closed() => End::Told,
            Ok(_) if bytes == 0 => {
                let text = "it closed the connection without a close_notify";
                End::Broken(Some(io::Error::new(io::ErrorKind::UnexpectedEof, text)))
            }
            Ok(_) => return,
            Err(error) => End::Broken(Some(io::Error::new(io::ErrorKind::InvalidData, error))),
        };
    }

    /// Returns whether neither bytes of a reply, nor the start of a record, nor the end of the stream
    /// arrived. Session tickets may arrive (RFC 8446 section 4.6.1). No task may wait for the socket.
    pub fn is_quiet(&mut self) -> bool {
        let (mut context, mut wire) = (Context::from_waker(Waker::noop()), [0; QUIET_READ_BYTES]);
        for _ in 0..QUIET_READS_MAX {
            if !self.is_still() {
                return false;
            }
            if self.poll_receive(&mut context, &mut wire).is_pending() {
                return self.boundary.is_reached();
            }
        }
        false
    }

    /// Returns whether the session holds neither content, nor bytes to send, nor the end of the stream.
    fn is_still(&mut self) -> bool {
        let is_still = self.session.process_new_packets().is_ok_and(|state| {
            state.plaintext_bytes_to_read() == 0
                && state.tls_bytes_to_write() == 0
                && !state.peer_has_closed()
        });
        is_still && self.ahead.is_empty() && matches!(self.end, End::Open)
    }
}

/// Announces the end (`close_notify`) to the peer, unless that was switched off. The announcement is dropped
/// if the socket does not accept it at once.
impl<S: AsyncRead + AsyncWrite + Unpin, C: Side> Drop for TlsStream<S, C> {
    fn drop(&mut self) {
        if !self.session.is_handshaking() && self.is_end_announced {
            self.session.send_close_notify();
            let mut wire =
                Wire { socket: &mut self.socket, context: &mut Context::from_waker(Waker::noop()) };
            let _ = self.session.write_tls(&mut wire);
        }
    }
}

/// A TLS stream with its read buffer, for code that reads any kind of stream.
pub struct TlsReader<'a, S: AsyncRead + AsyncWrite + Unpin, C: Side> {
    /// The stream that is read.
    pub stream: &'a mut TlsStream<S, C>,
    /// Buffer for records, of [`WIRE_BYTES`] bytes.
    pub wire: &'a mut [u8],
}

impl<S: AsyncRead + AsyncWrite + Unpin, C: Side> AsyncRead for TlsReader<'_, S, C> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, wire } = self.get_mut();
        stream.poll_read(context, wire, out)
    }
}

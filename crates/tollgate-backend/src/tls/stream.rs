//! A byte stream inside TLS over a socket. rustls converts it to records and back. The worker moves the
//! records when the socket is ready.
//!
//! The memory is bounded: 64 KiB of encrypted bytes that are not sent, and about as much of received bytes
//! that are not read.

use std::future::poll_fn;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use super::boundary::Boundary;
use super::{HandshakeError, TlsOptions};

/// Maximum bytes that are encrypted before the socket accepts them.
const WRITE_BYTES_MAX: usize = 64 << 10;
/// Bytes of one read from the socket: a record of the maximum size and a little more (RFC 8446 section 5.2).
pub(crate) const WIRE_BYTES: usize = (16 << 10) + 512;
/// Maximum number of reads in the check for a quiet connection. Only session tickets may arrive on a quiet
/// connection, and they are few.
const QUIET_READS_MAX: usize = 4;

pub(crate) struct TlsStream {
    socket: TcpStream,
    session: ClientConnection,
    boundary: Boundary,
    /// Received bytes that wait until earlier content is read. The buffer is usually empty and then holds no
    /// memory.
    ahead: Vec<u8>,
    end: End,
    left_bytes: u64,
}

/// State of the end of the received bytes.
enum End {
    /// The end has not arrived.
    Open,
    /// The backend announced the end (`close_notify`).
    Told,
    /// The stream ended in any other way. The error is returned once.
    Broken(Option<io::Error>),
}

/// A socket that never blocks.
struct Wire<'a> {
    socket: &'a TcpStream,
    boundary: &'a mut Boundary,
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.socket.try_read(buffer)?;
        self.boundary.pass(&buffer[..bytes]);
        Ok(bytes)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    /// Performs the handshake. `Ok` means that the backend proved its identity.
    ///
    /// # Errors
    /// The backend did not prove its identity, or the TLS handshake failed.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub(crate) async fn handshake(
        socket: TcpStream,
        name: ServerName<'static>,
        options: &TlsOptions,
    ) -> Result<Self, HandshakeError> {
        let mut session = ClientConnection::new(Arc::clone(options.config()), name)
            .map_err(|error| HandshakeError::of_tls(&error, None, options))?;
        session.set_buffer_limit(Some(WRITE_BYTES_MAX));
        let mut stream = Self {
            socket,
            session,
            boundary: Boundary::default(),
            ahead: Vec::new(),
            end: End::Open,
            left_bytes: 0,
        };
        poll_fn(|context| stream.poll_handshake(context, options)).await?;
        Ok(stream)
    }

    fn poll_handshake(
        &mut self,
        context: &mut Context<'_>,
        options: &TlsOptions,
    ) -> Poll<Result<(), HandshakeError>> {
        loop {
            // A failure is ignored here: if the peer accepts no bytes, the read below returns the cause.
            let flushed = self.poll_flush(context);
            if !self.session.is_handshaking() {
                return flushed.map_err(|error| HandshakeError::of_io(&error));
            }
            let read = ready!(self.poll_read_wire(context)).map_err(|error| HandshakeError::of_io(&error))?;
            let processed = self.session.process_new_packets();
            if let Err(error) = processed {
                let chosen = self.session.protocol_version();
                // Sends the alert. A failure to send is ignored.
                let _ = self.poll_flush(context);
                return Poll::Ready(Err(HandshakeError::of_tls(&error, chosen, options)));
            }
            if read == 0 {
                return Poll::Ready(Err(HandshakeError::of_io(&io::ErrorKind::UnexpectedEof.into())));
            }
        }
    }

    /// Passes records from the socket to the session. The result 0 means the end of the stream.
    fn poll_read_wire(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_read_ready(context))?;
            let mut wire = Wire { socket: &self.socket, boundary: &mut self.boundary };
            match self.session.read_tls(&mut wire) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }

    /// Returns whether all written bytes were sent.
    pub(crate) fn is_flushed(&self) -> bool {
        !self.session.wants_write()
    }

    /// Returns the number of bytes of records that the socket accepted.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Sends the encrypted bytes that are not yet sent.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            ready!(self.socket.poll_write_ready(context))?;
            let mut wire = Wire { socket: &self.socket, boundary: &mut self.boundary };
            match self.session.write_tls(&mut wire) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(bytes) => self.left_bytes += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Encrypts bytes, after all earlier bytes were sent. Accepted bytes count as sent, because some of them
    /// may have been sent.
    pub(crate) fn poll_write(
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

    /// Reads available content into the free space. Reads nothing after an announced end.
    ///
    /// # Errors
    /// The connection broke, or ended without an announcement. Content that lasts until the end is then
    /// truncated (RFC 8446 section 6.1).
    pub(crate) fn poll_read(
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
    pub(crate) fn poll_read_ready(&mut self, context: &mut Context<'_>, wire: &mut [u8]) -> Poll<()> {
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
            Ok(()) => {
                self.boundary.pass(came.filled());
                self.feed(came.filled());
            }
            Err(error) => self.end = End::Broken(Some(error)),
        }
        Poll::Ready(())
    }

    /// Passes received bytes to the session. An empty slice means the end of the stream. Bytes that the
    /// session does not accept yet wait in `ahead`.
    fn feed(&mut self, mut came: &[u8]) {
        loop {
            match self.session.read_tls(&mut came) {
                // The session processes the bytes, or the end of the stream.
                Ok(bytes) => match self.session.process_new_packets() {
                    Ok(state) if state.peer_has_closed() => self.end = End::Told,
                    Ok(_) if bytes == 0 => {
                        let text = "it closed the connection without a close_notify";
                        self.end = End::Broken(Some(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        self.end = End::Broken(Some(io::Error::new(io::ErrorKind::InvalidData, error)));
                    }
                },
                Err(_) if self.has_content() => self.ahead = came.to_vec(),
                Err(error) => self.end = End::Broken(Some(error)),
            }
            if came.is_empty() || !self.ahead.is_empty() || !matches!(self.end, End::Open) {
                return;
            }
        }
    }

    /// Returns whether neither bytes of a reply, nor the start of a record, nor the end of the stream
    /// arrived. Session tickets may arrive (RFC 8446 section 4.6.1).
    pub(crate) fn is_quiet(&mut self) -> bool {
        for _ in 0..QUIET_READS_MAX {
            let is_still = self.session.process_new_packets().is_ok_and(|state| {
                state.plaintext_bytes_to_read() == 0
                    && state.tls_bytes_to_write() == 0
                    && !state.peer_has_closed()
            });
            if !is_still || !self.ahead.is_empty() || !matches!(self.end, End::Open) {
                return false;
            }
            let mut wire = Wire { socket: &self.socket, boundary: &mut self.boundary };
            match self.session.read_tls(&mut wire) {
                Ok(1..) => {}
                Ok(0) => return false,
                Err(error) => {
                    return error.kind() == io::ErrorKind::WouldBlock && self.boundary.is_reached();
                }
            }
        }
        false
    }
}

/// A TLS stream with its read buffer, for code that reads any kind of stream.
pub(crate) struct TlsReader<'a> {
    pub(crate) stream: &'a mut TlsStream,
    pub(crate) wire: &'a mut [u8],
}

impl AsyncRead for TlsReader<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, wire } = self.get_mut();
        stream.poll_read(context, wire, out)
    }
}

/// Announces the end (`close_notify`) to the backend. The announcement is dropped if the socket does not
/// accept it at once.
impl Drop for TlsStream {
    fn drop(&mut self) {
        if !self.session.is_handshaking() {
            self.session.send_close_notify();
            let mut wire = Wire { socket: &self.socket, boundary: &mut self.boundary };
            let _ = self.session.write_tls(&mut wire);
        }
    }
}

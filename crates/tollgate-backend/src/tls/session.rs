//! A TLS session with a backend.

use std::future::poll_fn;
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tollgate_tls::{TlsHandshakeError, TlsStream, WIRE_BYTES};

use super::{HandshakeError, TlsOptions};

/// A byte stream inside TLS to a backend.
pub(crate) type ClientStream = TlsStream<TcpStream, ClientConnection>;

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
) -> Result<ClientStream, HandshakeError> {
    let session = ClientConnection::new(Arc::clone(options.config()), name)
        .map_err(|error| HandshakeError::of_tls(&error, None, options))?;
    let mut stream = TlsStream::new(socket, session, Vec::new());
    let mut wire = vec![0; WIRE_BYTES];
    match poll_fn(|context| stream.poll_handshake(context, &mut wire)).await {
        Ok(()) => Ok(stream),
        Err(TlsHandshakeError::Tls { error, chosen }) => Err(HandshakeError::of_tls(&error, chosen, options)),
        Err(TlsHandshakeError::Socket(error)) => Err(HandshakeError::of_io(&error)),
    }
}

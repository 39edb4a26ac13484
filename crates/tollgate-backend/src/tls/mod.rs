//! TLS to a backend: what is configured, the handshake and why it failed, and the bytes inside.
//!
//! Certificates are always verified: there is no switch. Early data is never sent, so nothing of a request
//! leaves before the backend has shown who it is.

mod boundary;
mod handshake;
mod options;
mod stream;

pub use handshake::{HandshakeError, HandshakeFault};
pub(crate) use options::server_name;
pub use options::{ClientIdentity, TlsError, TlsFiles, TlsOptions};
pub(crate) use stream::{TlsReader, TlsStream, WIRE_BYTES};

//! TLS to a backend: its options, the handshake and its failures, and the byte stream inside.
//!
//! Certificates are always verified, and no option changes that. Early data is never sent, so no byte of a
//! request is sent before the backend has proved its identity.

mod boundary;
mod handshake;
mod options;
mod stream;

pub use handshake::{HandshakeError, HandshakeFault};
pub(crate) use options::server_name;
pub use options::{ClientIdentity, TlsError, TlsFiles, TlsOptions};
pub(crate) use stream::{TlsReader, TlsStream, WIRE_BYTES};

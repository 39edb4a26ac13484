//! TLS to a backend: its options, and the handshake with its failures.
//!
//! Certificates are always verified, and no option changes that. Early data is never sent, so no byte of a
//! request is sent before the backend has proved its identity.

mod handshake;
mod options;
mod session;

pub use handshake::{HandshakeError, HandshakeFault};
pub(crate) use options::server_name;
pub use options::{ClientIdentity, TlsError, TlsFiles, TlsOptions};
pub(crate) use session::{ClientStream, handshake};

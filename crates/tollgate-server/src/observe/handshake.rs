//! The results of TLS handshakes.

use rustls::{HandshakeKind, ServerConnection};

/// Result of a TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeEnd {
    /// The session was established with a signature.
    Full,
    /// The session was resumed by a ticket.
    Resumed,
    /// The client sent bytes that are not TLS.
    NotTls,
    /// No certificate has the name that the client sent.
    NoCertificate,
    /// The client sent no certificate, or one that is not accepted.
    ClientCertificate,
    /// The client refused the handshake, for example because it does not trust the certificate.
    Refused,
    /// The client left.
    Closed,
    /// The handshake did not end in time.
    TooLate,
    /// The client has no common version or cipher, or violated the protocol.
    Protocol,
}

impl HandshakeEnd {
    pub(crate) const ALL: [Self; 9] = [
        Self::Full,
        Self::Resumed,
        Self::NotTls,
        Self::NoCertificate,
        Self::ClientCertificate,
        Self::Refused,
        Self::Closed,
        Self::TooLate,
        Self::Protocol,
    ];

    /// Returns the result of a handshake that succeeded.
    pub(crate) fn of_session(session: &ServerConnection) -> Self {
        match session.handshake_kind() {
            Some(HandshakeKind::Resumed) => Self::Resumed,
            _ => Self::Full,
        }
    }

    /// Returns a word for metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Resumed => "resumed",
            Self::NotTls => "not_tls",
            Self::NoCertificate => "no_certificate",
            Self::ClientCertificate => "client_certificate",
            Self::Refused => "refused",
            Self::Closed => "closed",
            Self::TooLate => "timeout",
            Self::Protocol => "protocol",
        }
    }
}

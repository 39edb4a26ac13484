//! The scheme of a connection.

/// The scheme of a connection, as a URI has it (RFC 9110 section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ConnectionScheme {
    /// No TLS.
    #[default]
    Http,
    /// TLS.
    Https,
}

impl ConnectionScheme {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

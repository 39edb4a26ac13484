//! The parts of a TLS session that fill columns.

use std::borrow::Cow;

use tollgate_log::ColumnType;
use tollgate_script::TlsSession;

/// A part of the TLS session of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPart {
    /// The version: `1.2` or `1.3`.
    Version,
    /// The cipher suite.
    Cipher,
    /// The host name that the client sent in its handshake (SNI).
    ServerName,
    /// The subject of the client's certificate.
    ClientSubject,
    /// The alternative names of the client's certificate.
    ClientNames,
    /// The SHA-256 digest of the client's certificate.
    ClientFingerprint,
}

impl TlsPart {
    /// Returns the column types that the part can fill.
    pub(super) const fn column_types(self) -> &'static [ColumnType] {
        match self {
            Self::ClientNames => &[ColumnType::Text, ColumnType::Json],
            Self::Version
            | Self::Cipher
            | Self::ServerName
            | Self::ClientSubject
            | Self::ClientFingerprint => &[ColumnType::Text],
        }
    }

    /// Returns the part as text, or as JSON for a column of this type. Names in a text have a comma and a
    /// blank between them.
    pub(crate) fn of(self, tls: &TlsSession, kind: ColumnType) -> Option<Cow<'_, str>> {
        let client = tls.client.as_ref();
        match self {
            Self::Version => Some((&*tls.version).into()),
            Self::Cipher => Some((&*tls.cipher).into()),
            Self::ServerName => tls.server_name.as_deref().map(Into::into),
            Self::ClientSubject => client.map(|client| client.subject.as_str().into()),
            Self::ClientNames if kind == ColumnType::Json => {
                client.and_then(|client| serde_json::to_string(&client.names).ok()).map(Into::into)
            }
            Self::ClientNames => client.map(|client| client.names.join(", ").into()),
            Self::ClientFingerprint => client.map(|client| client.fingerprint.as_str().into()),
        }
    }
}

//! Failures of handshakes: a word for counters, and a full text about the certificate.

use std::fmt;
use std::io;

use rustls::{CertificateError, Error, ProtocolVersion};

use super::TlsOptions;

/// Maximum number of names of a wrong certificate in the text.
const NAMES_MAX: usize = 8;
/// Maximum bytes of an error text of rustls. The limit exists because the peer controls parts of the text.
const TEXT_BYTES_MAX: usize = 600;

/// Cause of a failed handshake, as a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeFault {
    /// No trusted authority signed the certificate, or the certificate is invalid.
    Untrusted,
    /// The certificate is for another name.
    Name,
    /// The certificate has expired, or is not yet valid.
    Expired,
    /// The received bytes are not TLS.
    NotTls,
    /// The backend refused us with an alert.
    Refused,
    /// The connection ended.
    Closed,
    /// The handshake exceeded its timeout.
    Timeout,
    /// Any other cause, for example no common version or cipher.
    Protocol,
}

impl HandshakeFault {
    /// All causes of a failed handshake.
    pub const ALL: [Self; 8] = [
        Self::Untrusted,
        Self::Name,
        Self::Expired,
        Self::NotTls,
        Self::Refused,
        Self::Closed,
        Self::Timeout,
        Self::Protocol,
    ];

    /// Returns a word for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::Name => "name",
            Self::Expired => "expired",
            Self::NotTls => "not_tls",
            Self::Refused => "refused",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
        }
    }

    fn of(error: &Error, heard: Heard) -> Self {
        match error {
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => Self::Name,
            Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            ) => Self::Expired,
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => Self::Untrusted,
            Error::InvalidMessage(_) | Error::InappropriateMessage { .. } if heard == Heard::Nothing => {
                Self::NotTls
            }
            Error::AlertReceived(_) => Self::Refused,
            _ => Self::Protocol,
        }
    }
}

/// Progress of the backend in a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// No valid message arrived yet.
    Nothing,
    /// The backend chose a version, so it supports TLS (RFC 8446 section 4.1.3).
    Hello,
}

/// A failed handshake.
#[derive(Debug)]
pub struct HandshakeError {
    /// Cause of the failed handshake.
    pub fault: HandshakeFault,
    text: String,
}

impl HandshakeError {
    /// Creates the value for an error of a session. `chosen` is the version, if one was negotiated.
    pub(crate) fn of_tls(error: &Error, chosen: Option<ProtocolVersion>, options: &TlsOptions) -> Self {
        let heard = if chosen.is_some() { Heard::Hello } else { Heard::Nothing };
        let fault = HandshakeFault::of(error, heard);
        let text = match error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                format!("its certificate is not signed by an authority of {}", options.trusted())
            }
            Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) => {
                let names = presented
                    .iter()
                    .take(NAMES_MAX)
                    .map(|name| bare_name(name))
                    .collect::<Vec<_>>()
                    .join(", ");
                let more = if presented.len() > NAMES_MAX { ", ..." } else { "" };
                format!("its certificate is for {names}{more}, not for {:?}", expected.to_str())
            }
            _ if fault == HandshakeFault::NotTls => format!("it does not use TLS: {error}"),
            _ => error.to_string(),
        };
        Self { fault, text: cut(text) }
    }

    pub(crate) fn of_io(error: &io::Error) -> Self {
        let text = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it closed the connection during the handshake".to_owned(),
            _ => format!("the connection broke during the handshake: {error}"),
        };
        Self { fault: HandshakeFault::Closed, text }
    }
}

/// Returns a name without the kind that rustls adds. rustls shows `DnsName("a.test")` or
/// `IpAddress(192.0.2.1)`.
fn bare_name(shown: &str) -> &str {
    shown.split_once('(').and_then(|(_, name)| name.strip_suffix(')')).unwrap_or(shown)
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push_str("...");
    }
    text
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for HandshakeError {}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    #[test]
    fn each_trouble_has_its_word() {
        let check = |error: Error, expect| {
            assert_eq!(HandshakeFault::of(&error, Heard::Nothing).name(), expect, "{error}");
        };
        check(CertificateError::UnknownIssuer.into(), "untrusted");
        check(CertificateError::BadSignature.into(), "untrusted");
        let (time, not_after) = (UnixTime::now(), UnixTime::now());
        check(CertificateError::ExpiredContext { time, not_after }.into(), "expired");
        let expected = ServerName::try_from("a").unwrap();
        check(CertificateError::NotValidForNameContext { expected, presented: vec![] }.into(), "name");
        check(Error::AlertReceived(rustls::AlertDescription::UnknownCA), "refused");
        check(rustls::InvalidMessage::InvalidContentType.into(), "not_tls");
        check(Error::DecryptError, "protocol");
    }

    #[test]
    fn a_certificate_is_described_within_bounds() {
        let expected = ServerName::try_from("a.example").unwrap();
        let presented = vec!["x".repeat(400); 100];
        let error: Error = CertificateError::NotValidForNameContext { expected, presented }.into();
        let ca = tempfile::NamedTempFile::new().unwrap();
        assert!(cut("ü".repeat(1000)).len() <= TEXT_BYTES_MAX + 3);
        let options =
            TlsOptions::load(super::super::TlsFiles { ca: Some(ca.path().into()), ..Default::default() });
        assert!(options.is_err(), "an empty file trusts nobody");
        assert!(cut(error.to_string()).len() <= TEXT_BYTES_MAX + 3);
    }
}

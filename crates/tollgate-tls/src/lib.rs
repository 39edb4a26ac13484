//! Shared parts of TLS: the cryptography, the trusted authorities, PEM files, and the byte stream inside TLS.
//!
//! Sockets and server names belong to the crates that use TLS. No error contains any part of a key.

mod boundary;
mod facts;
mod pem;
mod server;
mod stream;
#[cfg(test)]
mod testing;
mod verifier;

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::TimeProvider;

pub use facts::{CertificateFacts, NotX509};
pub use pem::{PemError, certificates, private_key};
pub use server::{
    ACME_TLS_1, Certificate, CertificateError, CertificateFiles, ClientAuth, ClientAuthError,
    ClientAuthOptions, MinVersion, ServerTls, ServerTlsError, ServerTlsOptions, UnknownName,
    ValidationCertificate, set_validations,
};
pub use stream::{Side, TlsHandshakeError, TlsReader, TlsStream, WIRE_BYTES};
pub use verifier::{Trust, Verifier};

/// Reason why the trusted authorities cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The configured file cannot be used.
    #[error("{0}")]
    File(#[source] PemError),
    /// No authority of the system can be read.
    #[error("no certificate authority of the system can be read: {0}")]
    Unreadable(String),
    /// The system has no authorities.
    #[error("the system has no certificate authorities")]
    None,
    /// The cryptography supports no version of TLS that this process speaks.
    #[error("the cryptography has no version of TLS: {0}")]
    Version(String),
}

/// Returns the cryptography provider, which is the same for all TLS connections.
pub fn provider() -> Arc<CryptoProvider> {
    PROVIDER.clone()
}

/// The provider is created only once, because each verified signature uses its lists of algorithms.
static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));

/// Returns the clock for the validity of certificates.
///
/// The clock of rustls panics if the time of the system is before 1970. This clock then returns 1970. No
/// certificate is valid at that time, so the handshake fails with that reason.
pub fn clock() -> Arc<dyn TimeProvider> {
    Arc::new(WallClock)
}

#[derive(Debug)]
struct WallClock;

impl TimeProvider for WallClock {
    #[expect(clippy::disallowed_methods, reason = "the one wall clock of TLS")]
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

/// Certificates of the trusted authorities.
pub(crate) struct Authorities {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// The same authorities, as trust anchors of certificate paths.
    pub(crate) roots: RootCertStore,
}

impl Authorities {
    /// Reads the authorities from a PEM file, or from the system if `file` is `None`.
    ///
    /// # Errors
    /// There are no authorities, or the file has an invalid certificate.
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, RootsError> {
        let mut roots = RootCertStore::empty();
        let Some(file) = file else {
            let found = rustls_native_certs::load_native_certs();
            let certificates = found.certs;
            let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
            return match (added, found.errors.first()) {
                (0, Some(error)) => Err(RootsError::Unreadable(error.to_string())),
                (0, None) => Err(RootsError::None),
                _ => Ok(Self { certificates, roots }),
            };
        };
        let certificates = certificates(file).map_err(RootsError::File)?;
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|error| RootsError::File(PemError::new(file, &error)))?;
        }
        Ok(Self { certificates, roots })
    }
}

//! What all TLS has in common: the cryptography, who is trusted, and the PEM files that say so.
//!
//! Who speaks TLS, over which socket and with which name, is left to the crates that do. Nothing of a key is
//! ever part of an error.

mod pem;
mod verifier;

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::TimeProvider;

pub use pem::{PemError, certificates, private_key};
pub use verifier::{Trust, Verifier};

/// Why it is not known who is trusted.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The file that should say so does not.
    #[error("{0}")]
    File(#[source] PemError),
    /// Nothing of what the system trusts can be read.
    #[error("no authority of the system can be read: {0}")]
    Unreadable(String),
    /// The system trusts nobody.
    #[error("the system has no authorities")]
    None,
}

/// The cryptography, the same wherever TLS is spoken.
pub fn provider() -> Arc<CryptoProvider> {
    PROVIDER.clone()
}

/// Its lists are made once: each signature that is verified looks at them.
static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));

/// The clock that certificates are checked by.
///
/// The clock of rustls panics before 1970. This clock returns 1970 then, at which no certificate is valid
/// yet. So the handshake fails and says so.
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

/// Who is trusted.
pub(crate) struct Authorities {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// The same, as paths begin at them.
    pub(crate) roots: RootCertStore,
}

impl Authorities {
    /// Reads those of a PEM file; without one, those that the system trusts.
    ///
    /// # Errors
    /// There is not one, or the file has one that is none.
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

//! A certificate of the server with its private key.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use crate::facts::CertificateFacts;
use crate::pem::{PemError, certificates, private_key};
use crate::provider;

/// The files of one certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and the intermediate certificates up to its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// A certificate with its private key. Clones share both.
#[derive(Clone)]
pub struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    facts: Arc<CertificateFacts>,
}

/// The part of a certificate that cannot be used. No error contains any part of a key.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate cannot be used.
    #[error("{0}")]
    Certificate(#[source] PemError),
    /// The key cannot be used, or is the key of another certificate.
    #[error("{0}")]
    Key(#[source] PemError),
}

impl Certificate {
    /// Reads a certificate and its key from files.
    ///
    /// # Errors
    /// One of the files cannot be used, or they do not match.
    pub fn read(files: &CertificateFiles) -> Result<Self, CertificateError> {
        let chain = certificates(&files.certificate).map_err(CertificateError::Certificate)?;
        let key = private_key(&files.key).map_err(CertificateError::Key)?;
        Self::new(chain, key, files)
    }

    /// Joins a certificate with its key. `chain` begins with the certificate, and then has the intermediate
    /// certificates. Errors name `files`.
    ///
    /// # Errors
    /// The certificate or the key is invalid, or they do not match.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        files: &CertificateFiles,
    ) -> Result<Self, CertificateError> {
        let of_certificate = |reason: &dyn fmt::Display| {
            CertificateError::Certificate(PemError::new(&files.certificate, reason))
        };
        let of_key = |reason: &dyn fmt::Display| CertificateError::Key(PemError::new(&files.key, reason));
        let Some(first) = chain.first() else { return Err(of_certificate(&"it has no certificate")) };
        ParsedCertificate::try_from(first).map_err(|error| of_certificate(&error))?;
        let facts = CertificateFacts::of(first).map_err(|error| of_certificate(&error))?;
        let key = provider()
            .key_provider
            .load_private_key(key)
            .map_err(|_| of_key(&"it has a key of a kind that is not supported"))?;
        let key = CertifiedKey::new(chain, key);
        key.keys_match().map_err(|_| of_key(&not_the_key_of(&files.certificate)))?;
        Ok(Self { key: Arc::new(key), facts: Arc::new(facts) })
    }

    /// Returns the facts that the certificate states.
    pub fn facts(&self) -> &CertificateFacts {
        &self.facts
    }

    /// Returns the certificate, and after it the intermediate certificates.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }
}

fn not_the_key_of(certificate: &Path) -> String {
    format!("it is not the key of the certificate in {}", certificate.display())
}

/// Compares only the chains. Each key matches its certificate, so equal certificates have equal keys.
impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.chain() == other.chain()
    }
}

impl Eq for Certificate {}

/// Does not show the key, because it is secret.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("facts", &self.facts).finish_non_exhaustive()
    }
}

//! The certificates of clients that a route accepts.

use tollgate_script::ClientCertificate;

/// The certificates of clients that a route accepts. Empty lists accept every verified certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCertificateRule {
    /// Alternative names of the subject, each after its kind: `dns:a.example`.
    pub names: Vec<String>,
    /// SHA-256 digests of certificates, in lower-case hexadecimal digits.
    pub fingerprints: Vec<String>,
}

impl ClientCertificateRule {
    /// Returns whether the certificate has one of the names or digests.
    pub(crate) fn accepts(&self, certificate: &ClientCertificate) -> bool {
        (self.names.is_empty() && self.fingerprints.is_empty())
            || self.names.iter().any(|name| certificate.names.contains(name))
            || self.fingerprints.contains(&certificate.fingerprint)
    }
}

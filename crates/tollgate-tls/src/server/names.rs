//! The choice of a certificate by the name that a client sends.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::Certificate;
use super::validation;

/// What a client that sends no name, or an unknown name, gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownName {
    /// The first certificate.
    #[default]
    First,
    /// The alert `unrecognized_name`.
    Refused,
}

/// Certificates by host name. Of two certificates with one name, the first one is used.
#[derive(Debug)]
pub(super) struct CertificatesByName {
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// Wildcard certificates, by the name after `*.`.
    wildcards: HashMap<String, Arc<CertifiedKey>>,
    /// The certificate for a client without a known name. `None`: such a client is refused.
    other: Option<Arc<CertifiedKey>>,
}

impl CertificatesByName {
    pub(super) fn new<'a>(
        certificates: impl IntoIterator<Item = &'a Certificate>,
        unknown_name: UnknownName,
    ) -> Self {
        let (mut exact, mut wildcards, mut first) = (HashMap::new(), HashMap::new(), None);
        for certificate in certificates {
            let key = &certificate.key;
            first.get_or_insert(key);
            for name in certificate.facts().host_names() {
                match name.strip_prefix("*.") {
                    Some(parent) => wildcards.entry(parent.to_owned()).or_insert_with(|| key.clone()),
                    None => exact.entry(name.to_owned()).or_insert_with(|| key.clone()),
                };
            }
        }
        let other = match unknown_name {
            UnknownName::First => first.cloned(),
            UnknownName::Refused => None,
        };
        Self { exact, wildcards, other }
    }

    /// Returns the certificate for a name. `None`: the client sent no name. rustls accepts a name only in
    /// lower case.
    pub(super) fn find(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let known = name.and_then(|name| {
            // A wildcard stands for exactly one label (RFC 6125 section 6.4.3).
            let parent = || name.split_once('.').and_then(|(_, parent)| self.wildcards.get(parent));
            self.exact.get(name).or_else(parent)
        });
        known.or(self.other.as_ref()).cloned()
    }
}

impl ResolvesServerCert for CertificatesByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if validation::is_validation(&hello) {
            return validation::find(hello.server_name());
        }
        self.find(hello.server_name())
    }
}

//! What a certificate says for its renewal.

use instant_acme::CertificateIdentifier;
use rustls::pki_types::{CertificateDer, Der};
use tollgate_tls::CertificateFacts;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::AuthorityKeyIdentifier;

/// Returns the length of the validity in seconds.
pub(crate) fn life(facts: &CertificateFacts) -> u64 {
    facts.not_after.saturating_sub(facts.not_before)
}

/// Returns whether a certificate has a host name or an address.
pub(crate) fn has_name(facts: &CertificateFacts, name: &str) -> bool {
    let name_of = |text: &str| text.strip_prefix("dns:").or(text.strip_prefix("ip:")).map(str::to_owned);
    facts.names.iter().filter_map(|text| name_of(text)).any(|found| found.eq_ignore_ascii_case(name))
}

/// Returns the id of a certificate for renewal information: the key of its issuer, and its serial number (RFC
/// 9773 section 4.1). `None`: the certificate does not name the key of its issuer.
pub(crate) fn renewal_id(certificate: &CertificateDer<'_>) -> Option<CertificateIdentifier<'static>> {
    let found = Certificate::from_der(certificate).ok()?.tbs_certificate;
    let (_, authority) = found.get::<AuthorityKeyIdentifier>().ok()??;
    let authority = authority.key_identifier?;
    // The content of the integer, with the zero byte before a number whose first bit is set.
    let serial = found.serial_number.as_bytes();
    let id = CertificateIdentifier::new(Der::from_slice(authority.as_bytes()), Der::from_slice(serial));
    Some(id.into_owned())
}

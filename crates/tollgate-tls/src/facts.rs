//! The facts that a certificate states (RFC 5280 section 4.1).

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The facts that a certificate states. No signature is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The subject, as RFC 4514 writes it: `CN=api,O=Example`.
    pub subject: String,
    /// The authority that issued the certificate, in the same form.
    pub issuer: String,
    /// The serial number in lower-case hexadecimal digits, without leading zeros.
    pub serial: String,
    /// The alternative names of the subject, each after its kind: `dns:a.example`, `ip:192.0.2.1`,
    /// `email:a@b.example`, `uri:spiffe://example/api`. Names of other kinds are left out.
    pub names: Vec<String>,
    /// The first second of the validity, since 1970.
    pub not_before: u64,
    /// The last second of the validity, since 1970.
    pub not_after: u64,
    /// The SHA-256 digest of the whole certificate, in lower-case hexadecimal digits.
    pub fingerprint: String,
}

/// The certificate is not valid X.509.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has a certificate that is not valid X.509")]
pub struct NotX509;

impl CertificateFacts {
    /// Reads the facts of a certificate.
    ///
    /// # Errors
    /// The certificate is not valid X.509 with the rules of RFC 5280.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, NotX509> {
        let parsed = Certificate::from_der(certificate).map_err(|_| NotX509)?.tbs_certificate;
        let names = parsed.get::<SubjectAltName>().map_err(|_| NotX509)?;
        let names = names.iter().flat_map(|(_, names)| &names.0).filter_map(name).collect();
        Ok(Self {
            subject: parsed.subject.to_string(),
            issuer: parsed.issuer.to_string(),
            serial: hexadecimal(parsed.serial_number.as_bytes()).trim_start_matches('0').to_owned(),
            names,
            not_before: parsed.validity.not_before.to_unix_duration().as_secs(),
            not_after: parsed.validity.not_after.to_unix_duration().as_secs(),
            fingerprint: hexadecimal(&Sha256::digest(certificate)),
        })
    }

    /// Returns the host names, in lower case.
    pub fn host_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| name.strip_prefix("dns:"))
    }
}

/// Returns a name after its kind.
fn name(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(format!("dns:{}", name.as_str().to_ascii_lowercase())),
        GeneralName::Rfc822Name(name) => Some(format!("email:{}", name.as_str())),
        GeneralName::UniformResourceIdentifier(uri) => Some(format!("uri:{}", uri.as_str())),
        GeneralName::IpAddress(octets) => address(octets.as_bytes()).map(|address| format!("ip:{address}")),
        GeneralName::OtherName(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EdiPartyName(_)
        | GeneralName::RegisteredId(_) => None,
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use rcgen::{CertificateParams, DnType, KeyPair, SanType, SerialNumber, date_time_ymd};

    use super::*;

    #[test]
    fn the_facts_of_a_certificate_are_read() {
        let mut params = CertificateParams::new(vec!["API.example".to_owned()]).unwrap();
        params.subject_alt_names.extend([
            SanType::IpAddress(Ipv4Addr::new(192, 0, 2, 1).into()),
            SanType::IpAddress(Ipv6Addr::LOCALHOST.into()),
            SanType::Rfc822Name("a@b.example".try_into().unwrap()),
            SanType::URI("spiffe://example/api".try_into().unwrap()),
        ]);
        params.distinguished_name.push(DnType::CommonName, "api, of us");
        params.serial_number = Some(SerialNumber::from(vec![0x0a, 0xbc]));
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2051, 1, 1);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let facts = CertificateFacts::of(certificate.der()).unwrap();
        assert_eq!((facts.subject.as_str(), facts.serial.as_str()), ("CN=api\\, of us", "abc"));
        assert_eq!(facts.issuer, facts.subject);
        assert_eq!((facts.not_before, facts.not_after), (1_767_225_600, 2_556_144_000));
        let names =
            ["dns:api.example", "ip:192.0.2.1", "ip:::1", "email:a@b.example", "uri:spiffe://example/api"];
        assert_eq!(facts.names, names);
        assert_eq!(facts.host_names().collect::<Vec<_>>(), ["api.example"]);
        assert_eq!(facts.fingerprint.len(), 64);
    }

    #[test]
    fn no_bytes_but_a_certificate_have_facts() {
        let certificate = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let bytes = certificate.der();
        for end in 0..bytes.len() {
            assert_eq!(CertificateFacts::of(&CertificateDer::from(&bytes[..end])), Err(NotX509), "{end}");
        }
    }
}

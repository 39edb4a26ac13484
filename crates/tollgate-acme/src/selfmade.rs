//! Certificates that this server makes itself: the self-signed one until an order is done, and the answer to
//! a challenge by TLS.

use std::path::Path;

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tollgate_tls::{Certificate, CertificateFiles, ValidationCertificate};

use crate::error::AcmeError;

/// The issuer in self-signed certificates, so that a person sees where they come from.
const ISSUER: &str = "Tollgate, self-signed";

/// Makes a self-signed certificate for a name.
pub(crate) fn self_signed(name: &str) -> Result<Certificate, AcmeError> {
    let (certificate, key) = made(name, Vec::new())?;
    let nowhere = CertificateFiles { certificate: "memory".into(), key: "memory".into() };
    Certificate::new(vec![certificate], key, &nowhere).map_err(failed)
}

/// Makes the certificate that answers a challenge by TLS (RFC 8737 section 3). `digest` is the SHA-256 of the
/// key authorization.
pub(crate) fn validation(name: &str, digest: &[u8]) -> Result<ValidationCertificate, AcmeError> {
    let (certificate, key) = made(name, vec![CustomExtension::new_acme_identifier(digest)])?;
    ValidationCertificate::new(certificate, key).map_err(failed)
}

fn made(
    name: &str,
    extensions: Vec<CustomExtension>,
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), AcmeError> {
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, ISSUER);
    params.custom_extensions = extensions;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?.der().clone();
    Ok((certificate, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()))))
}

/// Makes the key and the signing request of an order. Returns the key in PEM.
pub(crate) fn order_key() -> Result<String, AcmeError> {
    KeyPair::generate().map(|key| key.serialize_pem()).map_err(failed)
}

/// Makes the signing request of an order with this key (RFC 2986).
pub(crate) fn signing_request(name: &str, key: &str) -> Result<Vec<u8>, AcmeError> {
    let key = KeyPair::from_pem(key).map_err(failed)?;
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(failed)?;
    Ok(request.der().to_vec())
}

/// Reads a key and its certificate from one PEM file.
pub(crate) fn read(path: &Path) -> Result<Certificate, AcmeError> {
    Certificate::read(&CertificateFiles { certificate: path.to_owned(), key: path.to_owned() })
        .map_err(failed)
}

/// Returns the error of a certificate that cannot be made or used.
pub(crate) fn failed(error: impl std::fmt::Display) -> AcmeError {
    AcmeError::Certificate(error.to_string())
}

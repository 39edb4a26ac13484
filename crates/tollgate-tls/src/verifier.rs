//! Who a server is.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::{PemError, RootsError, certificates, provider, roots};

/// Verifies certificates of servers by authorities (RFC 5280 section 6); and one that stands for itself, if the file of the
/// authorities holds that very one.
///
/// What `openssl req -x509` makes says of itself that it is an authority. Path validation takes none of those for a server; every
/// program that people compare with does, where it was told to trust it.
#[derive(Debug)]
pub struct Verifier {
    by_path: Arc<WebPkiServerVerifier>,
    roots: Arc<RootCertStore>,
    /// What the file holds.
    named: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Trusts the authorities of a PEM file; without one, those of the system.
    ///
    /// # Errors
    /// As those of [`roots`].
    pub fn new(file: Option<&Path>) -> Result<Self, RootsError> {
        let named = file.map_or(Ok(Vec::new()), certificates).map_err(RootsError::File)?;
        let roots = Arc::new(roots(file)?);
        let by_path = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider())
            .build()
            .map_err(|error| match file {
                Some(file) => RootsError::File(PemError::new(file, &error)),
                None => RootsError::Unreadable(error.to_string()),
            })?;
        Ok(Self { by_path, roots, named })
    }

    /// The authorities.
    pub fn roots(&self) -> &[TrustAnchor<'static>] {
        &self.roots.roots
    }
}

/// Whether a certificate that is valid at this time says that it is an authority: the time is looked at before that.
fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.by_path.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(error) if is_authority(&error) => {
                if !self.named.contains(end_entity) {
                    return Err(CertificateError::UnknownIssuer.into());
                }
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_path.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_path.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_path.supported_verify_schemes()
    }
}

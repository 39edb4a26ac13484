//! Verifies the identity of a server.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, SignatureScheme};

use crate::{Authorities, RootsError, clock, provider};

/// Proof of identity that a server must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// No certificate is verified. An attacker on the path can read the data.
    Anybody,
    /// A trusted authority must have issued the certificate.
    Authority,
    /// In addition, the certificate must name the host.
    Host,
}

/// Verifies certificates of servers with the trusted authorities (RFC 5280 section 6).
///
/// A self-signed certificate is accepted if it is among the authorities. Signatures of the handshake are
/// always verified.
///
/// A certificate that `openssl req -x509` makes claims to be an authority. Path validation never accepts such
/// a certificate for a server. Comparable programs accept the certificate if they are configured to trust it.
#[derive(Debug, PartialEq, Eq)]
pub struct Verifier {
    /// Trusted authorities. `None` if any server is trusted.
    known: Option<TrustedAuthorities>,
    trust: Trust,
}

/// Trusted authorities, and the validation of certificate paths up to them.
#[derive(Debug)]
struct TrustedAuthorities {
    certificates: Vec<CertificateDer<'static>>,
    by_path: Arc<WebPkiServerVerifier>,
}

impl Verifier {
    /// Makes a verifier that trusts the authorities of a PEM file, or of the system if `file` is `None`.
    ///
    /// # Errors
    /// There are no authorities, or the file has an invalid certificate.
    pub fn new(file: Option<&Path>, trust: Trust) -> Result<Self, RootsError> {
        if trust == Trust::Anybody {
            return Ok(Self { known: None, trust });
        }
        let Authorities { certificates, roots } = Authorities::read(file)?;
        let by_path = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| RootsError::Unreadable(error.to_string()))?;
        Ok(Self { known: Some(TrustedAuthorities { certificates, by_path }), trust })
    }

    /// Begins the configuration of a client that trusts the servers of this verifier.
    ///
    /// # Errors
    /// The cryptography has no version of TLS.
    pub fn client(self: Arc<Self>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, RootsError> {
        let builder = ClientConfig::builder_with_details(provider(), clock())
            .with_safe_default_protocol_versions()
            .map_err(|error| RootsError::Version(error.to_string()))?;
        Ok(builder.dangerous().with_custom_certificate_verifier(self))
    }
}

impl PartialEq for TrustedAuthorities {
    fn eq(&self, other: &Self) -> bool {
        self.certificates == other.certificates
    }
}

impl Eq for TrustedAuthorities {}

impl TrustedAuthorities {
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.by_path.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(error) if is_authority(&error) => {
                if !self.certificates.contains(end_entity) {
                    return Err(CertificateError::UnknownIssuer.into());
                }
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }
}

/// Returns whether a certificate that is currently valid claims to be an authority. The validity is checked
/// before this claim.
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
        let Some(known) = &self.known else { return Ok(ServerCertVerified::assertion()) };
        match known.verify(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name of the host is checked last, so all other checks have passed.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.trust == Trust::Authority => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

//! TLS by rustls, with what libpq's `sslmode` asks of the server's certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;
use tollgate_tls::RootsError;

use super::options::{PostgresUrl, Trust};

/// Makes what a connection wraps itself in.
///
/// # Errors
/// The authorities cannot be read, in words.
pub(super) fn connector(url: &PostgresUrl) -> Result<MakeRustlsConnect, String> {
    let provider = tollgate_tls::provider();
    let verifier = match url.trust {
        Trust::Anybody => Verifier { provider: provider.clone(), inner: None, trust: url.trust },
        Trust::Authority | Trust::Host => {
            let inner = inner(url.root_cert.as_deref())?;
            Verifier { provider: provider.clone(), inner: Some(inner), trust: url.trust }
        }
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn inner(file: Option<&Path>) -> Result<tollgate_tls::Verifier, String> {
    tollgate_tls::Verifier::new(file).map_err(|error| match error {
        RootsError::File(error) => format!("sslrootcert {error}"),
        RootsError::None => format!("{error}, name some by sslrootcert"),
        RootsError::Unreadable(_) => error.to_string(),
    })
}

/// Looks at a certificate as far as `trust` says. Signatures of the handshake are always checked.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    inner: Option<tollgate_tls::Verifier>,
    trust: Trust,
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
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last: the rest held.
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
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

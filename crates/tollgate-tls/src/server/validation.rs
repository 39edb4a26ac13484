//! Certificates that answer the challenges of an ACME server by TLS (RFC 8737).
//!
//! The ACME server offers only the protocol `acme-tls/1`, and looks at the certificate. All listeners of the
//! process share the certificates, so that a reload keeps them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ClientHello;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, ServerConnection, SignatureScheme,
};

use crate::provider;

/// The protocol of a validation (RFC 8737 section 6.2).
pub const ACME_TLS_1: &[u8] = b"acme-tls/1";

static VALIDATIONS: RwLock<BTreeMap<String, ValidationCertificate>> = RwLock::new(BTreeMap::new());

/// The certificate of a validation, with its key.
pub struct ValidationCertificate(Arc<CertifiedKey>);

impl ValidationCertificate {
    /// Joins a certificate with its key. The certificate is not parsed, because its critical extension is
    /// unknown to all other code.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn new(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Result<Self, Error> {
        let key = provider().key_provider.load_private_key(key)?;
        Ok(Self(Arc::new(CertifiedKey::new(vec![certificate], key))))
    }
}

/// Replaces the certificates of validations, by the name that is validated.
pub fn set_validations(validations: BTreeMap<String, ValidationCertificate>) {
    *VALIDATIONS.write().unwrap_or_else(PoisonError::into_inner) = validations;
}

thread_local! {
    /// Whether the handshake that this thread processes is a validation. rustls chooses the certificate
    /// before it asks for the certificate of the client, in one call.
    static IS_VALIDATION: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a client validates a name: it offers no other protocol (RFC 8737 section 3).
pub(super) fn is_validation(hello: &ClientHello<'_>) -> bool {
    let mut offered = hello.alpn().into_iter().flatten();
    let is_validation = offered.next() == Some(ACME_TLS_1) && offered.next().is_none();
    IS_VALIDATION.set(is_validation);
    is_validation
}

/// Begins a session. The session asks its client for a certificate until it has read the client's hello.
///
/// # Errors
/// The cryptography refuses the configuration.
pub(super) fn begin_session(config: Arc<ServerConfig>) -> Result<ServerConnection, Error> {
    // rustls prepares for the certificate of a client before it reads the hello. The last hello on this
    // thread must not decide this.
    IS_VALIDATION.set(false);
    ServerConnection::new(config)
}

/// Asks each client for its certificate, except an ACME server that validates a name.
pub(super) fn unless_validation(verifier: Arc<dyn ClientCertVerifier>) -> Arc<dyn ClientCertVerifier> {
    Arc::new(UnlessValidation(verifier))
}

#[derive(Debug)]
struct UnlessValidation(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for UnlessValidation {
    fn offer_client_auth(&self) -> bool {
        !IS_VALIDATION.get() && self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Returns the certificate of a validation. `None`: no name with this name is validated now.
pub(super) fn find(name: Option<&str>) -> Option<Arc<CertifiedKey>> {
    let validations = VALIDATIONS.read().unwrap_or_else(PoisonError::into_inner);
    validations.get(name?).map(|found| found.0.clone())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rustls::pki_types::CertificateDer;
    use rustls::{ClientConfig, HandshakeKind};
    use tempfile::TempDir;

    use super::*;
    use crate::server::clients::{ClientAuth, ClientAuthOptions};
    use crate::server::{ServerTls, ServerTlsOptions};
    use crate::testing::{ClientAuthority, certificate, shake, trusting_client};

    /// Loads a server that requires certificates of clients, and validates its name.
    fn tls_with_clients(folder: &Path, name: &str) -> ServerTls {
        let authorities = folder.join("clients.pem");
        fs::write(&authorities, ClientAuthority::new("ours").pem()).unwrap();
        let files = certificate(folder, "site", &[name]);
        let answer = certificate(folder, "answer", &[name]);
        let tls = ServerTls::load(ServerTlsOptions {
            certificates: vec![files],
            clients: Some(ClientAuthOptions { authorities, revoked: Vec::new(), auth: ClientAuth::Required }),
            ..ServerTlsOptions::default()
        });
        let certificate = crate::certificates(&answer.certificate).unwrap().remove(0);
        let made = ValidationCertificate::new(certificate, crate::private_key(&answer.key).unwrap()).unwrap();
        let mut validations = VALIDATIONS.write().unwrap();
        validations.insert(name.to_owned(), made);
        tls.unwrap()
    }

    #[test]
    fn a_validation_is_not_asked_for_a_certificate_of_the_client() {
        let folder = TempDir::new().unwrap();
        let tls = tls_with_clients(folder.path(), "a.test");
        let expected = crate::certificates(&folder.path().join("answer.pem")).unwrap();
        let served = |protocols: &[&[u8]], name: &'static str| -> Option<Vec<CertificateDer<'static>>> {
            let mut client = ClientConfig::clone(&trusting_client());
            client.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            let (client, _) = shake(tls.config(), Arc::new(client), name).ok()?;
            client.peer_certificates().map(<[_]>::to_vec)
        };
        assert_eq!(served(&[ACME_TLS_1], "a.test"), Some(expected));
        assert_eq!(served(&[ACME_TLS_1], "b.test"), None, "this name is not validated");
        // After a validation, the next client of this thread is asked again.
        assert_eq!(served(&[b"http/1.1"], "a.test"), None);
        assert_eq!(served(&[ACME_TLS_1, b"http/1.1"], "a.test"), None);
        assert_eq!(served(&[], "a.test"), None);
    }

    #[test]
    fn a_session_that_a_validation_began_has_not_the_certificate_of_a_client() {
        let folder = TempDir::new().unwrap();
        let tls = tls_with_clients(folder.path(), "c.test");
        let mut client = ClientConfig::clone(&trusting_client());
        client.alpn_protocols = vec![ACME_TLS_1.to_vec()];
        shake(tls.config(), Arc::new(client.clone()), "c.test").unwrap();
        // The client has a ticket of the validation, and asks for a page with it.
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (_, session) = shake(tls.config(), Arc::new(client), "c.test").unwrap();
        assert_eq!(session.handshake_kind(), Some(HandshakeKind::Resumed));
        assert!(!tls.has_required_certificate(&session));
    }

    #[test]
    fn a_validation_does_not_change_the_next_session_of_its_thread() {
        let folder = TempDir::new().unwrap();
        let tls = tls_with_clients(folder.path(), "d.test");
        IS_VALIDATION.set(true);
        tls.begin_session().unwrap();
        assert!(!IS_VALIDATION.get());
    }
}

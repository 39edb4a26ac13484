//! The certificates of clients (mutual TLS): their authorities, and the lists of revoked certificates.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::Ticketer;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ProducesTickets, WebPkiClientVerifier};

use crate::pem::{PemError, revocation_lists};
use crate::{Authorities, RootsError, provider};

/// Whether each client needs a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// A handshake without a certificate fails.
    #[default]
    Required,
    /// A client may leave its certificate out. If it sends one, the certificate must be valid.
    Requested,
}

/// The certificates of clients that are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAuthOptions {
    /// The authorities of clients, in PEM.
    pub authorities: PathBuf,
    /// Lists of revoked certificates, in PEM.
    pub revoked: Vec<PathBuf>,
    /// Whether each client needs a certificate.
    pub auth: ClientAuth,
}

impl ClientAuthOptions {
    /// Returns the paths of all files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.authorities.as_path()).chain(self.revoked.iter().map(PathBuf::as_path))
    }
}

/// Reason why no certificate of a client can be verified.
#[derive(Debug, thiserror::Error)]
pub enum ClientAuthError {
    /// The authorities cannot be used.
    #[error("{0}")]
    Authorities(#[source] PemError),
    /// A list of revoked certificates cannot be used.
    #[error("{0}")]
    Revoked(#[source] PemError),
}

/// Verifies the certificates of clients.
pub(super) struct Clients {
    authorities: Vec<CertificateDer<'static>>,
    revoked: Vec<CertificateRevocationListDer<'static>>,
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    /// Encrypts the tickets of sessions with verified clients. A ticket has the certificate of the client,
    /// which is not verified again. So each change of the files has new keys, which end the sessions before.
    pub(super) tickets: Arc<dyn ProducesTickets>,
}

impl Clients {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be used.
    pub(super) fn read(options: &ClientAuthOptions) -> Result<Self, ClientAuthError> {
        let file = &options.authorities;
        let fail = |reason: &dyn fmt::Display| ClientAuthError::Authorities(PemError::new(file, reason));
        let Authorities { certificates, roots } =
            Authorities::read(Some(file)).map_err(|error| match error {
                RootsError::File(error) => ClientAuthError::Authorities(error),
                other => fail(&other),
            })?;
        let mut revoked = Vec::new();
        for file in &options.revoked {
            revoked.extend(revocation_lists(file).map_err(ClientAuthError::Revoked)?);
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let builder = builder.with_crls(revoked.iter().cloned());
        let builder = match options.auth {
            ClientAuth::Required => builder,
            ClientAuth::Requested => builder.allow_unauthenticated(),
        };
        let verifier = builder.build().map_err(|error| fail(&error))?;
        let tickets = Ticketer::new().map_err(|error| fail(&error))?;
        Ok(Self { authorities: certificates, revoked, verifier, tickets })
    }
}

/// Compares the contents of the files.
impl PartialEq for Clients {
    fn eq(&self, other: &Self) -> bool {
        self.authorities == other.authorities && self.revoked == other.revoked
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustls::{CertificateError, Error, HandshakeKind};
    use tempfile::TempDir;

    use super::*;
    use crate::testing::{ClientAuthority, certificate, client_with, shake, trusting_client};
    use crate::{ServerTls, ServerTlsOptions};

    /// A server that verifies the clients of an authority.
    struct Site {
        folder: TempDir,
        authority: ClientAuthority,
    }

    impl Site {
        fn new() -> Self {
            let site = Self { folder: TempDir::new().unwrap(), authority: ClientAuthority::new("ours") };
            site.write("clients.pem", site.authority.pem());
            site
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        }

        fn load(&self, auth: ClientAuth, revoked: Vec<PathBuf>) -> ServerTls {
            let authorities = self.folder.path().join("clients.pem");
            ServerTls::load(ServerTlsOptions {
                certificates: vec![certificate(self.folder.path(), "server", &["a.test"])],
                clients: Some(ClientAuthOptions { authorities, revoked, auth }),
                ..ServerTlsOptions::default()
            })
            .unwrap()
        }
    }

    /// Returns the kind of a handshake.
    fn kind(tls: &ServerTls, client: Arc<rustls::ClientConfig>) -> Result<HandshakeKind, Error> {
        shake(tls.config(), client, "a.test").map(|(client, _)| client.handshake_kind().unwrap())
    }

    #[test]
    fn a_client_needs_a_certificate_of_the_authority_or_may_leave_it_out() {
        let site = Site::new();
        let client = client_with(&site.authority.issue("api.test", 1));
        let foreign = client_with(&ClientAuthority::new("other").issue("api.test", 1));
        for (auth, without) in [
            (ClientAuth::Required, Err(Error::NoCertificatesPresented)),
            (ClientAuth::Requested, Ok(HandshakeKind::Full)),
        ] {
            let tls = site.load(auth, Vec::new());
            assert_eq!(kind(&tls, trusting_client()), without, "{auth:?}");
            assert_eq!(kind(&tls, client.clone()), Ok(HandshakeKind::Full), "{auth:?}");
            let refused = kind(&tls, foreign.clone()).unwrap_err();
            assert!(matches!(refused, Error::InvalidCertificate(_)), "{auth:?}: {refused}");
        }
    }

    #[test]
    fn a_revoked_certificate_is_refused_also_for_a_session_from_before() {
        let site = Site::new();
        let list = site.write("revoked.pem", &site.authority.revoke(&[7]));
        let tls = site.load(ClientAuth::Required, vec![list]);
        let revoked = Error::InvalidCertificate(CertificateError::Revoked);
        assert_eq!(kind(&tls, client_with(&site.authority.issue("old.test", 7))), Err(revoked.clone()));
        let client = client_with(&site.authority.issue("api.test", 8));
        assert_eq!(kind(&tls, client.clone()), Ok(HandshakeKind::Full));
        assert_eq!(kind(&tls, client.clone()), Ok(HandshakeKind::Resumed));
        site.write("revoked.pem", &site.authority.revoke(&[7, 8]));
        assert!(tls.look());
        assert_eq!(kind(&tls, client), Err(revoked));
    }

    #[test]
    fn broken_files_are_named_and_keep_the_authorities_before() {
        let site = Site::new();
        let list = site.write("revoked.pem", &site.authority.revoke(&[]));
        let tls = site.load(ClientAuth::Required, vec![list]);
        let client = client_with(&site.authority.issue("api.test", 1));
        site.write("revoked.pem", "no list");
        assert!(!tls.look());
        assert!(tls.faults()[0].ends_with("revoked.pem: it has no revocation list (X509 CRL) in PEM"));
        assert_eq!(kind(&tls, client.clone()), Ok(HandshakeKind::Full));
        let other = ClientAuthority::new("other");
        site.write("clients.pem", &(site.authority.pem().to_owned() + other.pem()));
        site.write("revoked.pem", &(site.authority.revoke(&[]) + &other.revoke(&[])));
        assert!(tls.look());
        assert_eq!(kind(&tls, client_with(&other.issue("b.test", 1))), Ok(HandshakeKind::Full));
        assert_eq!(tls.faults(), [""; 0]);
    }
}

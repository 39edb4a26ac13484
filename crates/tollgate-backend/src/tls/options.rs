//! What TLS to a backend is made of: whom it trusts, and who it says that it is itself.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tollgate_tls::{RootsError, Trust, Verifier};

/// The only protocol that is spoken (RFC 7301).
const ALPN: &[u8] = b"http/1.1";

/// Files and a name, as they are configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsFiles {
    /// The authorities that are trusted, in PEM; none for those of the system.
    pub ca: Option<PathBuf>,
    /// What the backend is shown if it asks who it is that asks.
    pub client: Option<ClientIdentity>,
    /// The name that certificates have to be for, in place of that of the address.
    pub server_name: Option<String>,
}

/// Who asks, by files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The same with what the files held. Two are equal if all of that is.
pub struct TlsOptions {
    files: TlsFiles,
    server_name: Option<ServerName<'static>>,
    verifier: Arc<Verifier>,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    config: Arc<ClientConfig>,
}

/// Why there is no TLS, by the key that is to blame. A file is named.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Nobody is trusted.
    #[error("{0}")]
    Roots(#[source] RootsError),
    /// The client's certificate is of no use.
    #[error("{0}")]
    Certificate(String),
    /// Its key is of no use, or not that of the certificate.
    #[error("{0}")]
    Key(String),
    /// It is no name that a certificate can be for.
    #[error("{0:?} is neither a host name nor an address")]
    ServerName(String),
}

impl TlsOptions {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them is of no use.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let server_name = files.server_name.as_deref().map(server_name).transpose()?;
        let verifier = Arc::new(Verifier::new(files.ca.as_deref(), Trust::Host).map_err(TlsError::Roots)?);
        let builder = ClientConfig::builder_with_details(tollgate_tls::provider(), tollgate_tls::clock())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Certificate(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone());
        let client = files.client.as_ref().map(read_client).transpose()?;
        let mut config = match (&client, &files.client) {
            (Some((certificates, key)), Some(identity)) => {
                let unfit = |error| {
                    let (key, certificate) = (identity.key.display(), identity.certificate.display());
                    TlsError::Key(format!("{key} is no key for the certificate of {certificate}: {error}"))
                };
                builder.with_client_auth_cert(certificates.clone(), key.clone_key()).map_err(unfit)?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self { files, server_name, verifier, client, config: Arc::new(config) })
    }

    /// As they are configured.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// The name that certificates have to be for, whatever the address.
    pub(crate) fn server_name(&self) -> Option<&ServerName<'static>> {
        self.server_name.as_ref()
    }

    pub(crate) fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Whose authorities are trusted, for people.
    pub(crate) fn trusted(&self) -> String {
        self.files.ca.as_ref().map_or_else(|| "the system".to_owned(), |file| file.display().to_string())
    }
}

/// The name of a host, or an address, as certificates have it.
pub(crate) fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    // Certificates have no final dot.
    let text = name.strip_suffix('.').unwrap_or(name).to_owned();
    ServerName::try_from(text).map_err(|_| TlsError::ServerName(name.to_owned()))
}

fn read_client(
    identity: &ClientIdentity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let certificates = tollgate_tls::certificates(&identity.certificate)
        .map_err(|error| TlsError::Certificate(error.to_string()))?;
    let key = tollgate_tls::private_key(&identity.key).map_err(|error| TlsError::Key(error.to_string()))?;
    Ok((certificates, key))
}

impl PartialEq for TlsOptions {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files && self.verifier == other.verifier && self.client == other.client
    }
}

impl Eq for TlsOptions {}

/// What the files held is nobody's to read.
impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions").field("files", &self.files).finish_non_exhaustive()
    }
}

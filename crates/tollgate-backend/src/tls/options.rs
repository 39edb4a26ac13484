//! TLS options of a backend: trusted authorities, and our own certificate.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tollgate_tls::{RootsError, Trust, Verifier};

/// The only supported application protocol (RFC 7301).
const ALPN: &[u8] = b"http/1.1";

/// Configured files and server name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsFiles {
    /// The trusted authorities, in PEM. `None` for the authorities of the system.
    pub ca: Option<PathBuf>,
    /// Our certificate, if the backend asks for one.
    pub client: Option<ClientIdentity>,
    /// The name that certificates must have, instead of the name in the address.
    pub server_name: Option<String>,
}

/// Our certificate and key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate, and the intermediate certificates up to its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// The options with the contents of the files. Two values are equal if the options and all contents are
/// equal.
pub struct TlsOptions {
    files: TlsFiles,
    server_name: Option<ServerName<'static>>,
    verifier: Arc<Verifier>,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    config: Arc<ClientConfig>,
}

/// Reason why TLS cannot be used. Each variant is for the option at fault, and the text names the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The trusted authorities cannot be used, or there are none.
    #[error("{0}")]
    Roots(#[source] RootsError),
    /// The client certificate cannot be used.
    #[error("{0}")]
    Certificate(String),
    /// The private key cannot be used, or does not match the certificate.
    #[error("{0}")]
    Key(String),
    /// No certificate can have this name.
    #[error("{0:?} is neither a host name nor an address")]
    ServerName(String),
}

impl TlsOptions {
    /// Reads the files.
    ///
    /// # Errors
    /// A file or the server name cannot be used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let server_name = files.server_name.as_deref().map(server_name).transpose()?;
        let verifier = Arc::new(Verifier::new(files.ca.as_deref(), Trust::Host).map_err(TlsError::Roots)?);
        let builder = verifier.clone().client().map_err(TlsError::Roots)?;
        let client = files.client.as_ref().map(read_client).transpose()?;
        let mut config = match (&client, &files.client) {
            (Some((certificates, key)), Some(identity)) => {
                let unfit = |error| {
                    let (key, certificate) = (identity.key.display(), identity.certificate.display());
                    TlsError::Key(format!(
                        "{key} is not the key of the certificate in {certificate}: {error}"
                    ))
                };
                builder.with_client_auth_cert(certificates.clone(), key.clone_key()).map_err(unfit)?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self { files, server_name, verifier, client, config: Arc::new(config) })
    }

    /// Returns the configured files.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Returns the configured name that certificates must have, for every address.
    pub(crate) fn server_name(&self) -> Option<&ServerName<'static>> {
        self.server_name.as_ref()
    }

    pub(crate) fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Returns the source of the trusted authorities, for error texts.
    pub(crate) fn trusted(&self) -> String {
        self.files.ca.as_ref().map_or_else(|| "the system".to_owned(), |file| file.display().to_string())
    }
}

/// Parses the name or address of a host, as certificates have it.
pub(crate) fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    // Names in certificates have no final dot.
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

/// Shows no contents of the files, because the key is secret.
impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions").field("files", &self.files).finish_non_exhaustive()
    }
}

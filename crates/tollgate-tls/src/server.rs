//! TLS of a server: its certificates, each chosen by the host name that the client sends (SNI, RFC 6066
//! section 3).
//!
//! Early data (0-RTT) is never accepted, because a replayed request would become a second record.

mod names;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use rustls::crypto::ring::Ticketer;
use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::{Error, SupportedProtocolVersion, version};

use crate::pem::{PemError, certificates, private_key};
use crate::{clock, provider};
use names::CertificatesByName;
pub use names::UnknownName;

/// The only application protocol that is served (RFC 7301).
const HTTP_1_1: &[u8] = b"http/1.1";

/// The files of one certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and the intermediate certificates up to its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// The lowest TLS version of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinVersion {
    /// TLS 1.2 (RFC 5246) and TLS 1.3.
    #[default]
    Tls12,
    /// Only TLS 1.3 (RFC 8446).
    Tls13,
}

impl MinVersion {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static ALL: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
        match self {
            Self::Tls12 => &ALL,
            Self::Tls13 => &ALL[..1],
        }
    }
}

/// The options of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerTlsOptions {
    /// The certificates, at least one.
    pub certificates: Vec<CertificateFiles>,
    /// The lowest version of a handshake.
    pub min_version: MinVersion,
    /// What a client without a known name gets.
    pub unknown_name: UnknownName,
}

/// Encrypts session tickets (RFC 8446 section 4.6.1). All sessions of the process share the keys, so a reload
/// keeps them. A key encrypts tickets for 6 hours, and decrypts them for 6 more hours.
static TICKETS: LazyLock<Result<Arc<dyn ProducesTickets>, Error>> = LazyLock::new(Ticketer::new);

/// TLS of a server, with the contents of its files. Two values are equal if the options and all contents are
/// equal.
pub struct ServerTls {
    options: ServerTlsOptions,
    keys: Vec<Arc<CertifiedKey>>,
    config: Arc<ServerConfig>,
}

/// Reason why a certificate cannot be used. No error contains any part of a key.
#[derive(Debug, thiserror::Error)]
pub enum ServerTlsError {
    /// The certificate cannot be used.
    #[error("{error}")]
    Certificate {
        /// Index of the certificate in the options.
        index: usize,
        /// The file, and the reason.
        error: PemError,
    },
    /// The key cannot be used, or is the key of another certificate.
    #[error("{error}")]
    Key {
        /// Index of the certificate in the options.
        index: usize,
        /// The file, and the reason.
        error: PemError,
    },
    /// The cryptography refuses the options.
    #[error("{0}")]
    Options(#[source] Error),
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// A certificate or a key cannot be used.
    pub fn load(options: ServerTlsOptions) -> Result<Self, ServerTlsError> {
        let keys = options.certificates.iter().enumerate();
        let keys = keys.map(|(index, files)| read(index, files)).collect::<Result<Vec<_>, _>>()?;
        let by_name = CertificatesByName::new(&keys, options.unknown_name);
        let mut config = ServerConfig::builder_with_details(provider(), clock())
            .with_protocol_versions(options.min_version.versions())
            .map_err(ServerTlsError::Options)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(by_name));
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        // Tickets hold the state of a session, so the server stores none.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = TICKETS.clone().map_err(ServerTlsError::Options)?;
        Ok(Self { options, keys, config: Arc::new(config) })
    }

    /// Returns the options.
    pub fn options(&self) -> &ServerTlsOptions {
        &self.options
    }

    /// Returns the configuration of each session.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }
}

/// Reads one certificate with its key.
fn read(index: usize, files: &CertificateFiles) -> Result<Arc<CertifiedKey>, ServerTlsError> {
    let of_certificate = |error| ServerTlsError::Certificate { index, error };
    let of_key = |error| ServerTlsError::Key { index, error };
    let chain = certificates(&files.certificate).map_err(of_certificate)?;
    names::of(&chain[0]).map_err(|error| of_certificate(PemError::new(&files.certificate, &error)))?;
    let key = private_key(&files.key).map_err(of_key)?;
    let key = provider()
        .key_provider
        .load_private_key(key)
        .map_err(|_| of_key(PemError::new(&files.key, &"it has a key of a kind that is not supported")))?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(|_| {
        let reason = format!("it is not the key of the certificate in {}", files.certificate.display());
        of_key(PemError::new(&files.key, &reason))
    })?;
    Ok(Arc::new(certified))
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        let chains = |tls: &Self| tls.keys.iter().map(|key| key.cert.clone()).collect::<Vec<_>>();
        // Each key matches its certificate, so equal certificates have equal keys.
        self.options == other.options && chains(self) == chains(other)
    }
}

impl Eq for ServerTls {}

/// Shows no contents of the files, because the keys are secret.
impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

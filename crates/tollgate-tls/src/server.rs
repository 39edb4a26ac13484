//! TLS of a server: its certificates, each chosen by the host name that the client sends (SNI, RFC 6066
//! section 3).
//!
//! The certificates can be replaced while the server runs. Only new handshakes use the new certificates.
//! Early data (0-RTT) is never accepted, because a replayed request would become a second record.

mod certificate;
mod clients;
mod names;
mod stamp;
mod validation;

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

use rustls::crypto::ring::Ticketer;
use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerConfig};
use rustls::{Error, ServerConnection, SupportedProtocolVersion, version};

use crate::pem::PemError;
use crate::{clock, provider};
pub use certificate::{Certificate, CertificateError, CertificateFiles};
use clients::Clients;
pub use clients::{ClientAuth, ClientAuthError, ClientAuthOptions};
use names::CertificatesByName;
pub use names::UnknownName;
use stamp::Stamp;
pub use validation::{ACME_TLS_1, ValidationCertificate, set_validations};
use validation::{begin_session, unless_validation};

/// The application protocol of requests (RFC 7301).
const HTTP_1_1: &[u8] = b"http/1.1";

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
    /// The certificates from files.
    pub certificates: Vec<CertificateFiles>,
    /// The lowest version of a handshake.
    pub min_version: MinVersion,
    /// What a client without a known name gets.
    pub unknown_name: UnknownName,
    /// The certificates of clients. `None`: no client is asked for a certificate.
    pub clients: Option<ClientAuthOptions>,
}

impl ServerTlsOptions {
    /// Returns the paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let own = self.certificates.iter().flat_map(|files| [files.certificate.as_path(), &files.key]);
        own.chain(self.clients.iter().flat_map(ClientAuthOptions::paths))
    }
}

/// Encrypts session tickets (RFC 8446 section 4.6.1). All sessions of the process share the keys, so a reload
/// keeps them. A key encrypts tickets for 6 hours, and decrypts them for 6 more hours.
static TICKETS: LazyLock<Result<Arc<dyn ProducesTickets>, Error>> = LazyLock::new(Ticketer::new);

/// TLS of a server.
pub struct ServerTls {
    options: ServerTlsOptions,
    present: RwLock<Present>,
    /// The state of each file before the last read. The lock is held during each change of `present`.
    stamps: Mutex<Vec<Stamp>>,
    /// The faults of the files that could not be used at the last read.
    faults: Mutex<Vec<String>>,
}

/// The certificates of the next handshakes.
struct Present {
    of_files: Vec<Certificate>,
    issued: Vec<Certificate>,
    clients: Option<Arc<Clients>>,
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
    /// The certificates of clients cannot be verified.
    #[error("{0}")]
    Clients(#[source] ClientAuthError),
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
        let stamps = Mutex::new(stamps(&options));
        let files = options.certificates.iter().enumerate();
        let of_files = files.map(|(index, files)| read(index, files)).collect::<Result<Vec<_>, _>>()?;
        let clients =
            options.clients.as_ref().map(Clients::read).transpose().map_err(ServerTlsError::Clients)?;
        let clients = clients.map(Arc::new);
        let config = config(&options, &of_files, clients.as_deref()).map_err(ServerTlsError::Options)?;
        let present = RwLock::new(Present { of_files, issued: Vec::new(), clients, config });
        Ok(Self { options, present, stamps, faults: Mutex::default() })
    }

    /// Returns the options.
    pub fn options(&self) -> &ServerTlsOptions {
        &self.options
    }

    /// Returns the configuration of the next session.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.present().config.clone()
    }

    /// Begins a session with the present certificates.
    ///
    /// # Errors
    /// The cryptography refuses the configuration.
    pub fn begin_session(&self) -> Result<ServerConnection, Error> {
        begin_session(self.config())
    }

    /// Returns whether a session has the certificate of its client, if the options require one.
    ///
    /// A resumed session asks for no certificate, and has the certificate of the session before. A validation
    /// by an ACME server has none, and its client gets tickets too. So each session has to be checked.
    pub fn has_required_certificate(&self, session: &ServerConnection) -> bool {
        let is_required =
            self.options.clients.as_ref().is_some_and(|clients| clients.auth == ClientAuth::Required);
        !is_required || session.peer_certificates().is_some()
    }

    /// Returns the certificates from files, in the order of the options.
    pub fn certificates(&self) -> Vec<Certificate> {
        self.present().of_files.clone()
    }

    /// Returns the certificates that came at run time.
    pub fn issued(&self) -> Vec<Certificate> {
        self.present().issued.clone()
    }

    /// Replaces the certificates that came at run time, such as certificates of ACME. A certificate from a
    /// file has priority over an issued certificate with the same name.
    ///
    /// A reload creates a new value without issued certificates, so the caller passes
    /// [`issued`](Self::issued) of the value before.
    ///
    /// # Errors
    /// The cryptography refuses the options. The present certificates stay.
    pub fn set_issued(&self, issued: Vec<Certificate>) -> Result<(), Error> {
        let _changing = locked(&self.stamps);
        let of_files = self.certificates();
        self.replace(of_files, issued, self.clients())
    }

    /// Reads the files again if one of them changed, or if the last read found a fault. Returns whether new
    /// handshakes use other certificates from now on.
    ///
    /// A certificate whose files cannot be used stays as it is. The same is true for the authorities and
    /// revoked certificates of clients. [`faults`](Self::faults) returns the reasons.
    pub fn look(&self) -> bool {
        let mut known = locked(&self.stamps);
        let stamps = stamps(&self.options);
        if stamps == *known && self.faults().is_empty() {
            return false;
        }
        *known = stamps;
        let before = self.certificates();
        let (mut of_files, mut faults) = (before.clone(), Vec::new());
        for (present, files) in of_files.iter_mut().zip(&self.options.certificates) {
            match Certificate::read(files) {
                Ok(read) => *present = read,
                Err(error) => faults.push(error.to_string()),
            }
        }
        let present = self.clients();
        let mut clients = present.clone();
        match self.options.clients.as_ref().map(Clients::read) {
            Some(Ok(read)) if present.as_deref() != Some(&read) => clients = Some(Arc::new(read)),
            Some(Err(error)) => faults.push(error.to_string()),
            Some(Ok(_)) | None => {}
        }
        let mut is_changed = of_files != before || clients != present;
        if is_changed && let Err(error) = self.replace(of_files, self.issued(), clients) {
            faults.push(error.to_string());
            is_changed = false;
        }
        *locked(&self.faults) = faults;
        is_changed
    }

    /// Returns the faults of the files that could not be used at the last read. Each fault names its file.
    /// The call does not wait for a read.
    pub fn faults(&self) -> Vec<String> {
        locked(&self.faults).clone()
    }

    /// Replaces all certificates for new handshakes. The caller holds `stamps`.
    fn replace(
        &self,
        of_files: Vec<Certificate>,
        issued: Vec<Certificate>,
        clients: Option<Arc<Clients>>,
    ) -> Result<(), Error> {
        let config = config(&self.options, of_files.iter().chain(&issued), clients.as_deref())?;
        let mut present = self.present.write().unwrap_or_else(PoisonError::into_inner);
        *present = Present { of_files, issued, clients, config };
        Ok(())
    }

    fn clients(&self) -> Option<Arc<Clients>> {
        self.present().clients.clone()
    }

    fn present(&self) -> impl Deref<Target = Present> {
        self.present.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks a value, also after a panic of another thread. Each value here is consistent after every statement.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the state of each file.
fn stamps(options: &ServerTlsOptions) -> Vec<Stamp> {
    options.paths().map(Stamp::of).collect()
}

/// Creates the configuration of sessions with these certificates. The first certificate with a name has
/// priority.
fn config<'a>(
    options: &ServerTlsOptions,
    certificates: impl IntoIterator<Item = &'a Certificate>,
    clients: Option<&Clients>,
) -> Result<Arc<ServerConfig>, Error> {
    let by_name = CertificatesByName::new(certificates, options.unknown_name);
    let builder = ServerConfig::builder_with_details(provider(), clock())
        .with_protocol_versions(options.min_version.versions())?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(unless_validation(clients.verifier.clone())),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(by_name));
    config.alpn_protocols = vec![HTTP_1_1.to_vec(), ACME_TLS_1.to_vec()];
    // Tickets hold the state of a session, so the server stores none.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = match clients {
        Some(clients) => clients.tickets.clone(),
        None => TICKETS.clone()?,
    };
    Ok(Arc::new(config))
}

/// Reads one certificate with its key.
fn read(index: usize, files: &CertificateFiles) -> Result<Certificate, ServerTlsError> {
    Certificate::read(files).map_err(|error| match error {
        CertificateError::Certificate(error) => ServerTlsError::Certificate { index, error },
        CertificateError::Key(error) => ServerTlsError::Key { index, error },
    })
}

/// Shows no contents of the files, because the keys are secret.
impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

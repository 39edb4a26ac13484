//! The options of ACME. The caller has already checked them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// The directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// The directory of Let's Encrypt for tests. Browsers do not trust its certificates.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// The options of ACME.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeOptions {
    /// The names, in lower case. Each name gets a certificate of its own.
    pub domains: Vec<String>,
    /// The address that the ACME server may send notices to.
    pub email: Option<String>,
    /// The URL of the directory of the ACME server (RFC 8555 section 7.1.1).
    pub directory: String,
    /// A PEM file with the authorities of the ACME server. `None`: the authorities of the system.
    pub ca_file: Option<PathBuf>,
    /// The account with the certificate authority that the ACME account belongs to.
    pub external_account: Option<ExternalAccount>,
    /// The profile of the certificates, as the ACME server names it.
    pub profile: Option<String>,
    /// How the ACME server checks that this server has the names.
    pub challenge: ChallengeKind,
    /// Time from the set of a record of a challenge by DNS to the announcement to the ACME server.
    pub dns_wait: Duration,
    /// The folder of keys, certificates and orders.
    pub folder: PathBuf,
}

/// How the ACME server checks that this server has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChallengeKind {
    /// The ACME server fetches a token on port 80 (RFC 8555 section 8.3).
    #[default]
    Http01,
    /// The ACME server begins a TLS session on port 443 (RFC 8737).
    TlsAlpn01,
    /// The ACME server looks up a TXT record (RFC 8555 section 8.4).
    Dns01,
}

/// An account with the certificate authority (RFC 8555 section 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The id of the key.
    pub key_id: String,
    /// The key.
    pub hmac_key: Vec<u8>,
}

impl ExternalAccount {
    /// Reads the key, in base64 as certificate authorities show it. `None`: the text is no base64.
    pub fn read(key_id: &str, hmac_key: &str) -> Option<Self> {
        let plain: String = hmac_key.trim_end_matches('=').replace('+', "-").replace('/', "_");
        let hmac_key = BASE64_URL_SAFE_NO_PAD.decode(plain).ok().filter(|key| !key.is_empty())?;
        Some(Self { key_id: key_id.to_owned(), hmac_key })
    }
}

/// Does not show the key.
impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

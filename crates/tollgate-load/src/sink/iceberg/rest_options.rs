//! Options of a REST catalog.

use std::path::PathBuf;
use std::time::Duration;

/// Options of a REST catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestOptions {
    /// The address, to which `/v1/config` is added. It ends without a slash.
    pub address: String,
    /// The warehouse or catalog that the server is asked for. `None`: the server has one.
    pub warehouse: Option<String>,
    /// Authentication of requests.
    pub auth: RestAuth,
    /// A PEM file with the trusted authorities. `None`: the authorities of the system.
    pub ca: Option<PathBuf>,
    /// Longest time without progress of a call.
    pub timeout: Duration,
}

/// Authentication of requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RestAuth {
    /// Requests carry no credentials.
    #[default]
    None,
    /// The token in a file, which another program may replace.
    TokenFile(PathBuf),
    /// A token that a server gives for a client and its secret.
    ClientCredentials(ClientCredentials),
    /// A signature of AWS, with the keys of the warehouse.
    SigV4(SigV4),
}

/// A client of OAuth 2 (RFC 6749 section 4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCredentials {
    /// The id of the client.
    pub client_id: String,
    /// A file with the secret of the client.
    pub secret_file: PathBuf,
    /// The scope of the token.
    pub scope: Option<String>,
    /// The address that gives tokens. `None`: the catalog gives them.
    pub url: Option<String>,
}

/// The signature of requests to a service of AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigV4 {
    /// The region of the service.
    pub region: String,
    /// The name of the service in the signature.
    pub service: String,
}

impl RestOptions {
    /// Returns the default options of an address.
    pub fn new(address: &str) -> Self {
        Self {
            address: address.trim_end_matches('/').to_owned(),
            warehouse: None,
            auth: RestAuth::None,
            ca: None,
            timeout: Duration::from_secs(30),
        }
    }

    /// Returns whether both are the same catalog.
    pub(super) fn is_same_catalog(&self, other: &Self) -> bool {
        (&self.address, &self.warehouse) == (&other.address, &other.warehouse)
    }
}

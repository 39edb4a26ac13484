//! Options of a connection to a broker.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Options of a connection to a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerOptions {
    /// Addresses of brokers, `host:port,host:port`. The client needs an answer of only one of them.
    pub brokers: String,
    /// Encryption and credentials.
    pub security: Security,
    /// Compression of batches.
    pub compression: Compression,
    /// How long the opening of a connection may take.
    pub connect_timeout: Duration,
    /// How long the client waits for one answer of a broker.
    pub request_timeout: Duration,
    /// How long the client tries to deliver a record, or to end a transaction.
    pub delivery_timeout: Duration,
    /// Age at which the broker aborts an open transaction whose writer is gone.
    pub transaction_timeout: Duration,
}

impl BrokerOptions {
    /// Returns the default options for these addresses.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            security: Security::default(),
            compression: Compression::None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            delivery_timeout: Duration::from_secs(30),
            transaction_timeout: Duration::from_secs(60),
        }
    }
}

/// Encryption and credentials of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// TLS. `None`: the connection is not encrypted.
    pub tls: Option<Tls>,
    /// Credentials. `None`: the client has none.
    pub sasl: Option<Sasl>,
}

/// TLS to a broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the authorities. `None`: the authorities of the client's library.
    pub ca: Option<PathBuf>,
    /// PEM files of the client's certificate and of its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Credentials of SASL.
#[derive(Clone, PartialEq, Eq)]
pub enum Sasl {
    /// The broker gets name and password. Use it only inside TLS.
    Plain {
        /// Name of the user.
        user: String,
        /// Password of the user.
        password: String,
    },
    /// The broker gets a proof of the password, by SHA-256.
    ScramSha256 {
        /// Name of the user.
        user: String,
        /// Password of the user.
        password: String,
    },
    /// The broker gets a proof of the password, by SHA-512.
    ScramSha512 {
        /// Name of the user.
        user: String,
        /// Password of the user.
        password: String,
    },
    /// A bearer token (RFC 6750) from a file. Each connection reads it, so another program may renew it.
    OauthBearer {
        /// The file. White space around the token is no part of it.
        token_file: PathBuf,
    },
}

/// Hides the secrets.
impl fmt::Debug for Sasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, user) = match self {
            Self::Plain { user, .. } => ("Plain", user.as_str()),
            Self::ScramSha256 { user, .. } => ("ScramSha256", user.as_str()),
            Self::ScramSha512 { user, .. } => ("ScramSha512", user.as_str()),
            Self::OauthBearer { .. } => ("OauthBearer", ""),
        };
        f.debug_tuple(name).field(&user).field(&"***").finish()
    }
}

/// Compression of batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// Batches are not compressed.
    #[default]
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
}

impl Compression {
    /// All values, with their names in configuration.
    pub const ALL: [Self; 4] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4];

    /// Returns the name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
        }
    }
}

/// What a producer promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guarantee {
    /// Records become visible with their transaction. The id fences older producers.
    Transactions {
        /// The transactional id.
        id: String,
    },
    /// Each record becomes visible alone. The broker drops records that the client sent twice, as long as the
    /// client lives.
    Idempotent,
}

//! Options for the credentials that a route asks for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_auth::{JwtRules, KeySet, Passwords, Requirement, Tokens};

/// The credentials that a route asks for, and the callers that may use it.
#[derive(Debug, Clone)]
pub struct RouteAuth {
    /// The accepted credentials. Routes that name the same section share them.
    pub spec: Arc<AuthSpec>,
    /// The callers that may use the route.
    pub requirement: Requirement,
}

/// Credentials that prove who sent a request. Any of them suffices.
#[derive(Debug, Clone)]
pub struct AuthSpec {
    /// A name that is unique in the configuration. After a reload, the state of the same name is kept.
    pub id: String,
    /// Name of the section. `None` for credentials that one route defines.
    pub section: Option<String>,
    /// Names and passwords.
    pub basic: Option<LoadedFile<Passwords>>,
    /// Named tokens.
    pub bearer: Option<LoadedFile<Tokens>>,
    /// JSON Web Tokens.
    pub jwt: Option<JwtSpec>,
    /// The realm, which browsers show and clients use to choose credentials.
    pub realm: String,
    /// Limit on wrong credentials of one client. `None` means no limit.
    pub failures: Option<FailureLimit>,
    /// The header field in which a backend gets the name of the caller.
    pub name_header: Option<String>,
}

impl AuthSpec {
    /// Returns whether the challenge names tokens.
    pub(crate) fn takes_tokens(&self) -> bool {
        self.bearer.is_some() || self.jwt.is_some()
    }
}

/// A file, and its content when the configuration was read.
#[derive(Debug, Clone)]
pub struct LoadedFile<T> {
    /// Path of the file.
    pub file: PathBuf,
    /// The content, which many configurations may share.
    pub content: Arc<T>,
}

/// The accepted JSON Web Tokens.
#[derive(Debug, Clone)]
pub struct JwtSpec {
    /// Rules for claims.
    pub rules: JwtRules,
    /// The keys that verify signatures.
    pub keys: JwtKeys,
}

/// The source of the keys of tokens.
#[derive(Debug, Clone)]
pub enum JwtKeys {
    /// A file with public keys.
    File(LoadedFile<KeySet>),
    /// A shared secret, for HS256.
    Secret {
        /// The secret as the configuration names it: a variable or a file. It never contains the secret.
        written: String,
        /// The file of the secret, if it is in a file.
        file: Option<PathBuf>,
        /// The set with this secret.
        keys: Arc<KeySet>,
    },
    /// A backend that publishes the keys.
    Backend {
        /// Name of the backend.
        name: String,
        /// Path and query of the key set.
        path: String,
    },
}

/// Limit on wrong credentials of one client, which is an IPv4 address or an IPv6 network of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureLimit {
    /// Number of wrong credentials in each period.
    pub count: u32,
    /// Length of the period.
    pub period: Duration,
}

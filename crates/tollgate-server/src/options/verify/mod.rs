//! `verify` of a route: how requests prove that a partner sent them.

mod message;
mod preset;
mod scheme;

use std::fmt;
use std::path::PathBuf;

use tollgate_signature::PublicKey;

pub use message::{MessagePart, MessageTemplate};
pub use preset::PRESETS;
pub use scheme::{
    SecretForm, SignatureAlgorithm, SignatureEncoding, SignatureKind, SignaturePreset, SignatureScheme,
    SignatureSeparator,
};

/// The signature that requests of a route must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifySpec {
    /// The name of the preset, if the scheme began with one.
    pub preset: Option<&'static str>,
    /// How a request is signed.
    pub scheme: SignatureScheme,
    /// The keys. A signature by any of them is valid.
    pub keys: VerifyKeys,
    /// The keys as the configuration writes them. No secret is among them.
    pub written: Vec<String>,
    /// The files of the secrets. They are never served.
    pub secret_files: Vec<PathBuf>,
    /// The address under which clients reach the server, without a slash at the end. `None`: the scheme and
    /// the host of the request.
    pub public_url: Option<String>,
}

/// The keys of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyKeys {
    /// Secrets that the partner has too.
    Secrets(Vec<VerifySecret>),
    /// Public keys of the partner.
    Public(Vec<PublicKey>),
}

/// A secret that the partner has too. It is not in any output.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifySecret(pub Vec<u8>);

impl fmt::Debug for VerifySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

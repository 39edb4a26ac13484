//! JSON Web Tokens (RFC 7519) that are signed in the compact form of RFC 7515.
//!
//! The key decides the algorithm, so the header of a token cannot choose a weaker one (RFC 8725 section 3.1).
//! `kid` only picks a key of the configured set. A header never names a key or an address of a key.

mod claims;
mod fault;
mod header;
mod key_set;

pub use claims::JwtRules;
pub use fault::JwtFault;
pub use key_set::{KeySet, KeySetFault};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::identity::Identity;
use header::Header;

/// Verifies a token at a time, in seconds since 1970. Returns its caller.
///
/// # Errors
/// The first fault. Claims are read only after the signature matched.
pub fn verify_jwt(token: &str, keys: &KeySet, rules: &JwtRules, now_s: i64) -> Result<Identity, JwtFault> {
    let (signed, signature) = token.rsplit_once('.').ok_or(JwtFault::Malformed)?;
    let (header, payload) = signed.split_once('.').ok_or(JwtFault::Malformed)?;
    let header = Header::read(&object(header)?)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| JwtFault::Malformed)?;
    keys.verify(&header, signed.as_bytes(), &signature)?;
    rules.identity(object(payload)?, now_s)
}

/// Decodes a part of a token: base64url without padding, of a JSON object.
fn object(encoded: &str) -> Result<Map<String, Value>, JwtFault> {
    let text = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| JwtFault::Malformed)?;
    serde_json::from_slice(&text).map_err(|_| JwtFault::Malformed)
}

#[cfg(test)]
mod tests;

//! The header of a token (RFC 7515 section 4).

use serde_json::{Map, Value};

use super::fault::JwtFault;

/// The algorithms of signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JwsAlgorithm {
    Rs256,
    Ps256,
    Es256,
    EdDsa,
    Hs256,
}

impl JwsAlgorithm {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "PS256" => Some(Self::Ps256),
            "ES256" => Some(Self::Es256),
            // RFC 9864 gives the algorithm its own name.
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            "HS256" => Some(Self::Hs256),
            _ => None,
        }
    }
}

/// The members of a header that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) algorithm: JwsAlgorithm,
    pub(super) kid: Option<String>,
}

/// Members that name a key or its address, make the token encrypted or compressed, or must be understood.
///
/// RFC 7515 section 4.1.11: a token whose `crit` is not understood is refused. No member is understood here.
const REFUSED: [&str; 7] = ["crit", "jku", "x5u", "jwk", "b64", "enc", "zip"];

impl Header {
    pub(super) fn read(members: &Map<String, Value>) -> Result<Self, JwtFault> {
        if REFUSED.iter().any(|name| members.contains_key(*name)) {
            return Err(JwtFault::Header);
        }
        let is_type = |name: &str, allowed: &[&str]| match members.get(name) {
            None => true,
            Some(Value::String(found)) => {
                let found = found.strip_prefix("application/").unwrap_or(found);
                allowed.iter().any(|allowed| found.eq_ignore_ascii_case(allowed))
            }
            Some(_) => false,
        };
        // RFC 7519 section 5.2: `cty` marks a nested token. RFC 8725 section 3.11: another `typ` is a token
        // for another purpose.
        if members.contains_key("cty") || !is_type("typ", &["JWT", "at+jwt"]) {
            return Err(JwtFault::Header);
        }
        let algorithm = members.get("alg").and_then(Value::as_str).ok_or(JwtFault::Malformed)?;
        let kid = match members.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err(JwtFault::Header),
        };
        Ok(Self { algorithm: JwsAlgorithm::from_name(algorithm).ok_or(JwtFault::Algorithm)?, kid })
    }
}

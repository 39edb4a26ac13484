//! The claims of a token whose signature matched (RFC 7519 section 4.1).

use serde_json::{Map, Value};

use super::fault::JwtFault;
use crate::identity::{Identity, Scheme, is_name};

/// Rules for the claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtRules {
    /// The allowed values of `iss`.
    pub issuers: Vec<String>,
    /// The audiences. `aud` must have one of them.
    pub audiences: Vec<String>,
    /// Seconds by which the clocks of issuer and server may differ.
    pub leeway_s: u32,
    /// The claim with the name of the caller.
    pub name_claim: String,
}

impl JwtRules {
    /// Checks the claims, and returns the caller.
    pub(super) fn identity(&self, claims: Map<String, Value>, now_s: i64) -> Result<Identity, JwtFault> {
        let (now_s, leeway_s) = (now_s as f64, f64::from(self.leeway_s));
        let expires = time(&claims, "exp")?.ok_or(JwtFault::NoExpiry)?;
        if now_s - leeway_s >= expires {
            return Err(JwtFault::Expired);
        }
        if time(&claims, "nbf")?.is_some_and(|begins| now_s + leeway_s < begins) {
            return Err(JwtFault::NotYet);
        }
        let issuer = claims.get("iss").and_then(Value::as_str).ok_or(JwtFault::Issuer)?;
        if !self.issuers.iter().any(|allowed| allowed == issuer) {
            return Err(JwtFault::Issuer);
        }
        if !self.is_audience(claims.get("aud")) {
            return Err(JwtFault::Audience);
        }
        let name = claims.get(&self.name_claim).and_then(Value::as_str).filter(|name| is_name(name));
        let name = name.ok_or(JwtFault::Name)?.to_owned();
        Ok(Identity { scheme: Scheme::Jwt, name, claims: Some(claims) })
    }

    /// RFC 7519 section 4.1.3: `aud` is a text or a list of texts.
    fn is_audience(&self, found: Option<&Value>) -> bool {
        let is_ours = |value: &Value| self.audiences.iter().any(|audience| value == audience);
        match found {
            Some(Value::Array(all)) => all.iter().all(Value::is_string) && all.iter().any(is_ours),
            Some(value) => is_ours(value),
            None => false,
        }
    }
}

/// Returns a time in seconds since 1970. RFC 7519 section 2 allows fractions.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<f64>, JwtFault> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(number.as_f64().filter(|seconds| seconds.is_finite())),
        Some(_) => Err(if name == "exp" { JwtFault::NoExpiry } else { JwtFault::NotYet }),
    }
}

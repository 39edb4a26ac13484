//! Rules that lead clients to HTTPS.

use std::time::Duration;

/// Rules that lead clients to HTTPS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpsOptions {
    /// How long clients may remember a redirect.
    pub redirect: RedirectKind,
    /// The port that a redirect names.
    pub redirect_port: u16,
    /// The policy that replies over TLS announce.
    pub hsts: Option<Hsts>,
}

impl Default for HttpsOptions {
    fn default() -> Self {
        Self { redirect: RedirectKind::Permanent, redirect_port: 443, hsts: None }
    }
}

/// How long clients may remember a redirect. Each kind keeps the method and the content of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RedirectKind {
    /// Any time: 308 (RFC 9110 section 15.4.9).
    #[default]
    Permanent,
    /// Not at all: 307 (RFC 9110 section 15.4.8).
    Temporary,
}

/// A policy by which browsers use only HTTPS for a host (RFC 6797).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hsts {
    /// Time for which a browser remembers the policy, in whole seconds. Zero: the browser forgets the policy.
    pub max_age: Duration,
    /// Whether the policy covers the hosts below the host of the request.
    pub include_subdomains: bool,
    /// Whether browsers may ship the policy with their code.
    pub preload: bool,
}

impl Hsts {
    /// Returns the value of `Strict-Transport-Security` (RFC 6797 section 6.1).
    pub(crate) fn field_value(&self) -> String {
        let mut value = format!("max-age={}", self.max_age.as_secs());
        if self.include_subdomains {
            value.push_str("; includeSubDomains");
        }
        if self.preload {
            value.push_str("; preload");
        }
        value
    }
}

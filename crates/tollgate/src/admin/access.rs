//! Decides which clients the admin listener answers. The listener refuses pages of another origin in a
//! browser. If a token is configured, it also refuses clients without this token.
//!
//! A browser sends the host of the page's URL in `Host`. If this name is not configured here, an attacker may
//! have made it resolve to our address (DNS rebinding). A literal address needs no name, so it cannot be
//! rebound. A request from a page of another origin has an `Origin` field.

use std::net::IpAddr;

use subtle::ConstantTimeEq;
use tollgate_http::{RequestHead, StatusCode};

use crate::config::Admin;

pub(crate) struct Access {
    token: Option<String>,
    hosts: Vec<String>,
}

/// The reason why a client gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    Host,
    Origin,
    Token,
}

impl Denial {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::Token => StatusCode::UNAUTHORIZED,
        }
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Host => {
                "the host is not allowed: use an address or localhost, or add the name to hosts in [admin]"
            }
            Self::Origin => "requests from pages of other origins are refused",
            Self::Token => "the request needs Authorization: Bearer TOKEN",
        }
    }
}

impl Access {
    pub(super) fn new(config: &Admin) -> Self {
        let token = config.token.as_ref().map(|token| token.secret.clone());
        Self { token, hosts: config.hosts.clone() }
    }

    /// Admits clients with this token, and no name besides `localhost`.
    pub(crate) fn by_token(token: String) -> Self {
        Self { token: Some(token), hosts: Vec::new() }
    }

    /// Checks that the request does not come from a page of another origin.
    pub(crate) fn check_origin(&self, head: &RequestHead) -> Result<(), Denial> {
        // HTTP/1.0 may leave `Host` out. Browsers always send it.
        if head.host().is_some_and(|host| !self.is_own(name_of(host))) {
            return Err(Denial::Host);
        }
        let authority = head.host().unwrap_or_default();
        let is_foreign = |origin: &[u8]| {
            let origin = std::str::from_utf8(origin).unwrap_or_default();
            !origin.strip_prefix("http://").is_some_and(|origin| origin.eq_ignore_ascii_case(authority))
        };
        let mut fields = head.fields();
        let is_of_a_page = |(name, value): (&str, &[u8])| match name {
            _ if name.eq_ignore_ascii_case("origin") => is_foreign(value),
            _ if name.eq_ignore_ascii_case("sec-fetch-site") => value == b"cross-site",
            _ => false,
        };
        if fields.any(is_of_a_page) { Err(Denial::Origin) } else { Ok(()) }
    }

    /// Checks the token of the request, if a token is configured.
    pub(crate) fn check_token(&self, head: &RequestHead) -> Result<(), Denial> {
        let Some(token) = &self.token else { return Ok(()) };
        let given = head.field("authorization").and_then(bearer).unwrap_or_default();
        let is_same: bool = given.ct_eq(token.as_bytes()).into();
        if is_same { Ok(()) } else { Err(Denial::Token) }
    }

    fn is_own(&self, name: &str) -> bool {
        let is_address = |name: &str| name.parse::<IpAddr>().is_ok();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        is_address(bare)
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }
}

/// Returns the host without the port.
fn name_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !is_bare_v6(name) => name,
        _ => authority,
    }
}

/// Returns whether the last colon of a host was inside of brackets, where `name` is the part before it. Such
/// a colon does not separate a port.
fn is_bare_v6(name: &str) -> bool {
    name.starts_with('[') && !name.ends_with(']')
}

/// Returns the token of a Bearer field (RFC 6750 section 2.1). The scheme is matched without case (RFC 9110
/// section 11.1).
fn bearer(field: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = field.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_its_name_and_a_port() {
        let check = |authority, name| assert_eq!(name_of(authority), name, "{authority}");
        check("localhost", "localhost");
        check("localhost:9080", "localhost");
        check("127.0.0.1:9080", "127.0.0.1");
        check("[::1]", "[::1]");
        check("[::1]:9080", "[::1]");
        check("a:b", "a:b");
    }

    #[test]
    fn an_address_and_localhost_are_own_names_and_others_if_they_are_listed() {
        let access = Access { token: None, hosts: vec!["admin.internal".to_owned()] };
        for own in ["127.0.0.1", "[::1]", "10.1.2.3", "LocalHost", "Admin.Internal"] {
            assert!(access.is_own(own), "{own}");
        }
        for foreign in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[x]"] {
            assert!(!access.is_own(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_token_is_behind_its_scheme() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"Basic abcd"), None);
        assert_eq!(bearer(b"Bearer"), None);
    }
}

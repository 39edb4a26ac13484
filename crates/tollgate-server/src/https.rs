//! Leads clients to HTTPS by redirects and by `Strict-Transport-Security` (RFC 6797).

use bytes::Bytes;
use tollgate_http::{RequestHead, StatusCode, Target, split_authority, write_target};

use crate::options::{HttpsOptions, RedirectKind};
use crate::reply::{Reply, STRICT_TRANSPORT_SECURITY};

/// Path of the tokens by which a host proves its name to an authority. The authority asks without TLS (RFC
/// 8555 section 8.3).
pub(crate) const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// Returns whether a path as sent is the path of a token. A token has only the characters of base64url (RFC
/// 8555 section 8.3), so the path has no other spelling.
pub(crate) fn is_challenge(path: &[u8]) -> bool {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    path.strip_prefix(CHALLENGES.as_bytes()).is_some_and(|token| token.iter().all(is_of_token))
}
const HTTPS_PORT: u16 = 443;

/// Rules that lead clients to HTTPS.
pub(crate) struct HttpsRules {
    status: StatusCode,
    port: u16,
    /// The value of `Strict-Transport-Security`, and its encoded field line.
    hsts: Option<Policy>,
}

struct Policy {
    value: Bytes,
    line: Bytes,
}

impl HttpsRules {
    pub(crate) fn new(options: &HttpsOptions) -> Self {
        let status = match options.redirect {
            RedirectKind::Permanent => StatusCode::PERMANENT_REDIRECT,
            RedirectKind::Temporary => StatusCode::TEMPORARY_REDIRECT,
        };
        let policy = |value: String| Policy {
            line: format!("{STRICT_TRANSPORT_SECURITY}: {value}\r\n").into(),
            value: value.into(),
        };
        let hsts = options.hsts.as_ref().map(|hsts| policy(hsts.field_value()));
        Self { status, port: options.redirect_port, hsts }
    }

    /// Returns whether replies over TLS announce a policy.
    #[inline]
    pub(crate) fn has_policy(&self) -> bool {
        self.hsts.is_some()
    }

    /// Returns the encoded field line of the policy. The line is empty if there is no policy.
    pub(crate) fn policy_line(&self) -> &[u8] {
        self.hsts.as_ref().map_or(&[], |policy| &policy.line)
    }

    /// Returns the value of the policy.
    pub(crate) fn policy_value(&self) -> Option<&Bytes> {
        self.hsts.as_ref().map(|policy| &policy.value)
    }

    /// Returns the redirect to the same resource over TLS. Returns `None` for `*`, which is no resource, and
    /// for tokens of ACME.
    pub(crate) fn redirect(&self, head: &RequestHead) -> Option<Reply> {
        let Target::Origin { path, query } = head.target() else { return None };
        if is_challenge(path.as_bytes()) {
            return None;
        }
        let Some((host, _)) = head.host().and_then(|host| split_authority(host.as_bytes())) else {
            return Some(Reply::text(StatusCode::BAD_REQUEST, "this server needs HTTPS, and a Host for it"));
        };
        let mut location = [b"https://", host].concat();
        if self.port != HTTPS_PORT {
            location.extend_from_slice(format!(":{}", self.port).as_bytes());
        }
        write_target(&mut location, path);
        if let Some(query) = query {
            location.push(b'?');
            write_target(&mut location, query);
        }
        Some(Reply::text(self.status, "this server needs HTTPS").with("Location", location))
    }
}

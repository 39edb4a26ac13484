//! The refusals of the stage `auth`, and their replies.

use tollgate_auth::{CredentialsFault, JwtFault, basic_challenge, bearer_challenge};
use tollgate_http::StatusCode;

use crate::observe::{Refusal, RequestFault};
use crate::options::AuthSpec;
use crate::reply::Reply;

/// Reason why a request has no access to its route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The field `Authorization` is missing or malformed.
    Unusable(CredentialsFault),
    /// The name, password or token is wrong. The text is for the debug line and the client.
    Wrong(&'static str),
    /// The JSON Web Token is not valid.
    Jwt(JwtFault),
    /// The caller is known, and the route does not allow it.
    Forbidden,
    /// The client has sent too many wrong credentials. It may try again after `wait_s` seconds.
    TooMany { wait_s: u64 },
    /// Too many passwords wait to be checked.
    Busy,
    /// No key of tokens is there yet.
    NoKeys,
}

/// The counter of a refusal.
pub(crate) enum Counted {
    /// The client is at fault.
    Fault(RequestFault),
    /// The server refuses the request for a time.
    Refusal(Refusal),
}

impl Denied {
    pub(crate) fn counted(&self) -> Counted {
        match self {
            Self::Unusable(_) | Self::Wrong(_) | Self::Jwt(_) => Counted::Fault(RequestFault::Credentials),
            Self::Forbidden => Counted::Fault(RequestFault::Forbidden),
            Self::TooMany { .. } => Counted::Refusal(Refusal::FailedLogins),
            Self::Busy => Counted::Refusal(Refusal::PasswordQueue),
            Self::NoKeys => Counted::Refusal(Refusal::TokenKeys),
        }
    }

    /// Returns whether the credentials may be a guess, which counts against the limit of the client.
    pub(super) fn is_guess(&self) -> bool {
        match self {
            Self::Wrong(_) => true,
            Self::Jwt(fault) => fault.is_guess(),
            _ => false,
        }
    }

    /// Returns the reason as text. It never contains a part of the credentials.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Unusable(fault) => fault.to_string(),
            Self::Wrong(text) => (*text).to_owned(),
            Self::Jwt(fault) => fault.to_string(),
            Self::Forbidden => "the caller may not use this route".to_owned(),
            Self::TooMany { wait_s } => format!("too many wrong credentials of this client: wait {wait_s} s"),
            Self::Busy => "too many passwords wait to be checked".to_owned(),
            Self::NoKeys => "no key of tokens is there yet".to_owned(),
        }
    }

    /// Creates the reply. The reply names each scheme that the route accepts (RFC 9110 section 11.6.1).
    pub(crate) fn reply(&self, spec: &AuthSpec) -> Reply {
        match self {
            Self::Unusable(CredentialsFault::Missing) => {
                challenged(StatusCode::UNAUTHORIZED, "this path needs credentials", spec, None)
            }
            Self::Unusable(CredentialsFault::Scheme) => challenged(
                StatusCode::UNAUTHORIZED,
                "this path needs credentials of another scheme",
                spec,
                None,
            ),
            Self::Unusable(_) | Self::Wrong(_) | Self::Jwt(_) => {
                let text = self.text();
                challenged(
                    StatusCode::UNAUTHORIZED,
                    "the credentials are not valid",
                    spec,
                    Some(("invalid_token", &text)),
                )
            }
            // RFC 6750 section 3.1: a valid token without the needed rights.
            Self::Forbidden => {
                let text = self.text();
                let error = Some(("insufficient_scope", text.as_str()));
                let mut reply = Reply::text(StatusCode::FORBIDDEN, "the caller may not use this path");
                push_bearer(&mut reply, spec, error);
                reply
            }
            Self::TooMany { wait_s } => {
                let text = "too many wrong credentials of this client: nothing was recorded";
                let reply =
                    Reply::text(StatusCode::TOO_MANY_REQUESTS, text).with("Tollgate-Outcome", "refused");
                reply.with("Retry-After", wait_s.to_string())
            }
            Self::Busy => {
                let text = "too many passwords wait to be checked: nothing was recorded";
                Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text)
            }
            Self::NoKeys => {
                let text = "the keys of tokens are not there yet: nothing was recorded";
                Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text)
            }
        }
    }
}

fn challenged(status: StatusCode, text: &str, spec: &AuthSpec, error: Option<(&str, &str)>) -> Reply {
    let mut reply = Reply::text(status, text);
    push_bearer(&mut reply, spec, error);
    if spec.basic.is_some() {
        reply.push("WWW-Authenticate", basic_challenge(&spec.realm));
    }
    reply
}

fn push_bearer(reply: &mut Reply, spec: &AuthSpec, error: Option<(&str, &str)>) {
    if spec.takes_tokens() {
        reply.push("WWW-Authenticate", bearer_challenge(&spec.realm, error));
    }
}

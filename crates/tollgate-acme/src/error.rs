//! Errors of ACME, by the part that is at fault.

use std::io;
use std::path::{Path, PathBuf};

use instant_acme::{Error, Problem};

use crate::http::HttpError;

/// The problem type of a nonce that the server does not accept (RFC 8555 section 6.5).
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";
/// The problem type of an account that the server does not know.
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
/// The problem types of a request that the server cannot use (RFC 8555 section 6.7).
const MALFORMED: &str = "urn:ietf:params:acme:error:malformed";
const UNAUTHORIZED: &str = "urn:ietf:params:acme:error:unauthorized";
/// The problem type of a certificate that another order has replaced (RFC 9773 section 7.4).
const ALREADY_REPLACED: &str = "urn:ietf:params:acme:error:alreadyReplaced";
/// The beginning of all problem types of ACME.
const TYPES: &str = "urn:ietf:params:acme:error:";

/// Reason why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AcmeError {
    /// A file of the folder cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Folder {
        /// The file.
        path: PathBuf,
        /// The reason of the system.
        source: io::Error,
    },
    /// The ACME server cannot be reached, or its answer is no valid answer.
    #[error("{0}")]
    Unreachable(String),
    /// The ACME server refuses a request or the order.
    #[error("the ACME server refuses: {0}")]
    Refused(String),
    /// The ACME server does not know the account.
    #[error("the ACME server does not know the account")]
    NoAccount,
    /// The options do not fit the ACME server.
    #[error("{0}")]
    Options(String),
    /// The hook for the DNS provider failed.
    #[error("the hook dns in [acme]: {0}")]
    Hook(String),
    /// The server issued a certificate that cannot be used.
    #[error("the new certificate cannot be used: {0}")]
    Certificate(String),
}

impl AcmeError {
    pub(crate) fn folder(path: &Path, source: io::Error) -> Self {
        Self::Folder { path: path.to_owned(), source }
    }
}

impl From<Error> for AcmeError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) if is_type(&problem, NO_ACCOUNT) => Self::NoAccount,
            Error::Api(problem) => Self::Refused(reason(&problem)),
            Error::Unsupported(feature) => {
                Self::Options(format!("the ACME server does not support {feature}"))
            }
            Error::Timeout(_) => Self::Unreachable("the ACME server needs longer than a minute".to_owned()),
            other => Self::Unreachable(other.to_string()),
        }
    }
}

impl From<HttpError> for AcmeError {
    fn from(error: HttpError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

/// Returns whether the server refused only the nonce. The request can be repeated with another nonce.
pub(crate) fn is_bad_nonce(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if is_type(problem, BAD_NONCE))
}

/// Returns whether the server has no such order for this account. Other problems, such as a rate limit, say
/// nothing about the order.
pub(crate) fn is_no_order(error: &Error) -> bool {
    let Error::Api(problem) = error else { return false };
    problem.status == Some(404) || [MALFORMED, UNAUTHORIZED].iter().any(|kind| is_type(problem, kind))
}

/// Returns whether the server refuses only to replace a certificate (RFC 9773 section 5). It has no renewal
/// information, or the certificate is of another server, or it is replaced already.
pub(crate) fn is_no_replacement(error: &Error) -> bool {
    match error {
        Error::Unsupported(_) => true,
        Error::Api(problem) => {
            problem.status == Some(409)
                || [MALFORMED, ALREADY_REPLACED].iter().any(|kind| is_type(problem, kind))
        }
        // The crate has no type of its own for an answer that does not repeat the replaced certificate.
        error => error.to_string().contains("replaces field mismatch"),
    }
}

/// Returns whether the text is the type of a problem with a nonce.
pub(crate) fn is_bad_nonce_type(text: &str) -> bool {
    text == BAD_NONCE
}

fn is_type(problem: &Problem, text: &str) -> bool {
    problem.r#type.as_deref() == Some(text)
}

/// Returns the reason of a problem in one line: its text, and the last word of its type.
pub(crate) fn reason(problem: &Problem) -> String {
    let mut text = problem.detail.clone().unwrap_or_else(|| "no reason given".to_owned());
    for part in &problem.subproblems {
        text.push_str(&format!("; {part}"));
    }
    if let Some(kind) = &problem.r#type {
        text.push_str(&format!(" ({})", kind.strip_prefix(TYPES).unwrap_or(kind)));
    }
    text.replace(|c: char| c.is_control(), " ")
}

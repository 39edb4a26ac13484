//! Errors of calls over HTTP, by what the caller may do after them.

use object_store::client::{HttpError, HttpErrorKind};

/// Returns the error of a call without progress.
pub(super) fn stalled(part: &'static str) -> HttpError {
    let reason = std::io::Error::new(std::io::ErrorKind::TimedOut, format!("{part} timed out"));
    HttpError::new(HttpErrorKind::Timeout, reason)
}

/// Returns the error of a connection that ended in the middle of a call.
pub(super) fn broken(error: hyper::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_parse() || error.is_user() {
        HttpErrorKind::Unknown
    } else {
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error)
}

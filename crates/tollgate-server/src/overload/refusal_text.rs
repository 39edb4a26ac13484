//! Texts for clients whose request or connection is refused.

use tollgate_log::AppendError;

pub(crate) const BEHIND: &str = "the server is overloaded: nothing was recorded";
pub(crate) const CONNECTIONS: &str = "too many connections: nothing was recorded";
pub(crate) const CLIENT_CONNECTIONS: &str = "too many connections of this client: nothing was recorded";
pub(crate) const MEMORY: &str = "the server has too little memory for this request: nothing was recorded";
pub(crate) const SCRIPT_MEMORY: &str = "the scripts hold too much memory: nothing was recorded";
pub(crate) const SCRIPT_QUEUE: &str = "too many scripts wait: nothing was recorded";

/// Returns the text for a request whose records the log refuses.
pub(crate) fn of_log(error: &AppendError) -> &'static str {
    match error {
        AppendError::Busy { .. } | AppendError::Slow { .. } => "the disk is too slow: nothing was recorded",
        AppendError::NoRoom => "the disk is nearly full: nothing was recorded",
        AppendError::Gone => "the disk of the log is away: nothing was recorded",
        AppendError::Stopped(_) => "the log stopped: nothing was recorded",
        AppendError::TooLarge { .. } => "the records are too large: nothing was recorded",
    }
}

//! The events that a check of credentials waits for.

use tokio::sync::{oneshot, watch};

/// The event that a check waits for.
pub(super) enum Wait {
    /// A thread checks the password.
    Password { name: String, password: String, answer: oneshot::Receiver<bool> },
    /// New keys are fetched, because the key of the token is unknown.
    Keys {
        token: String,
        /// Time when the request arrived, in microseconds since 1970.
        wall_us: i64,
        fetched: watch::Receiver<u64>,
    },
}

//! Why a server does not start. The operator's to mend.

use std::io;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Somebody else listens there, or nobody may.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// What systemd handed in is not what is listened on.
    #[error("{0}")]
    Inherited(String),
    /// No thread or runtime could be started.
    #[error("cannot start a worker")]
    Worker(#[source] io::Error),
    /// A script was not taken, or the script host could not be made.
    #[error("{0}")]
    Script(String),
    /// The system has no randomness.
    #[error("no randomness for request ids")]
    Randomness(#[source] getrandom::Error),
}

//! Why a server does not start. The operator's to mend.

use std::io;
use std::net::SocketAddr;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Somebody else listens there.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
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

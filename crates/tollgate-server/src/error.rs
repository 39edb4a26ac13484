//! Why a server does not start, or does not reload. The operator's to mend.

use std::io;

use tollgate_log::{SchemaError, TooManySchemas};

/// Why a server does not start, or does not serve by another configuration.
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
    /// The log does not take a stream.
    #[error("stream {name:?} cannot be recorded")]
    Stream {
        /// Its name.
        name: String,
        /// Why.
        source: SchemaError,
    },
    /// The log has no number left for what a stream is now.
    #[error("this log cannot take further streams or changes of them: restart")]
    Schemas(#[source] TooManySchemas),
    /// Workers loaded different texts, also when they loaded again.
    #[error("a script changed each time that the workers loaded it: try again when no file changes")]
    Changed,
    /// A worker drains, or takes longer than it may.
    #[error("a worker does not answer")]
    Unanswered,
    /// The system has no randomness.
    #[error("no randomness for request ids")]
    Randomness(#[source] getrandom::Error),
}

//! Reasons why a server does not start or reload. The operator has to act.

use std::io;

use tollgate_log::{SchemaError, TooManySchemas};

/// Why a server does not start, or does not accept a new configuration.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another process listens at this address, or the process lacks permission.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address to listen on.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The sockets from systemd do not match the configured addresses.
    #[error("{0}")]
    Inherited(String),
    /// No thread or runtime could be started.
    #[error("cannot start a worker")]
    Worker(#[source] io::Error),
    /// A script was not accepted, or the `Host` could not be made.
    #[error("{0}")]
    Script(String),
    /// The log does not accept a stream.
    #[error("stream {name:?} cannot be recorded")]
    Stream {
        /// The name of the stream.
        name: String,
        /// Why the log does not accept the stream.
        source: SchemaError,
    },
    /// The log has no schema number left for the new columns of a stream.
    #[error("this log cannot record more streams or changes of streams: restart the server")]
    Schemas(#[source] TooManySchemas),
    /// The workers loaded different texts of a script, even in repeated loads.
    #[error("a script changed each time that the workers loaded it: try again when no file changes")]
    Changed,
    /// A worker drains, or does not answer in time.
    #[error("a worker did not answer in time: try again, or restart the server if it repeats")]
    Unanswered,
    /// The system returns no random bytes.
    #[error("cannot get random bytes for request ids")]
    Randomness(#[source] getrandom::Error),
}

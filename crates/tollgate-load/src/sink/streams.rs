//! The streams whose records a sink takes.

use std::collections::BTreeSet;

/// The stream of records whose stream is not known. No stream has this name in parentheses of its own.
pub const STREAM_UNKNOWN: &str = "(unknown)";

/// The streams that a sink takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Taken {
    /// All of them, also those that are declared later.
    #[default]
    All,
    /// Those of these names.
    Only(BTreeSet<String>),
}

impl Taken {
    /// Whether records of a stream go to the sink. Those that nobody knows the stream of go to every sink.
    pub fn takes(&self, stream: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(streams) => streams.contains(stream) || stream == STREAM_UNKNOWN,
        }
    }
}

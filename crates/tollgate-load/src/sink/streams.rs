//! The streams whose records a sink takes.

use std::collections::BTreeSet;

/// Name that stands for the stream of records whose stream is unknown. No real stream has a name in
/// parentheses.
pub const STREAM_UNKNOWN: &str = "(unknown)";

/// The streams that a sink takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Taken {
    /// All streams, including streams that are declared later.
    #[default]
    All,
    /// The streams with these names.
    Only(BTreeSet<String>),
}

impl Taken {
    /// Returns whether the sink takes records of a stream. Every sink takes records whose stream is unknown.
    pub fn takes(&self, stream: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(streams) => streams.contains(stream) || stream == STREAM_UNKNOWN,
        }
    }
}

//! The ack level that records have to reach before replies are sent.

use std::time::Duration;

use tollgate_log::{Level, SinkPlace};

/// The ack level that the records of a transaction have to reach before its reply is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// A level of the log.
    Log(Level),
    /// A loader of this process has committed the records in a database.
    Loaded {
        /// The sink of the database.
        sink: SinkPlace,
        /// Maximum time that a reply waits for the sink.
        timeout: Duration,
    },
}

impl Ack {
    /// The name of [`Self::Loaded`] in a configuration.
    pub const LOADED: &'static str = "loaded";
    /// Default time that a reply waits for a database.
    pub const TIMEOUT: Duration = Duration::from_secs(10);

    /// Returns the index of the sink that a reply waits for, if any.
    pub(crate) fn sink(self) -> Option<usize> {
        match self {
            Self::Log(_) => None,
            Self::Loaded { sink, .. } => Some(sink.0),
        }
    }

    /// Returns the level for a transaction with records of both streams. Records that a database has
    /// committed are also on disk. If both levels name a database, the first one counts.
    pub(crate) fn strictest(self, other: Self) -> Self {
        match (self, other) {
            (Self::Log(own), Self::Log(other)) => Self::Log(own.max(other)),
            (Self::Loaded { sink, timeout }, Self::Loaded { timeout: other, .. }) => {
                Self::Loaded { sink, timeout: timeout.max(other) }
            }
            (loaded @ Self::Loaded { .. }, Self::Log(_)) | (Self::Log(_), loaded) => loaded,
        }
    }

    /// Returns the name in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log(level) => level.name(),
            Self::Loaded { .. } => Self::LOADED,
        }
    }
}

impl From<Level> for Ack {
    fn from(level: Level) -> Self {
        Self::Log(level)
    }
}

//! How far records have to be before replies leave.

use std::time::Duration;

use tollgate_log::{Level, SinkPlace};

/// How far the records of a transaction have to be before its reply leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// So far in the log.
    Log(Level),
    /// Committed in a database by a loader of this process.
    Loaded {
        /// Which.
        sink: SinkPlace,
        /// How long a reply waits for that.
        timeout: Duration,
    },
}

impl Ack {
    /// The name of [`Self::Loaded`] in configuration.
    pub const LOADED: &'static str = "loaded";
    /// How long a reply waits for a database where nothing else is said.
    pub const TIMEOUT: Duration = Duration::from_secs(10);

    /// The place of the database that is waited for, if one is.
    pub(crate) fn sink(self) -> Option<usize> {
        match self {
            Self::Log(_) => None,
            Self::Loaded { sink, .. } => Some(sink.0),
        }
    }

    /// What records of both wait for together. What a database has is on the disk; of two databases the first
    /// counts.
    pub(crate) fn strictest(self, other: Self) -> Self {
        match (self, other) {
            (Self::Log(own), Self::Log(other)) => Self::Log(own.max(other)),
            (Self::Loaded { sink, timeout }, Self::Loaded { timeout: other, .. }) => {
                Self::Loaded { sink, timeout: timeout.max(other) }
            }
            (loaded @ Self::Loaded { .. }, Self::Log(_)) | (Self::Log(_), loaded) => loaded,
        }
    }

    /// The name in configuration.
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

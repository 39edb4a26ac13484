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

//! The state of a ship target, for reports and metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_log::{LogId, Sequence};

/// What a ship target does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShipState {
    /// It sends segments, or looks which ones the store has.
    #[default]
    Shipping,
    /// The store has every sealed segment, except segments of faulty logs.
    CaughtUp,
    /// The store did not do what was asked. The target waits and tries again.
    Retrying,
    /// The target has ended.
    Ended,
}

impl ShipState {
    /// Returns the name in JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shipping => "shipping",
            Self::CaughtUp => "caught_up",
            Self::Retrying => "retrying",
            Self::Ended => "ended",
        }
    }
}

/// Why a segment of a log stays on this machine. All other logs are shipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFault {
    /// The store has another segment of the same name: two machines write one log.
    Forked {
        /// First record of the segment.
        first: Sequence,
        /// Identity of the segment in the store.
        found: String,
    },
    /// The segment is larger than an object of this store may be.
    TooLarge {
        /// First record of the segment.
        first: Sequence,
        /// Its size in bytes.
        bytes: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The file has no valid footer.
    Unsound {
        /// First record of the segment.
        first: Sequence,
    },
}

/// State of a ship target. Its counts begin with the process.
#[derive(Debug, Clone, Default)]
pub struct ShipStatus {
    /// What it does.
    pub state: ShipState,
    /// The last error of the store, until it works again.
    pub last_error: Option<String>,
    /// Wait before the next try.
    pub backoff: Duration,
    /// Segments that this process stored.
    pub segments: u64,
    /// Bytes of these segments.
    pub bytes: u64,
    /// Segments that the store already had.
    pub present_segments: u64,
    /// Segments that were stored again because a loader asked for them.
    pub wanted_segments: u64,
    /// Segments that a loader asked for and that this machine has no more.
    pub gone_segments: u64,
    /// Sealed segments that the store lacks.
    pub unshipped_segments: u64,
    /// Bytes of these segments.
    pub unshipped_bytes: u64,
    /// Since when some sealed segment is not shipped. `None`: all are.
    pub behind_since: Option<Instant>,
    /// Logs with a segment that cannot be shipped.
    pub faults: BTreeMap<LogId, LogFault>,
    /// Another machine that uses the name of this one, by the log that it writes.
    pub namesake: Option<LogId>,
    /// How far the store has each log.
    pub shipped: BTreeMap<LogId, Sequence>,
    /// How far the sinks have each log, as loaders answered.
    pub loaded: BTreeMap<LogId, Sequence>,
}

/// Reads the state of a ship target. It never waits for the store.
#[derive(Debug, Clone, Default)]
pub struct ShipWatch {
    pub(crate) name: Arc<str>,
    pub(crate) status: Arc<Mutex<ShipStatus>>,
}

impl ShipWatch {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), status: Arc::default() }
    }

    /// Returns the name of the target.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the state.
    pub fn status(&self) -> ShipStatus {
        self.lock().clone()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ShipStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

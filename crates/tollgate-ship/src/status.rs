//! The state of a ship target, for reports and metrics. A ship target is a store to which a thread sends
//! sealed segments.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_log::{LogId, Sequence};

/// Activity of a ship target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShipState {
    /// The target sends segments, or checks which ones the store has.
    #[default]
    Shipping,
    /// The store has every sealed segment, except segments of faulty logs.
    CaughtUp,
    /// A call on the store failed. The target waits and tries again.
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
    /// The store has a different segment with the same name, because two machines write one log.
    Forked {
        /// First record of the segment.
        first: Sequence,
        /// Identity of the segment in the store.
        found: String,
    },
    /// The segment is larger than the largest object that the store accepts.
    TooLarge {
        /// First record of the segment.
        first: Sequence,
        /// Size of the segment in bytes.
        bytes: u64,
        /// Maximum size of an object, in bytes.
        limit: u64,
    },
    /// The file of the segment has no valid footer.
    Unsound {
        /// First record of the segment.
        first: Sequence,
    },
}

/// State of a ship target. All counts begin with the process.
#[derive(Debug, Clone, Default)]
pub struct ShipStatus {
    /// Activity of the target.
    pub state: ShipState,
    /// The last error of the store. The error is removed when the store works again.
    pub last_error: Option<String>,
    /// Since when the store fails. `None`: the last call worked.
    pub failing_since: Option<Instant>,
    /// Calls of the store that failed.
    pub errors: u64,
    /// Wait before the next try.
    pub backoff: Duration,
    /// Time when the thread last began a pass, or ended the call for a segment. It ages while a call hangs.
    pub active_at: Option<Instant>,
    /// Number of segments that this process stored.
    pub segments: u64,
    /// Bytes of these segments.
    pub bytes: u64,
    /// Number of segments that the store already had.
    pub present_segments: u64,
    /// Number of segments that were stored again because a loader asked for them.
    pub wanted_segments: u64,
    /// Number of segments that a loader asked for, but that are deleted on this machine.
    pub gone_segments: u64,
    /// Number of sealed segments that the store lacks.
    pub unshipped_segments: u64,
    /// Bytes of these segments.
    pub unshipped_bytes: u64,
    /// Time since which at least one sealed segment is not shipped. `None`: the last pass shipped all
    /// segments.
    pub behind_since: Option<Instant>,
    /// Logs with a segment that cannot be shipped.
    pub faults: BTreeMap<LogId, LogFault>,
    /// Log of another machine that uses the name of this machine. `None` if there is no such machine.
    pub namesake: Option<LogId>,
    /// Last record of each log up to which the store has all segments.
    pub shipped: BTreeMap<LogId, Sequence>,
    /// Last record of each log that all sinks of the target have loaded, as loaders answered.
    pub loaded: BTreeMap<LogId, Sequence>,
}

/// Reads the state of a ship target. A read never waits for the store.
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

    /// Returns the state of the target.
    pub fn status(&self) -> ShipStatus {
        self.lock().clone()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ShipStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

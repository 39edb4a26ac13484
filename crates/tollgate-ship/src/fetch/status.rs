//! The state of a fetcher, for status and metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tollgate_log::{LogId, Sequence};

use crate::answer::NodeAnswer;
use crate::name::NodeName;

/// Activity of a fetcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FetchState {
    /// The fetcher searches for segments, or copies them.
    #[default]
    Fetching,
    /// The last pass found no new segment.
    CaughtUp,
    /// The folder is full. The fetcher waits until the sinks have loaded segments.
    Full,
    /// The store or a database did not answer. The fetcher waits and tries again.
    Retrying,
    /// The fetcher has ended.
    Ended,
}

/// Why the next segment of a log is not fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchFault {
    /// The segment is missing, and later records exist.
    Missing {
        /// The first missing record.
        first: Sequence,
        /// Whether the machine that wrote the segment has deleted it.
        is_gone: bool,
    },
    /// The object is not a valid segment, or its content does not match its name.
    Damaged {
        /// First record of the segment.
        first: Sequence,
        /// Kind of the damage.
        reason: String,
    },
}

impl fmt::Display for FetchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Missing { first, .. } | Self::Damaged { first, .. }) = self;
        write!(f, "the segment that begins with record {first} is ")?;
        match self {
            Self::Missing { is_gone: false, .. } => f.write_str("missing in the store"),
            Self::Missing { is_gone: true, .. } => f.write_str("missing, and its machine deleted it"),
            Self::Damaged { reason, .. } => write!(f, "damaged in the store: {reason}"),
        }
    }
}

/// Progress of one fetched log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFetch {
    /// The machine that wrote the log.
    pub node: NodeName,
    /// The last record that every sink has loaded.
    pub loaded: Sequence,
    /// The last record of the segments on this machine, and at least `loaded`. Earlier segments may be
    /// missing.
    pub fetched: Sequence,
    /// The last record of the log, if the log has ended.
    pub end: Option<Sequence>,
    /// Why the next segment is not fetched. `None`: no fault.
    pub fault: Option<FetchFault>,
    /// Whether this fetcher fetches the log. If not, another one does, or none at present.
    pub is_fetched_here: bool,
    /// Time since which the store has had records that a sink lacks, as far as the fetcher knows. `None`: all
    /// records are loaded.
    pub behind_since: Option<Instant>,
}

/// The last report of a machine, as a fetcher read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeFetch {
    /// The report of the machine.
    pub answer: NodeAnswer,
    /// Whether the machine has not reported for more than three intervals.
    pub is_silent: bool,
}

/// State of a fetcher. All counts begin with the process.
#[derive(Debug, Clone, Default)]
pub struct FetchStatus {
    /// Activity of the fetcher.
    pub state: FetchState,
    /// The last error. The error is removed when a pass works again.
    pub last_error: Option<String>,
    /// Time since which no pass has worked. `None`: the last pass worked.
    pub failing_since: Option<Instant>,
    /// Number of passes that failed.
    pub errors: u64,
    /// Number of fetched segments.
    pub segments: u64,
    /// Bytes of these segments.
    pub bytes: u64,
    /// Number of segments that this fetcher deleted from the store.
    pub deleted_segments: u64,
    /// Bytes of fetched segments that are not loaded yet.
    pub spool_bytes: u64,
    /// Maximum of these bytes.
    pub spool_bytes_max: u64,
    /// All logs that the fetcher has found in the store.
    pub logs: BTreeMap<LogId, LogFetch>,
    /// All machines that reported to the store.
    pub nodes: BTreeMap<NodeName, NodeFetch>,
}

impl FetchStatus {
    /// Returns whether every record in the store is loaded, as far as the last pass found segments.
    pub fn is_all_loaded(&self) -> bool {
        self.state == FetchState::CaughtUp && self.logs.values().all(|log| log.behind_since.is_none())
    }
}

/// Reads the state of a fetcher. A read never waits for the store.
#[derive(Debug, Clone, Default)]
pub struct FetchWatch(Arc<Mutex<FetchStatus>>);

impl FetchWatch {
    /// Returns the state of the fetcher.
    pub fn status(&self) -> FetchStatus {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FetchStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The state of a fetcher, for reports and metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_log::{LogId, Sequence};

use crate::answer::NodeAnswer;
use crate::name::NodeName;

/// What a fetcher does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FetchState {
    /// It looks for segments, or copies them.
    #[default]
    Fetching,
    /// The last look found nothing new.
    CaughtUp,
    /// The folder is full. It waits for the sinks.
    Full,
    /// The store or a database did not answer. It waits and tries again.
    Retrying,
    /// It has ended.
    Ended,
}

/// Why the next segment of a log is not fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchFault {
    /// The segment is missing, and later records exist.
    Missing {
        /// The first missing record.
        first: Sequence,
        /// Whether the machine that wrote it has it no more.
        is_gone: bool,
    },
    /// The object is not a sound segment of its name.
    Damaged {
        /// First record of the segment.
        first: Sequence,
        /// Kind of the damage.
        reason: String,
    },
}

/// How far one log is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFetch {
    /// The machine that wrote the log.
    pub node: NodeName,
    /// The last record that every sink has.
    pub loaded: Sequence,
    /// The last record that was fetched without a hole before it.
    pub fetched: Sequence,
    /// The last record of the log, if it is over.
    pub end: Option<Sequence>,
    /// Why its next segment is not fetched.
    pub fault: Option<FetchFault>,
}

/// What a machine last said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeFetch {
    /// The report.
    pub answer: NodeAnswer,
    /// Whether it has not reported for several intervals.
    pub is_silent: bool,
}

/// State of a fetcher. Its counts begin with the process.
#[derive(Debug, Clone, Default)]
pub struct FetchStatus {
    /// What it does.
    pub state: FetchState,
    /// The last error, until a look works again.
    pub last_error: Option<String>,
    /// Segments that were fetched.
    pub segments: u64,
    /// Bytes of these segments.
    pub bytes: u64,
    /// Segments that were deleted from the store.
    pub deleted_segments: u64,
    /// Bytes of fetched segments that are not loaded yet.
    pub spool_bytes: u64,
    /// All logs in the store.
    pub logs: BTreeMap<LogId, LogFetch>,
    /// All machines that reported to the store.
    pub nodes: BTreeMap<NodeName, NodeFetch>,
}

impl FetchStatus {
    /// Returns whether each record in the store is loaded, as far as the store shows it.
    pub fn is_all_loaded(&self) -> bool {
        let is_loaded = |log: &LogFetch| log.loaded >= log.fetched && log.fault.is_none();
        self.state == FetchState::CaughtUp && self.logs.values().all(is_loaded)
    }
}

/// Reads the state of a fetcher. It never waits for the store.
#[derive(Debug, Clone, Default)]
pub struct FetchWatch(Arc<Mutex<FetchStatus>>);

impl FetchWatch {
    /// Returns the state.
    pub fn status(&self) -> FetchStatus {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FetchStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

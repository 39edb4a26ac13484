//! The state of a loader.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tollgate_log::LogId;

use super::backlog::LoadBacklog;

/// A loader that makes no progress for this long is stalled.
///
/// It makes progress when it reads a batch, commits, or waits for more. Between these it makes one call of
/// the database or reads one batch.
pub const STALLED_MIN: Duration = Duration::from_secs(5);

/// Activity of a loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadState {
    /// There are records to load.
    #[default]
    Loading,
    /// The sink is being opened, and has not answered yet.
    Opening,
    /// All records that were synced at the last visit are loaded.
    CaughtUp,
    /// The loader waits after an error.
    Retrying,
    /// An operator has to act. The loader tries again now and then.
    Stopped,
    /// The thread has ended.
    Ended,
}

impl LoadState {
    /// Returns the name in log lines and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Opening => "opening",
            Self::CaughtUp => "caught up",
            Self::Retrying => "retrying",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
        }
    }
}

/// State of a loader. Its counts begin with its start.
#[derive(Debug, Clone, Default)]
pub struct LoadStatus {
    /// Current activity.
    pub state: LoadState,
    /// Rows loaded.
    pub rows: u64,
    /// Rejects loaded.
    pub rejects: u64,
    /// Records with the key of an earlier record. They are counted, not loaded.
    pub duplicates: u64,
    /// Records in gaps that the position passed.
    pub missing: u64,
    /// Records of gaps that were found later and loaded.
    pub filled: u64,
    /// Records in gaps that the sink has now, including those of earlier runs. Gaps that were given up by
    /// command do not count.
    pub in_gaps: u64,
    /// Number of commits.
    pub commits: u64,
    /// Bytes of the committed records, as they are in the log. Records that filled gaps do not count.
    pub bytes: u64,
    /// Age of the oldest record that is not loaded, by the stamp of its batch. It is zero when caught up.
    pub lag: Duration,
    /// Records to load, at the last count.
    pub backlog: LoadBacklog,
    /// Logs that are no longer followed, with the reason.
    pub stopped_logs: BTreeMap<LogId, String>,
    /// Logs that cannot be read at present, with the reason. Each is tried again.
    pub failing_logs: BTreeMap<LogId, String>,
    /// Since when only such logs are left to load. `None` if more is left, or nothing.
    pub only_failing_since: Option<Instant>,
    /// How long the loader has made no progress, if at least [`STALLED_MIN`]. Otherwise zero.
    pub stalled: Duration,
    /// The last error, with its causes.
    pub last_error: Option<String>,
    /// The last attempt to open the sink failed, and waiting alone will not change that.
    pub is_unusable: bool,
    /// Current wait after errors. It is zero while the sink works.
    pub backoff: Duration,
    /// Restarts of the thread after a panic.
    pub restarts: u64,
}

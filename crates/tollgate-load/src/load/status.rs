//! How a loader does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tollgate_log::LogId;

use super::backlog::LoadBacklog;

/// A loader that makes no progress for this long is stalled.
///
/// It makes progress when it reads a batch, commits, or waits for more. What lies in between is one call of
/// the database or one batch.
pub const STALLED_MIN: Duration = Duration::from_secs(5);

/// What a loader is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadState {
    /// There is more to load than was loaded.
    #[default]
    Loading,
    /// The sink is opened, and has not answered yet.
    Opening,
    /// All that was synced at the last look is loaded.
    CaughtUp,
    /// An error is waited out.
    Retrying,
    /// Somebody has to act; it is looked at again now and then.
    Stopped,
    /// The thread is over.
    Ended,
}

impl LoadState {
    /// The name in log lines and reports.
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

/// How a loader does, counted since its start.
#[derive(Debug, Clone, Default)]
pub struct LoadStatus {
    /// What it is about.
    pub state: LoadState,
    /// Rows loaded.
    pub rows: u64,
    /// Rejects loaded.
    pub rejects: u64,
    /// Records whose key another record has: counted, not loaded.
    pub duplicates: u64,
    /// Records in gaps that the position passed.
    pub missing: u64,
    /// Records of gaps that were found after all.
    pub filled: u64,
    /// Records in gaps that the sink has now, also of earlier runs, but for those that were given up by
    /// command.
    pub in_gaps: u64,
    /// Commits.
    pub commits: u64,
    /// Bytes of the records that they brought, as they are in the log; those of gaps that filled are not
    /// counted.
    pub bytes: u64,
    /// Age of the oldest record that is not loaded, by the stamp of its batch; zero when caught up.
    pub lag: Duration,
    /// What is still to be loaded, as of the last look.
    pub backlog: LoadBacklog,
    /// Logs that are not followed any more, and why.
    pub stopped_logs: BTreeMap<LogId, String>,
    /// Logs that cannot be read for now, and why: each is tried again.
    pub failing_logs: BTreeMap<LogId, String>,
    /// Since when such logs are all that is left to load; none if more is left, or nothing.
    pub only_failing_since: Option<Instant>,
    /// How long the loader has made no progress, from [`STALLED_MIN`] on; else zero.
    pub stalled: Duration,
    /// The last error, with its causes.
    pub last_error: Option<String>,
    /// The sink could not be opened the last time, and waiting alone will not change that.
    pub is_unusable: bool,
    /// The present wait after errors; zero while the sink works.
    pub backoff: Duration,
    /// How often the thread was restarted after a panic.
    pub restarts: u64,
}

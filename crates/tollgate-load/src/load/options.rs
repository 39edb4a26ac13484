//! Options of a loader: the logs, the sink, and the sizes and waits of loads.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::SinkError;
use crate::lease::LeaseWatch;
use crate::sink::{Sink, SinkOptions};

/// Options of a loader.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Folder that has the folders of all logs.
    pub dir: PathBuf,
    /// Options of the sink.
    pub sink: SinkOptions,
    /// Sizes and waits of loads.
    pub tuning: LoadTuning,
    /// Action of the loader when only logs remain that the sink refuses.
    pub refused: RefusedLogs,
    /// The leases of this loader, which hear of logs that another loader loads. `None`: it has no leases.
    pub leases: Option<LeaseWatch>,
}

/// Action of a loader without a live log when only logs remain that the sink refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RefusedLogs {
    /// The sink stops, because no other log remains to be loaded.
    #[default]
    StopSink,
    /// The loader tries these logs again, because other logs may still arrive.
    Wait,
}

impl LoadOptions {
    /// Returns the defaults for a folder and a sink.
    pub fn new(dir: impl Into<PathBuf>, sink: SinkOptions) -> Self {
        Self {
            dir: dir.into(),
            sink,
            tuning: LoadTuning::default(),
            refused: RefusedLogs::default(),
            leases: None,
        }
    }
}

/// Bounds of one commit, and of waits.
#[derive(Debug, Clone, Copy)]
pub struct LoadTuning {
    /// Number of records at which a chunk ends, after the current batch.
    pub chunk_rows_max: u64,
    /// Bytes of records at which a chunk ends, after the current batch.
    pub chunk_bytes_max: u64,
    /// Approximate number of written bytes after which the sink does maintenance.
    pub tidy_bytes: u64,
    /// How long records of a live log gather before they are committed together. The wait ends at once if a
    /// reply waits for one of them.
    pub gather: Duration,
    /// Interval between two searches for new logs.
    pub poll: Duration,
    /// First wait after an error. Each next wait is twice as long.
    pub backoff_min: Duration,
    /// Longest wait after an error.
    pub backoff_max: Duration,
    /// Longest wait after an error of a sink that replies wait for.
    pub backoff_awaited_max: Duration,
    /// Time without having caught up after which a loader logs a warning once a minute.
    pub lag_max: Duration,
    /// Whether a sink of whole segments waits for more of them, up to its `file_age`. A loader that ends
    /// after the present records does not wait.
    pub waits_for_segments: bool,
    /// Longest wait at the end for a sink that does not answer.
    pub away_wait_max: Duration,
    /// Longest wait at the end for the next commit of a sink that answers.
    pub commit_wait_max: Duration,
}

impl Default for LoadTuning {
    fn default() -> Self {
        Self {
            chunk_rows_max: 20_000,
            chunk_bytes_max: 8 << 20,
            tidy_bytes: 16 << 20,
            gather: Duration::from_millis(100),
            poll: Duration::from_secs(1),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(30),
            backoff_awaited_max: Duration::from_secs(1),
            lag_max: Duration::from_mins(1),
            waits_for_segments: true,
            away_wait_max: Duration::from_secs(1),
            commit_wait_max: Duration::from_secs(5),
        }
    }
}

impl LoadTuning {
    /// Limits the sizes so that a load needs only a part of the reserve on the sink's disk, apart from the
    /// space for its rows.
    #[must_use]
    pub fn within(self, reserve_bytes: u64) -> Self {
        Self {
            chunk_bytes_max: self.chunk_bytes_max.min(reserve_bytes / 8).max(1),
            tidy_bytes: self.tidy_bytes.min(reserve_bytes / 4),
            ..self
        }
    }
}

/// Function that opens the sink. The loader calls it at first, and again after errors.
pub(super) type OpenSink = Box<dyn Fn(&SinkOptions) -> Result<Box<dyn Sink>, SinkError> + Send>;

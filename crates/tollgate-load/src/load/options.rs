//! Options of a loader: which logs, which sink, and how loads are split.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::SinkError;
use crate::sink::{Sink, SinkOptions};

/// Options of a loader.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The folder of all logs.
    pub dir: PathBuf,
    /// The sink.
    pub sink: SinkOptions,
    /// How loads are split.
    pub tuning: LoadTuning,
    /// What follows when only logs are left that the sink refuses.
    pub refused: RefusedLogs,
}

/// What a loader without a live log does when only logs are left that the sink refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RefusedLogs {
    /// The sink stops, because nothing else is left to load.
    #[default]
    StopSink,
    /// They are tried again, because other logs may still arrive.
    Wait,
}

impl LoadOptions {
    /// Returns the defaults for a folder and a sink.
    pub fn new(dir: impl Into<PathBuf>, sink: SinkOptions) -> Self {
        Self { dir: dir.into(), sink, tuning: LoadTuning::default(), refused: RefusedLogs::default() }
    }
}

/// Bounds of one commit, and of waits.
#[derive(Debug, Clone, Copy)]
pub struct LoadTuning {
    /// A chunk ends with the batch that reaches this many records.
    pub chunk_rows_max: u64,
    /// A chunk ends with the batch that reaches this many bytes.
    pub chunk_bytes_max: u64,
    /// The sink does maintenance after about this many written bytes.
    pub tidy_bytes: u64,
    /// How long records of a live log gather before they are committed together. The wait is cut short if a
    /// reply waits for them.
    pub gather: Duration,
    /// Interval between two searches for new logs.
    pub poll: Duration,
    /// First wait after an error. Each next wait is twice as long.
    pub backoff_min: Duration,
    /// Longest wait after an error.
    pub backoff_max: Duration,
    /// A loader that has not caught up for this long logs a warning once a minute.
    pub lag_max: Duration,
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
            lag_max: Duration::from_mins(1),
        }
    }
}

impl LoadTuning {
    /// Limits what a load needs on the sink's disk, apart from its rows, to a part of the reserve.
    #[must_use]
    pub fn within(self, reserve_bytes: u64) -> Self {
        Self {
            chunk_bytes_max: self.chunk_bytes_max.min(reserve_bytes / 8).max(1),
            tidy_bytes: self.tidy_bytes.min(reserve_bytes / 4),
            ..self
        }
    }
}

/// Function that opens the sink, again after errors.
pub(super) type OpenSink = Box<dyn Fn(&SinkOptions) -> Result<Box<dyn Sink>, SinkError> + Send>;

//! Options of a fetcher.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_log::{LogId, Position};

use super::retain::StoreRetain;

/// Options of a fetcher.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// The folder of fetched segments. It is emptied at the start.
    pub spool: PathBuf,
    /// Bytes of fetched segments that are not loaded yet, at most. One segment is always fetched.
    pub spool_bytes_max: u64,
    /// Maximum bytes of one segment. A larger object is not fetched.
    pub segment_bytes_max: u64,
    /// How long the store keeps segments that all sinks have.
    pub retain: StoreRetain,
    /// Waits of the thread.
    pub tuning: FetchTuning,
}

/// Waits of a fetcher.
#[derive(Debug, Clone, Copy)]
pub struct FetchTuning {
    /// Interval between two looks for new segments.
    pub poll: Duration,
    /// Interval between two looks at all segments of a log whose next one is missing.
    pub list: Duration,
    /// How long a missing segment is waited for before it is asked for.
    pub gap_patience: Duration,
    /// Shortest interval between two answers on one log.
    pub answer: Duration,
    /// Interval between two looks for segments to delete.
    pub retain: Duration,
    /// First wait after an error. Each next wait is twice as long.
    pub backoff_min: Duration,
    /// Longest wait after an error.
    pub backoff_max: Duration,
}

impl Default for FetchTuning {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(5),
            list: Duration::from_mins(1),
            gap_patience: Duration::from_mins(3),
            answer: Duration::from_secs(30),
            retain: Duration::from_mins(10),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(30),
        }
    }
}

/// How far each sink has each log.
pub type SinkPositions = BTreeMap<String, BTreeMap<LogId, Position>>;

/// Reads the positions of all sinks. It may wait for a database, and then fails.
pub type ReadPositions =
    Box<dyn FnMut() -> Result<SinkPositions, Box<dyn std::error::Error + Send + Sync>> + Send>;

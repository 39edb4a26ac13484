//! Options of a fetcher.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_log::{LogId, Position};

use super::retain::StoreRetain;

/// Options of a fetcher.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// The folder of fetched segments. The fetcher empties it at its start.
    pub spool: PathBuf,
    /// Maximum bytes of fetched segments that are not loaded yet. If the folder has no segment, one is
    /// fetched regardless of its size.
    pub spool_bytes_max: u64,
    /// Maximum bytes of one segment. A larger object is not fetched.
    pub segment_bytes_max: u64,
    /// Rules for the deletion of segments in the store.
    pub retain: StoreRetain,
    /// Intervals and waits of the thread `fetch`.
    pub tuning: FetchTuning,
}

/// Intervals and waits of a fetcher.
#[derive(Debug, Clone, Copy)]
pub struct FetchTuning {
    /// Wait after a pass that found no new segment.
    pub poll: Duration,
    /// Interval between two lists of all segments of a log whose next segment is not found by its name. Also
    /// the interval between two lists of the logs that have ended.
    pub list: Duration,
    /// Time for which a segment must be missing before the fetcher asks the machine that wrote it.
    pub gap_patience: Duration,
    /// Minimum interval between two writes of the position of one sink in one log. Also the interval between
    /// two reads of the reports of machines.
    pub answer: Duration,
    /// Interval between two searches for segments to delete.
    pub retain: Duration,
    /// First wait after an error, and wait while the folder is full. After an error, each next wait is twice
    /// as long.
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

/// The position of each sink in each log, by the name of the sink.
pub type SinkPositions = BTreeMap<String, BTreeMap<LogId, Position>>;

/// Reads the positions of all sinks from their databases. Fails if a database does not answer.
pub type ReadPositions =
    Box<dyn FnMut() -> Result<SinkPositions, Box<dyn std::error::Error + Send + Sync>> + Send>;

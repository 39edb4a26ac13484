//! Options of a ship target.

use std::path::PathBuf;
use std::time::Duration;

use crate::name::NodeName;

/// Options of a ship target.
#[derive(Debug, Clone)]
pub struct ShipOptions {
    /// Name of the target in configuration, log lines and metrics.
    pub name: String,
    /// Folder that has the folders of all logs.
    pub dir: PathBuf,
    /// Name of this machine in the store.
    pub node: NodeName,
    /// Condition for the deletion of a segment on this machine.
    pub delete: DeleteRule,
    /// Intervals and waits of the thread `ship`, and the maximum size of an object.
    pub tuning: ShipTuning,
}

/// Condition for the deletion of a shipped segment on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeleteRule {
    /// The store has the segment.
    Shipped,
    /// Each sink in `sinks` has loaded the segment, as the positions in the store show.
    ///
    /// If the disk is nearly full, the store only needs to have the segment. So segments are deleted before
    /// records are refused.
    Loaded {
        /// Names of the sinks.
        sinks: Vec<String>,
    },
}

/// Intervals and waits of the thread `ship`, and the maximum size of an object.
#[derive(Debug, Clone, Copy)]
pub struct ShipTuning {
    /// Interval between two searches for sealed segments.
    pub look: Duration,
    /// Interval between two reads of the answers of loaders.
    pub poll: Duration,
    /// Interval between two reports of this machine to the store.
    pub heartbeat: Duration,
    /// First wait after an error of the store. Each next wait is twice as long.
    pub backoff_min: Duration,
    /// Longest wait after an error of the store.
    pub backoff_max: Duration,
    /// Maximum bytes of an object of this store. A larger segment is not shipped.
    pub object_bytes_max: u64,
}

impl Default for ShipTuning {
    fn default() -> Self {
        Self {
            look: Duration::from_millis(500),
            poll: Duration::from_secs(30),
            heartbeat: Duration::from_mins(1),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(30),
            // S3 accepts at most 5 GiB in a single PUT.
            object_bytes_max: 5 << 30,
        }
    }
}

//! Options of a log, and the errors of opening one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::LogError;
use crate::segment::SegmentDigestAlgorithm;

/// Options of a log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// Folder that has the folders of all logs.
    pub dir: PathBuf,
    /// Size in bytes at which a segment is closed.
    pub segment_bytes_max: u64,
    /// Age at which a segment is closed, if it has a record.
    pub segment_age_max: Duration,
    /// Longest time between the write of a record and the start of its sync, even if no reply waits.
    pub sync_age_max: Duration,
    /// Maximum bytes that may wait for the disk before appends are refused.
    pub queue_bytes_max: u64,
    /// Longest wait of a reply for the disk. If a reply waits longer, the log refuses appends whose replies
    /// would also wait.
    pub queue_age_max: Duration,
    /// Maximum bytes of the records of one transaction.
    pub transaction_bytes_max: usize,
    /// Algorithm of the digest that seals segments.
    pub digest: SegmentDigestAlgorithm,
    /// Name of this machine, which is written into segments.
    pub node: String,
    /// How long a sealed segment is kept after every sink has it. If disk space is short, the segment is
    /// deleted earlier.
    pub retain: Duration,
    /// Maximum bytes of all sealed segments. If they have more, segments that every sink has are deleted,
    /// oldest first.
    pub retain_bytes_max: u64,
    /// Bytes that have to stay free on the disk. If fewer are free, records are refused.
    pub reserve_bytes: u64,
    /// When a worker may write its batch itself.
    pub worker_writes: WorkerWrites,
}

/// When a worker may write its batch itself. The worker then waits for the disk, so it may do so only while
/// writes are likely to be quick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerWrites {
    /// Number of quick writes in a row after which a worker may write.
    pub after: u32,
    /// Longest duration of a write that counts as quick.
    pub took_max: Duration,
    /// Maximum bytes of records that are written and not synced, including the records of the next write.
    pub unsynced_bytes_max: u64,
}

impl Default for WorkerWrites {
    fn default() -> Self {
        Self { after: 64, took_max: Duration::from_micros(200), unsynced_bytes_max: 1 << 20 }
    }
}

impl LogOptions {
    /// Returns the defaults for a folder.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            segment_bytes_max: 64 << 20,
            segment_age_max: Duration::from_mins(1),
            sync_age_max: Duration::from_millis(200),
            queue_bytes_max: 64 << 20,
            queue_age_max: Duration::from_secs(5),
            transaction_bytes_max: 4 << 20,
            digest: SegmentDigestAlgorithm::default(),
            node: String::new(),
            retain: Duration::from_hours(24),
            retain_bytes_max: 10 << 30,
            reserve_bytes: 1 << 30,
            worker_writes: WorkerWrites::default(),
        }
    }
}

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server holds the folder.
    #[error("{} is locked: another server uses it, stop that server first", .0.display())]
    Locked(PathBuf),
    /// The disk returned an error, or a log is damaged.
    #[error("cannot open the log")]
    Log(#[from] LogError),
    /// No thread could be started.
    #[error("cannot start a thread of the log")]
    Thread(#[source] std::io::Error),
    /// `transaction_bytes_max` is larger than the format allows.
    #[error("transaction_bytes_max is {found}, limit {limit} bytes")]
    TransactionBytes {
        /// Configured value in bytes.
        found: usize,
        /// Maximum bytes of a transaction. A larger one may not fit into a batch with other records.
        limit: usize,
    },
}

//! How a log is kept, and why one cannot be opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::LogError;
use crate::segment::SegmentDigestAlgorithm;

/// How a log is kept.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The folder of all logs.
    pub dir: PathBuf,
    /// A segment is closed when it has this many bytes.
    pub segment_bytes_max: u64,
    /// A segment is closed when it is this old and holds a record.
    pub segment_age_max: Duration,
    /// What was written is synced at most this much later, even if nobody waits.
    pub sync_age_max: Duration,
    /// Bytes that may wait for the disk before appends are refused.
    pub queue_bytes_max: u64,
    /// How long a record may wait for the disk whose reply waits, before appends are refused that would wait
    /// too.
    pub queue_age_max: Duration,
    /// Bytes of the records of one transaction.
    pub transaction_bytes_max: usize,
    /// The digest that seals segments.
    pub digest: SegmentDigestAlgorithm,
    /// The name of this machine, written into segments.
    pub node: String,
    /// How long a sealed segment is kept after every sink has it, while there is room.
    pub retain: Duration,
    /// Sealed segments that every sink has are deleted, oldest first, when all of them have more bytes than
    /// this.
    pub retain_bytes_max: u64,
    /// Bytes that are to stay free on the disk: with less, records are refused.
    pub reserve_bytes: u64,
    /// When a worker may write its batch by itself.
    pub worker_writes: WorkerWrites,
}

/// When a worker may write its batch by itself, and so wait for the disk: only while each write is likely to
/// be quick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerWrites {
    /// Writes in a row that have to be quick before a worker writes.
    pub after: u32,
    /// How long a quick write takes at most.
    pub took_max: Duration,
    /// Bytes of records that may be written and not synced, those of the next write included.
    pub unsynced_bytes_max: u64,
}

impl Default for WorkerWrites {
    fn default() -> Self {
        Self { after: 64, took_max: Duration::from_micros(200), unsynced_bytes_max: 1 << 20 }
    }
}

impl LogOptions {
    /// The defaults for a folder.
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
    /// Another server has the folder.
    #[error("{} is locked: another server uses it", .0.display())]
    Locked(PathBuf),
    /// The disk.
    #[error("cannot open the log")]
    Log(#[from] LogError),
    /// No thread could be started.
    #[error("cannot start a thread of the log")]
    Thread(#[source] std::io::Error),
    /// A limit that the format does not allow.
    #[error("transaction_bytes_max is {found}, limit {limit}")]
    TransactionBytes {
        /// What was asked for.
        found: usize,
        /// What a batch can hold with room for its neighbours.
        limit: usize,
    },
}

//! Types of an append: the level that its reply waits for, the appended records, and the reasons for a
//! refusal.

use std::time::Duration;

/// Ack level: the state that a record must have before its reply leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The record is only in the memory of this process, and does not survive the end of the process.
    Received,
    /// The operating system has the record. The record survives the end of this process.
    Written,
    /// The record is on disk, and survives a power cut.
    Synced,
}

impl Level {
    /// All levels, weakest first.
    pub const ALL: [Self; 3] = [Self::Received, Self::Written, Self::Synced];

    /// Returns the name in configuration and replies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Written => "written",
            Self::Synced => "synced",
        }
    }
}

/// The records of a transaction, named by their batch and their places in that batch. Later transactions of
/// one worker have higher values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppendedRecords {
    pub(crate) batch: u64,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl AppendedRecords {
    /// Returns the number of records.
    pub const fn count(self) -> usize {
        self.count as usize
    }
}

/// Why a transaction was refused. None of its records is in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The transaction is too large. Never retry.
    #[error("records of one request have {bytes} bytes, limit {limit} bytes")]
    TooLarge {
        /// Bytes of the records of the transaction.
        bytes: usize,
        /// Maximum bytes of the records of a transaction.
        limit: usize,
    },
    /// Too many bytes wait for the disk. Retry later.
    #[error("{queued} bytes wait for the disk, limit {limit} bytes")]
    Busy {
        /// Bytes that wait for the disk.
        queued: u64,
        /// Maximum bytes that may wait.
        limit: u64,
    },
    /// A record waits too long for the disk. Retry later.
    #[error("oldest record waits {} ms for the disk, limit {} ms", age.as_millis(), limit.as_millis())]
    Slow {
        /// Current wait of the oldest record that must reach the disk before this record.
        age: Duration,
        /// Longest allowed wait of a record.
        limit: Duration,
    },
    /// The disk is nearly full. Retry later.
    #[error("the disk is nearly full")]
    NoRoom,
    /// The folder of the log is not at its path any more. A restart would not find the record. Retry later.
    #[error("the folder of the log is gone")]
    Gone,
    /// The log stopped after a failed write or sync. The process ends.
    #[error("the log stopped: {0}")]
    Stopped(String),
}

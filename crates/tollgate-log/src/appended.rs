//! What an append asks for and returns: the level that its reply waits for, the records, or why there are
//! none.

use std::time::Duration;

/// How far a record has to be before its reply may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// In the memory of this process: survives nothing.
    Received,
    /// In the operating system: survives the end of this process.
    Written,
    /// On disk: survives a power cut.
    Synced,
}

impl Level {
    /// All levels, weakest first.
    pub const ALL: [Self; 3] = [Self::Received, Self::Written, Self::Synced];

    /// The name in configuration and replies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Written => "written",
            Self::Synced => "synced",
        }
    }
}

/// Names the records of a transaction by their batch and their places in it. Those of one worker rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppendedRecords {
    pub(crate) batch: u64,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl AppendedRecords {
    /// How many records there are.
    pub const fn count(self) -> usize {
        self.count as usize
    }
}

/// Why a transaction was not taken. Nothing of it is in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Never retry.
    #[error("transaction has {bytes} bytes, limit {limit} bytes")]
    TooLarge {
        /// Bytes of its records.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The disk is behind; retry later.
    #[error("{queued} bytes wait for the disk, limit {limit} bytes")]
    Busy {
        /// Bytes that wait.
        queued: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The disk is behind; retry later.
    #[error("the oldest record waits {} ms for the disk, limit {} ms", age.as_millis(), limit.as_millis())]
    Slow {
        /// How long a record has waited that this one would wait behind.
        age: Duration,
        /// What is allowed.
        limit: Duration,
    },
    /// The disk is nearly full; retry later.
    #[error("the disk is nearly full")]
    NoRoom,
    /// The log stopped after a failed write or sync; the process ends.
    #[error("the log stopped: {0}")]
    Stopped(String),
}

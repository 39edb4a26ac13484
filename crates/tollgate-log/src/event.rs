//! Events that a log reports to its owner. The log itself writes no log lines.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::LogError;
use crate::id::LogId;
use crate::queue_age::QueueState;
use crate::recover::RecoveryReport;
use crate::room::RoomState;
use crate::segment::SegmentName;
use crate::storage::Space;

/// An event that an operator should know.
#[derive(Debug)]
pub enum LogEvent {
    /// The log stopped permanently, for this reason.
    Failed(String),
    /// The log now refuses records because the disk is nearly full, or accepts records again.
    Room {
        /// State after the change.
        state: RoomState,
        /// Free space on the disk.
        space: Space,
        /// Bytes of the disk that have to stay free.
        reserve_bytes: u64,
    },
    /// The log now refuses records because the disk is too slow, or accepts records again.
    Queue {
        /// State after the change.
        state: QueueState,
        /// Current wait of the oldest record whose reply waits for the disk.
        age: Duration,
        /// Longest allowed wait of such a record.
        age_max: Duration,
        /// Bytes that wait for the writer.
        queued_bytes: u64,
        /// Maximum bytes that may wait.
        queue_bytes_max: u64,
    },
    /// Logs were recovered that the start could not recover for lack of space.
    Mended(RecoveryReport),
    /// A segment of an earlier run is damaged, and no operator has accepted this. The segment is kept, and
    /// its intact records are loaded.
    Unsound {
        /// The log of the segment.
        log: LogId,
        /// Path of the damaged segment.
        file: PathBuf,
        /// Kind of the damage.
        reason: String,
    },
    /// A sealed segment that every sink has was deleted.
    Deleted {
        /// The log of the segment.
        log: LogId,
        /// Name of the deleted segment.
        segment: SegmentName,
        /// Size of the file in bytes.
        bytes: u64,
        /// Why the segment was due for deletion.
        reason: DeleteReason,
    },
    /// A segment could not be deleted. The retainer tries again, and reports only the first of several
    /// failures in a row.
    NotDeleted(LogError),
}

/// Why a segment that every sink has is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteReason {
    /// The disk is nearly full.
    Room,
    /// All sealed segments together are larger than `retain_bytes_max`.
    Size,
    /// Every sink has had the segment for `retain`.
    Age,
}

impl DeleteReason {
    /// Returns the name in log lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::Size => "retain_bytes_max",
            Self::Age => "retain",
        }
    }
}

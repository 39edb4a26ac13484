//! What a log reports to its owner. The log itself writes no log lines.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::LogError;
use crate::id::LogId;
use crate::queue_age::QueueState;
use crate::recover::RecoveryReport;
use crate::room::RoomState;
use crate::segment::SegmentName;
use crate::storage::Space;

/// Something that an operator should know.
#[derive(Debug)]
pub enum LogEvent {
    /// The log stopped for good, and why.
    Failed(String),
    /// Records are refused from now on, because the disk is nearly full, or taken again.
    Room {
        /// What is so now.
        state: RoomState,
        /// What is free.
        space: Space,
        /// What is to stay free. Bytes.
        reserve_bytes: u64,
    },
    /// Records are refused from now on, because too many or too old ones wait for the disk, or taken again.
    Queue {
        /// What is so now.
        state: QueueState,
        /// How long the oldest has waited whose reply waits.
        age: Duration,
        /// How long it may.
        age_max: Duration,
        /// Bytes that wait for the writer.
        queued_bytes: u64,
        /// How many may.
        queue_bytes_max: u64,
    },
    /// Logs that the start had to leave alone were looked at again, once there was room.
    Mended(RecoveryReport),
    /// A sealed segment of an earlier run does not hold. It is kept, and what is intact in it is loaded.
    Unsound {
        /// The log.
        log: LogId,
        /// The segment.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A sealed segment that every sink has was deleted.
    Deleted {
        /// The log.
        log: LogId,
        /// The segment.
        segment: SegmentName,
        /// Its bytes.
        bytes: u64,
        /// What made it due.
        reason: DeleteReason,
    },
    /// A segment could not be deleted; it is tried again. Told once until one can be.
    NotDeleted(LogError),
}

/// What makes a segment due that every sink has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteReason {
    /// The disk is nearly full.
    Room,
    /// All sealed segments together are larger than `retain_bytes_max`.
    Size,
    /// Every sink has had it for as long as `retain`.
    Age,
}

impl DeleteReason {
    /// The name in log lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::Size => "retain_bytes_max",
            Self::Age => "retain",
        }
    }
}

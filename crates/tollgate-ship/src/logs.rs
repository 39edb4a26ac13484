//! The logs of this machine, as a ship target sees them.

use tollgate_log::{Follower, LogId, LogWatch, RoomState, Sequence};

/// Part of the reserve that counts as nearly full before records are refused.
const SLACK_PART: u64 = 4;

/// The logs of this machine, as a ship target sees them.
pub trait ShippedLogs: Send {
    /// Returns the log that is being written. `None`: none is.
    fn live(&self) -> Option<LogId>;
    /// Confirms that the segments of a log up to `last` may be deleted, as far as this target is concerned.
    fn confirm(&self, log: LogId, last: Sequence);
    /// Returns whether the disk is nearly full.
    fn is_room_tight(&self) -> bool;
}

impl ShippedLogs for (Follower, LogWatch) {
    fn live(&self) -> Option<LogId> {
        Some(self.0.watermark().log)
    }

    fn confirm(&self, log: LogId, last: Sequence) {
        self.0.confirm(log, last);
    }

    fn is_room_tight(&self) -> bool {
        let status = self.1.status();
        let reserve = status.reserve_bytes;
        status.room == RoomState::Short || status.free_bytes < reserve.saturating_add(reserve / SLACK_PART)
    }
}

//! The logs of this machine, as a ship target uses them.

use tollgate_log::{Follower, LogId, LogWatch, RoomState, Sequence};

/// Divisor of the reserve of the log. If the free bytes are fewer than the reserve plus this part of it, the
/// disk counts as nearly full.
const SLACK_PART: u64 = 4;

/// The logs of this machine, as a ship target uses them.
pub trait ShippedLogs: Send {
    /// Returns the log that this process writes. `None`: it writes no log.
    fn live(&self) -> Option<LogId>;
    /// Returns whether this process ships a log of the folder. During an upgrade, another process ships some.
    fn is_ours(&self, _log: LogId) -> bool {
        true
    }
    /// Confirms that this target does not need the segments of a log up to `last` any more, so that they may
    /// be deleted.
    fn confirm(&self, log: LogId, last: Sequence);
    /// Returns whether the disk of `log.dir` is nearly full.
    fn is_room_tight(&self) -> bool;
}

impl ShippedLogs for (Follower, LogWatch) {
    fn live(&self) -> Option<LogId> {
        Some(self.0.watermark().log)
    }

    fn is_ours(&self, log: LogId) -> bool {
        self.0.is_ours(log)
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

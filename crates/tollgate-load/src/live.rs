//! The live log as a loader sees it. The loader reads the log up to its watermark, and reports loaded
//! positions to it.

use std::thread;
use std::time::Duration;

use tollgate_log::{Exception, Follower, LogId, Sequence, SinkBreaker, Watermark};

/// A log that is being written, in this process or another one.
pub trait LiveLog: Send + Sync {
    /// Returns the watermark of the log. Returns `None` if the watermark is unknown. Only sealed segments may
    /// then be read.
    fn watermark(&self) -> Option<Watermark>;

    /// Waits until a record after `seen` is synced, or `timeout` passes. Returns the same as
    /// [`Self::watermark`].
    fn wait_beyond(&self, seen: Sequence, timeout: Duration) -> Option<Watermark>;

    /// Confirms that the sink durably has all records of a log up to `last`. The segments of these records
    /// need not be kept for this sink any more.
    fn confirm(&self, log: LogId, last: Sequence);

    /// Returns whether this loader loads a log of the folder. During an upgrade, a loader of another process
    /// loads some logs.
    fn is_ours(&self, _log: LogId) -> bool {
        true
    }

    /// Returns whether replies wait for records that may be read and are not loaded. Only the process that
    /// writes the log has waiting replies.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Waits until [`Self::is_awaited`] is true or `timeout` passes. Returns whether it is true.
    fn wait_awaited(&self, timeout: Duration) -> bool {
        thread::sleep(timeout);
        false
    }

    /// Returns the first record of `log` that a reply waits for. Returns `None` if no reply waits for a
    /// record of `log` up to `last`.
    fn awaited_from(&self, _log: LogId, _last: Sequence) -> Option<Sequence> {
        None
    }

    /// Releases the replies that wait for records of a log up to `last`. Apart from the exceptions, the sink
    /// durably has these records as rows or duplicates.
    ///
    /// The exceptions are in the order of the log.
    fn settle(&self, _log: LogId, _last: Sequence, _exceptions: &[Exception]) {}

    /// Sets whether the sink accepts records.
    fn set_breaker(&self, _breaker: SinkBreaker) {}
}

impl LiveLog for Follower {
    fn watermark(&self) -> Option<Watermark> {
        Some(self.watermark())
    }

    fn wait_beyond(&self, seen: Sequence, timeout: Duration) -> Option<Watermark> {
        Some(self.wait_beyond(seen, timeout))
    }

    fn confirm(&self, log: LogId, last: Sequence) {
        self.confirm(log, last);
    }

    fn is_ours(&self, log: LogId) -> bool {
        self.is_ours(log)
    }

    fn is_awaited(&self) -> bool {
        self.is_awaited()
    }

    fn wait_awaited(&self, timeout: Duration) -> bool {
        self.wait_awaited(timeout)
    }

    fn awaited_from(&self, log: LogId, last: Sequence) -> Option<Sequence> {
        self.awaited_from(log, last)
    }

    fn settle(&self, log: LogId, last: Sequence, exceptions: &[Exception]) {
        self.settle(log, last, exceptions);
    }

    fn set_breaker(&self, breaker: SinkBreaker) {
        self.set_breaker(breaker);
    }
}

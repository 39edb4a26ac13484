//! The log that a server writes now, as a loader sees it: how far it may be read, and who is told what is loaded.

use std::time::Duration;

use tollgate_log::{Follower, LogId, Sequence, Watermark};

/// A log that is being written, in this process or another one.
pub trait LiveLog: Send {
    /// How far the log is on disk. None: nobody tells, so only sealed segments may be read.
    fn watermark(&self) -> Option<Watermark>;

    /// Waits until the log is on disk beyond `seen`, or the time is over; tells how far it is.
    fn wait_beyond(&self, seen: Sequence, timeout: Duration) -> Option<Watermark>;

    /// Confirms that the sink has all records of a log up to `last`, durably: as far as this sink is concerned, their
    /// segments may go.
    fn confirm(&self, log: LogId, last: Sequence);
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
}

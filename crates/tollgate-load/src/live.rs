//! The log that a server writes now, as a loader sees it: how far it may be read, and who is told what is
//! loaded.

use std::thread;
use std::time::Duration;

use tollgate_log::{Exception, Follower, LogId, Sequence, SinkBreaker, Watermark};

/// A log that is being written, in this process or another one.
pub trait LiveLog: Send {
    /// How far the log is on disk. None: nobody tells, so only sealed segments may be read.
    fn watermark(&self) -> Option<Watermark>;

    /// Waits until the log is on disk beyond `seen`, or the time is over; tells how far it is.
    fn wait_beyond(&self, seen: Sequence, timeout: Duration) -> Option<Watermark>;

    /// Confirms that the sink has all records of a log up to `last`, durably: as far as this sink is
    /// concerned, their segments may go.
    fn confirm(&self, log: LogId, last: Sequence);

    /// Whether replies wait until the sink has records that may be read and are not loaded. They do in the
    /// process that writes the log alone.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Waits until [`Self::is_awaited`], or the time is over; returns whether it is.
    fn wait_awaited(&self, timeout: Duration) -> bool {
        thread::sleep(timeout);
        false
    }

    /// The first record that replies wait for until the sink has it; none if they wait for nothing of that
    /// log up to `last`.
    fn awaited_from(&self, _log: LogId, _last: Sequence) -> Option<Sequence> {
        None
    }

    /// Releases the replies that wait until the sink has records of a log up to `last`, which it has,
    /// durably: as rows or duplicates, but for the exceptions. These are in the order of the log.
    fn settle(&self, _log: LogId, _last: Sequence, _exceptions: &[Exception]) {}

    /// Says whether the sink takes records.
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

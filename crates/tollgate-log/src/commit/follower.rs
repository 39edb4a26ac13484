//! The sink's side of the log: follows the watermark, confirms loaded records, and releases the replies that
//! wait for them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::pipeline::CommitPipeline;
use super::state::Watermark;
use crate::awaited::{Exception, SinkBreaker, SinkPlace};
use crate::id::{LogId, Sequence};
use crate::pending_acks::PendingAcks;

/// Follows the watermark of the log of this run, and reports to the log which records a sink has.
#[derive(Clone)]
pub struct Follower {
    pub(crate) pipeline: Arc<CommitPipeline>,
    pub(crate) acks: Option<Arc<PendingAcks>>,
}

impl Follower {
    /// Returns the watermark of the log.
    pub fn watermark(&self) -> Watermark {
        self.pipeline.state.watermark()
    }

    /// Returns whether this process loads and ships a log. During an upgrade, another process may do so.
    pub fn is_ours(&self, log: LogId) -> bool {
        self.pipeline.state.duty.covers(log)
    }

    /// Confirms that the sink durably has all records of a log up to `last`. The segments of these records
    /// may then be deleted.
    ///
    /// A later call may name a lower number, if the sink has fewer records than before. On a follower without
    /// a sink, the call does nothing.
    pub fn confirm(&self, log: LogId, last: Sequence) {
        if let Some(sink) = self.place() {
            self.pipeline.state.loaded().confirm(sink, log, last);
        }
    }

    /// Returns whether replies wait for records that are synced and not yet in the sink.
    pub fn is_awaited(&self) -> bool {
        self.acks().is_some_and(|acks| acks.is_awaited(self.pipeline.state.synced()))
    }

    /// Waits until [`Self::is_awaited`] is true or `timeout` passes. Returns whether it is true.
    pub fn wait_awaited(&self, timeout: Duration) -> bool {
        match self.acks() {
            Some(acks) => acks.wait(|| self.pipeline.state.synced(), timeout),
            None => {
                thread::sleep(timeout);
                false
            }
        }
    }

    /// Returns the first record of the oldest batch with a reply that waits for the sink. Returns `None` if
    /// no reply waits for a record of `log` up to `last`.
    pub fn awaited_from(&self, log: LogId, last: Sequence) -> Option<Sequence> {
        self.acks().filter(|_| log == self.pipeline.state.id)?.awaited_from(last)
    }

    /// Releases the replies that wait for records of a log up to `last`. Apart from `exceptions`, the sink
    /// durably has these records as rows or duplicates.
    ///
    /// `exceptions` are in the order of the log.
    pub fn settle(&self, log: LogId, last: Sequence, exceptions: &[Exception]) {
        if let Some(acks) = self.acks().filter(|_| log == self.pipeline.state.id) {
            acks.settle(last, exceptions);
        }
    }

    /// Sets whether the sink accepts records.
    pub fn set_breaker(&self, breaker: SinkBreaker) {
        if let Some(acks) = self.acks() {
            acks.set_breaker(breaker);
        }
    }

    /// Returns the place of the sink, or `None` for a follower without a sink.
    pub fn place(&self) -> Option<SinkPlace> {
        self.acks().map(PendingAcks::sink)
    }

    fn acks(&self) -> Option<&PendingAcks> {
        self.acks.as_deref()
    }

    /// Waits until a record after `seen` is synced, or `timeout` passes. Returns the watermark.
    pub fn wait_beyond(&self, seen: Sequence, timeout: Duration) -> Watermark {
        let progress = self.pipeline.state.progress();
        if self.pipeline.state.synced() <= seen {
            drop(self.pipeline.state.wait(&self.pipeline.state.watermark_wake, progress, timeout));
        }
        self.watermark()
    }
}

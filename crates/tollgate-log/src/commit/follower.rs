//! What a sink has of the log: it follows the watermark, and confirms and settles what it loaded.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::pipeline::CommitPipeline;
use super::state::Watermark;
use crate::awaited::{Exception, SinkBreaker, SinkPlace};
use crate::id::{LogId, Sequence};
use crate::pending_acks::PendingAcks;

/// Follows the watermark of the log of this run, and says what its sink has.
#[derive(Clone)]
pub struct Follower {
    pub(crate) pipeline: Arc<CommitPipeline>,
    pub(crate) acks: Option<Arc<PendingAcks>>,
}

impl Follower {
    /// How far the log is on disk.
    pub fn watermark(&self) -> Watermark {
        self.pipeline.state.watermark()
    }

    /// Confirms that the sink of this handle has all records of a log up to `last`, durably: their segments
    /// may go.
    ///
    /// A later call may name a lower number, when the sink has less than before. A handle of no sink confirms
    /// nothing.
    pub fn confirm(&self, log: LogId, last: Sequence) {
        if let Some(sink) = self.place() {
            self.pipeline.state.loaded().confirm(sink, log, last);
        }
    }

    /// Whether replies wait until the sink has records that it lacks and could load.
    pub fn is_awaited(&self) -> bool {
        self.acks().is_some_and(|acks| acks.is_awaited(self.pipeline.state.synced()))
    }

    /// Waits until [`Self::is_awaited`], or the time is over; returns whether it is.
    pub fn wait_awaited(&self, timeout: Duration) -> bool {
        match self.acks() {
            Some(acks) => acks.wait(|| self.pipeline.state.synced(), timeout),
            None => {
                thread::sleep(timeout);
                false
            }
        }
    }

    /// The first record that replies wait for until the sink has it, in the batch that it is in; none if they
    /// wait for nothing of that log up to `last`.
    pub fn awaited_from(&self, log: LogId, last: Sequence) -> Option<Sequence> {
        self.acks().filter(|_| log == self.pipeline.state.id)?.awaited_from(last)
    }

    /// Releases the replies that wait until the sink has records of a log up to `last`, which it has,
    /// durably: as rows or duplicates, but for the exceptions. These are in the order of the log.
    pub fn settle(&self, log: LogId, last: Sequence, exceptions: &[Exception]) {
        if let Some(acks) = self.acks().filter(|_| log == self.pipeline.state.id) {
            acks.settle(last, exceptions);
        }
    }

    /// Says whether the sink takes records.
    pub fn set_breaker(&self, breaker: SinkBreaker) {
        if let Some(acks) = self.acks() {
            acks.set_breaker(breaker);
        }
    }

    /// The place of its sink, if it has one.
    pub fn place(&self) -> Option<SinkPlace> {
        self.acks().map(PendingAcks::sink)
    }

    fn acks(&self) -> Option<&PendingAcks> {
        self.acks.as_deref()
    }

    /// Waits until the log is on disk beyond `seen`, or the time is over.
    pub fn wait_beyond(&self, seen: Sequence, timeout: Duration) -> Watermark {
        let progress = self.pipeline.state.progress();
        if self.pipeline.state.synced() <= seen {
            drop(self.pipeline.state.wait(&self.pipeline.state.watermark_wake, progress, timeout));
        }
        self.watermark()
    }
}

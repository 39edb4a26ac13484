//! The age of the batches that wait for the disk, and whether records are refused because of this age.
//!
//! Two threads publish one time each. Appenders read both times without a lock. The writer publishes the time
//! since which the oldest batch waits to be written. The syncer publishes the time since which the oldest
//! batch with a waiting reply waits for its sync. A batch without such a reply may stay unsynced, and does
//! not count. The wait of a batch begins at its first hand-over, even if the writer's queue was full then.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::appended::Level;

/// Time without a refusal, in nanoseconds, after which the log no longer counts as behind. A log that refuses
/// records from time to time therefore does not report each refusal.
const CALM_NS: u64 = 1_000_000_000;

/// Whether the disk keeps up with the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    /// The log accepts records.
    KeepsUp,
    /// Records were refused because too many records, or too old ones, wait for the disk. The state ends when
    /// the disk keeps up and the last refusal is a second ago.
    Behind,
}

/// A time, in nanoseconds since the log began. The value is at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

/// Returns the earlier of two times. If only one of them is set, returns this time.
pub(crate) fn earlier(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// A time that one thread publishes.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Published(AtomicU64);

impl Published {
    pub(crate) fn set(&self, moment: Option<Moment>) {
        self.0.store(moment.map_or(0, |Moment(ns)| ns), Ordering::Relaxed);
    }

    fn read(&self) -> Option<Moment> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            ns => Some(Moment(ns)),
        }
    }
}

/// The times since which the oldest batches wait for the disk, and whether records are refused because of
/// these waits.
pub(crate) struct QueueAge {
    begun: Instant,
    /// Time of the oldest batch that is handed over and not written. The value is set under the lock of the
    /// write queue.
    pub(crate) unwritten_since: Published,
    /// Time of the oldest batch with a reply that waits for a sync. The value is set under the lock of
    /// [`crate::commit`].
    pub(crate) unsynced_since: Published,
    refused_at: AtomicU64,
    /// Whether the owner of the log has a report of the current refusals.
    is_reported: AtomicBool,
}

impl QueueAge {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            unwritten_since: Published::default(),
            unsynced_since: Published::default(),
            refused_at: AtomicU64::new(0),
            is_reported: AtomicBool::new(false),
        }
    }

    pub(crate) fn moment(&self, at: Instant) -> Moment {
        let ns = at.saturating_duration_since(self.begun).as_nanos();
        Moment(u64::try_from(ns).unwrap_or(u64::MAX).max(1))
    }

    pub(crate) fn now(&self) -> Moment {
        self.moment(Instant::now())
    }

    /// Returns the current wait of the oldest batch that must reach this level before a new record can.
    pub(crate) fn age(&self, level: Level, now: Moment) -> Duration {
        self.age_with(level, None, now)
    }

    /// Returns the same as [`Self::age`], and counts a batch that did not fit into the writer's queue.
    /// `stuck` is the time of that batch.
    pub(crate) fn age_with(&self, level: Level, stuck: Option<Moment>, now: Moment) -> Duration {
        let unwritten = || earlier(stuck, self.unwritten_since.read());
        let since = match level {
            Level::Received => None,
            Level::Written => unwritten(),
            Level::Synced => earlier(unwritten(), self.unsynced_since.read()),
        };
        since.map_or(Duration::ZERO, |Moment(since)| Duration::from_nanos(now.0.saturating_sub(since)))
    }

    /// Notes a refusal. Returns whether it has to be reported, because it is the first.
    pub(crate) fn note_refusal(&self, now: Moment) -> bool {
        self.refused_at.fetch_max(now.0, Ordering::Relaxed);
        !self.is_reported.load(Ordering::Relaxed) && !self.is_reported.swap(true, Ordering::Relaxed)
    }

    /// Ends the state of refusals if the last refusal is `CALM_NS` ago. Returns true only in the call that
    /// ends it.
    pub(crate) fn calm_down(&self, now: Moment) -> bool {
        let is_calm = now.0.saturating_sub(self.refused_at.load(Ordering::Relaxed)) >= CALM_NS;
        is_calm && self.is_reported.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> QueueState {
        if self.is_reported.load(Ordering::Relaxed) { QueueState::Behind } else { QueueState::KeepsUp }
    }
}

/// The times since which replies wait for the next sync and for the running sync.
#[derive(Default)]
pub(crate) struct Wanted {
    waiting: Option<Moment>,
    syncing: Option<Moment>,
}

impl Wanted {
    /// Adds written batches. `since` is the time since which the oldest of these batches with a waiting reply
    /// waits.
    pub(crate) fn add(&mut self, since: Option<Moment>) {
        self.waiting = earlier(self.waiting, since);
    }

    pub(crate) fn sync_begins(&mut self) {
        self.syncing = self.waiting.take();
    }

    pub(crate) fn sync_ends(&mut self) {
        self.syncing = None;
    }

    pub(crate) fn oldest(&self) -> Option<Moment> {
        earlier(self.syncing, self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Moment {
        Moment(ms * MS)
    }

    fn ages(queue_age: &QueueAge, stuck: Option<Moment>) -> [u128; 3] {
        Level::ALL.map(|level| queue_age.age_with(level, stuck, at(100)).as_millis())
    }

    #[test]
    fn each_level_waits_behind_what_is_before_it() {
        let queue_age = QueueAge::new();
        assert_eq!(ages(&queue_age, None), [0, 0, 0]);
        queue_age.unsynced_since.set(Some(at(30)));
        assert_eq!(ages(&queue_age, None), [0, 0, 70]);
        queue_age.unwritten_since.set(Some(at(60)));
        assert_eq!(ages(&queue_age, None), [0, 40, 70]);
        queue_age.unwritten_since.set(Some(at(20)));
        assert_eq!(ages(&queue_age, None), [0, 80, 80]);
        assert_eq!(ages(&queue_age, Some(at(10))), [0, 90, 90]);
        queue_age.unwritten_since.set(None);
        assert_eq!(ages(&queue_age, None), [0, 0, 70]);
        queue_age.unsynced_since.set(None);
        assert_eq!(ages(&queue_age, Some(at(200))), [0, 0, 0]);
    }

    #[test]
    fn a_moment_at_which_the_log_began_is_one_all_the_same() {
        let queue_age = QueueAge::new();
        let moment = queue_age.moment(queue_age.begun);
        queue_age.unwritten_since.set(Some(moment));
        assert_eq!(queue_age.unwritten_since.read(), Some(moment));
    }

    #[test]
    fn a_batch_that_came_during_a_sync_is_the_oldest_when_the_sync_ends() {
        let mut wanted = Wanted::default();
        wanted.add(Some(at(3)));
        wanted.add(Some(at(2)));
        wanted.add(None);
        wanted.sync_begins();
        wanted.add(Some(at(5)));
        assert_eq!(wanted.oldest(), Some(at(2)));
        wanted.sync_ends();
        assert_eq!(wanted.oldest(), Some(at(5)));
        wanted.sync_begins();
        wanted.sync_ends();
        assert_eq!(wanted.oldest(), None);
    }

    #[test]
    fn refusing_is_reported_when_it_begins_and_after_a_second_without_a_refusal() {
        let queue_age = QueueAge::new();
        assert!(!queue_age.calm_down(at(5000)));
        assert!(queue_age.note_refusal(at(5000)) && !queue_age.note_refusal(at(5900)));
        assert!(!queue_age.calm_down(at(6800)));
        assert_eq!(queue_age.state(), QueueState::Behind);
        assert!(queue_age.calm_down(at(6900)) && !queue_age.calm_down(at(6900)));
        assert_eq!(queue_age.state(), QueueState::KeepsUp);
        assert!(queue_age.note_refusal(at(9000)));
    }
}

//! Admits requests by the age of the run queue, which is the time that ready tasks wait for their turn.
//!
//! A probe passes the run queue of the worker, which is first in, first out. The time that the probe needs is
//! the age of the queue.
//!
//! Up to half of `queue_age_max`, every request is admitted. Above this age a growing share of requests is
//! refused, and at `queue_age_max` all requests are refused. A refusal is cheap compared with the work of a
//! request. The age therefore settles between these two values, while the worker stays fully busy.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tollgate_meter::{Episode, EpisodeNews};

/// Minimum time between two probes.
const PROBE_PAUSE: Duration = Duration::from_millis(5);
/// Age above which the queue counts as long: half of a slice of scripts, or a hundred short requests.
const LONG_AGE: Duration = Duration::from_millis(1);
/// Time for which the queue still counts as long after such an age. This time is needed because the queue is
/// short at times while refused clients pause.
const LONG_FOR: Duration = Duration::from_millis(100);
/// Minimum time between two log lines.
const LINE_PAUSE: Duration = Duration::from_secs(10);
/// Value of the refused share that means all requests.
const ALL: u32 = 1 << 10;

pub(crate) struct Admission {
    age_max: Cell<Duration>,
    /// Time of the last request. Requests that arrived together have the same time.
    seen: Cell<Instant>,
    /// Time when the last probe was sent.
    sent: Cell<Instant>,
    /// Whether a probe is in the queue.
    is_out: Cell<bool>,
    probe: Notify,
    /// Number of requests in [`ALL`] that are refused.
    refused: Cell<u32>,
    owed: Cell<u32>,
    /// The last measured age.
    age: Cell<Duration>,
    /// Time until which the queue counts as long.
    long_until: Cell<Instant>,
    refusals: Episode,
}

impl Admission {
    pub(crate) fn new(age_max: Duration) -> Self {
        let now = Instant::now();
        Self {
            age_max: Cell::new(age_max),
            seen: Cell::new(now),
            sent: Cell::new(now),
            is_out: Cell::new(false),
            probe: Notify::new(),
            refused: Cell::new(0),
            owed: Cell::new(0),
            age: Cell::default(),
            long_until: Cell::new(now),
            refusals: Episode::new(LINE_PAUSE),
        }
    }

    /// Sets the maximum time that requests wait.
    pub(crate) fn set_age_max(&self, age_max: Duration) {
        self.age_max.set(age_max);
    }

    /// Returns the maximum time that requests wait.
    pub(crate) fn age_max(&self) -> Duration {
        self.age_max.get()
    }

    /// Returns the number of requests in 1024 that are refused.
    pub(crate) fn refused_share(&self) -> u32 {
        self.refused.get()
    }

    /// Returns whether a request is admitted at `now`.
    #[inline]
    pub(crate) fn admits(&self, now: Instant) -> bool {
        self.look_once(now);
        let owed = self.owed.get() + self.refused.get();
        self.owed.set(owed % ALL);
        if owed >= ALL {
            self.refusals.note();
        }
        owed < ALL
    }

    /// Returns whether the wait of ready tasks is long enough to delay the next requests of refused clients.
    pub(crate) fn is_queue_long(&self, now: Instant) -> bool {
        self.look_once(now);
        now < self.long_until.get()
    }

    /// Counts a connection that was refused together with its request when it was accepted.
    pub(crate) fn note_turned_away(&self) {
        self.refusals.note();
    }

    fn look_once(&self, now: Instant) {
        if self.seen.replace(now) != now {
            self.look(now);
        }
    }

    /// Sends a probe. If the last probe is still in the queue, its time in the queue counts as the age.
    fn look(&self, now: Instant) {
        let since = now.saturating_duration_since(self.sent.get());
        if !self.is_out.get() && since >= PROBE_PAUSE {
            if since >= self.age_max.get() {
                // No request arrived for that long, so the last age is outdated.
                self.refuse(0, Duration::ZERO);
            }
            self.is_out.set(true);
            self.sent.set(now);
            self.probe.notify_one();
        } else if self.is_out.get() && since > self.age_max.get() / 2 {
            self.learn(since);
        }
    }

    /// Measures the age of the queue, as long as the worker runs.
    pub(crate) async fn watch(&self) {
        loop {
            self.probe.notified().await;
            self.learn(self.sent.get().elapsed());
            self.is_out.set(false);
        }
    }

    /// Applies a measured age.
    pub(crate) fn learn(&self, age: Duration) {
        if age >= LONG_AGE {
            self.long_until.set(self.sent.get() + age + LONG_FOR);
        }
        let half = self.age_max.get() / 2;
        let over = age.saturating_sub(half).as_nanos() * u128::from(ALL);
        let share = over.checked_div(half.as_nanos()).map_or(0, |share| share.min(u128::from(ALL)));
        // The share falls in steps, because admitting all requests at once would fill the queue again.
        let share = share.max(u128::from(self.refused.get()) * 7 / 8);
        self.refuse(share as u32, age);
    }

    fn refuse(&self, share: u32, age: Duration) {
        self.refused.set(share);
        self.age.set(age);
    }

    /// Logs whether requests are refused, at most once in [`LINE_PAUSE`].
    pub(crate) fn log_refusals(&self, now: Instant, worker: usize) {
        let age_ms = self.age.get().as_millis() as u64;
        match self.refusals.news(now) {
            Some(EpisodeNews::Happened(refused)) => {
                tracing::warn!(worker, refused, age_ms, "the worker is overloaded: it refuses requests");
            }
            Some(EpisodeNews::Over) => {
                tracing::info!(worker, age_ms, "the worker is no longer overloaded: it refuses no request");
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_of_100(age_ms: u64) -> usize {
        let admission = Admission::new(Duration::from_secs(1));
        admission.learn(Duration::from_millis(age_ms));
        let now = admission.sent.get();
        (0..100).filter(|_| !admission.admits(now)).count()
    }

    #[test]
    fn the_older_the_queue_the_more_is_refused() {
        let refused = [0, 500, 625, 750, 1000, 9000].map(refused_of_100);
        assert_eq!(refused, [0, 0, 25, 50, 100, 100]);
    }

    #[test]
    fn the_refused_share_becomes_less_in_steps_until_it_is_nothing() {
        let admission = Admission::new(Duration::from_secs(1));
        admission.learn(Duration::from_secs(2));
        let mut shares = vec![admission.refused.get()];
        while admission.refused.get() > 0 {
            admission.learn(Duration::ZERO);
            shares.push(admission.refused.get());
        }
        assert_eq!(shares[..3], [ALL, 896, 784]);
        assert!(shares.is_sorted_by(|earlier, later| earlier > later));
        admission.learn(Duration::from_secs(2));
        assert!(admission.admits(admission.sent.get() + Duration::from_secs(1)));
        assert_eq!(admission.refused.get(), 0);
    }

    #[test]
    fn refused_requests_are_counted_for_the_log() {
        let admission = Admission::new(Duration::from_secs(1));
        admission.learn(Duration::from_millis(625));
        let now = admission.sent.get();
        let refused = (0..100).filter(|_| !admission.admits(now)).count();
        admission.refuse(0, Duration::ZERO);
        assert_eq!(refused, 25);
        assert_eq!(admission.refusals.news(now), Some(EpisodeNews::Happened(25)));
        assert_eq!(admission.refusals.news(now + LINE_PAUSE), Some(EpisodeNews::Over));
    }

    #[test]
    fn a_queue_is_long_for_a_while_when_its_age_was() {
        let admission = Admission::new(Duration::from_secs(1));
        let at = |ms| admission.sent.get() + Duration::from_millis(ms);
        assert!(!admission.is_queue_long(at(0)));
        admission.learn(Duration::from_micros(999));
        assert!(!admission.is_queue_long(at(1)));
        admission.learn(Duration::from_millis(1));
        let long_until = at(101);
        admission.learn(Duration::ZERO);
        assert!(admission.is_queue_long(long_until - Duration::from_micros(1)));
        assert!(admission.is_out.get(), "it looks for itself");
        assert!(!admission.is_queue_long(long_until));
    }

    #[test]
    fn a_probe_that_does_not_come_back_tells_the_age() {
        let admission = Admission::new(Duration::from_secs(1));
        let begun = admission.sent.get();
        let at = |ms| begun + Duration::from_millis(ms);
        assert!(admission.admits(at(10)) && admission.is_out.get());
        assert!(admission.admits(at(400)));
        assert!(!admission.admits(at(1100)));
    }
}

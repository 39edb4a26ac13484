//! The current call of the database, and how long it has run. Other threads read this while the thread of the
//! loader waits for the answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time without an answer after which a loader counts as waiting for its database.
pub const WAITING_MIN: Duration = Duration::from_secs(2);

/// Value of `since_ms` while no call runs.
const IDLE: u64 = u64::MAX;

/// The current call of the database.
#[derive(Debug)]
pub(super) struct SinkCalls {
    begun: Instant,
    /// Milliseconds from `begun` to the begin of the current call, or [`IDLE`].
    since_ms: AtomicU64,
}

impl Default for SinkCalls {
    fn default() -> Self {
        Self { begun: Instant::now(), since_ms: AtomicU64::new(IDLE) }
    }
}

impl SinkCalls {
    /// Notes that a call begins. The call ends with the drop of the returned value.
    pub(super) fn begin(&self) -> CallInProgress<'_> {
        let since_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(IDLE - 1);
        self.since_ms.store(since_ms, Ordering::Relaxed);
        CallInProgress(self)
    }

    /// Returns how long the current call has run at `now`. Returns zero if that is shorter than
    /// [`WAITING_MIN`], or if no call runs.
    pub(super) fn waiting_at(&self, now: Instant) -> Duration {
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        if since_ms == IDLE {
            return Duration::ZERO;
        }
        let begun = self.begun + Duration::from_millis(since_ms);
        let time = now.saturating_duration_since(begun);
        if time < WAITING_MIN { Duration::ZERO } else { time }
    }
}

/// A call that runs until the drop of this value.
pub(super) struct CallInProgress<'calls>(&'calls SinkCalls);

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        self.0.since_ms.store(IDLE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_an_answer_for_two_seconds_is_waited_for() {
        let calls = SinkCalls::default();
        let at = |seconds: f64| Instant::now() + Duration::from_secs_f64(seconds);
        assert_eq!(calls.waiting_at(at(60.0)), Duration::ZERO, "no call has begun");
        let call = calls.begin();
        assert_eq!(calls.waiting_at(at(1.9)), Duration::ZERO);
        assert!(calls.waiting_at(at(2.1)) >= WAITING_MIN);
        assert!(calls.waiting_at(at(60.0)) >= Duration::from_secs(60));
        drop(call);
        assert_eq!(calls.waiting_at(at(60.0)), Duration::ZERO, "the database has answered");
        let _second = calls.begin();
        assert_eq!(calls.waiting_at(at(1.9)), Duration::ZERO, "the wait begins with each call");
    }
}

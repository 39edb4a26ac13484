//! How long the database has not answered. Other threads read this while the thread of the loader waits for
//! the answer.
//!
//! A call may end without an answer, because another program holds a lock or because a timeout passed. The
//! wait then goes on through all later tries, until the sink works again or fails with another error.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::SinkError;

/// Time without an answer after which a loader counts as waiting for its database.
pub const WAITING_MIN: Duration = Duration::from_secs(2);

/// Value of a time that does not exist.
const NONE: u64 = u64::MAX;

/// The current call of the database, and the calls before it that ended without an answer. All times are
/// milliseconds from `begun`.
#[derive(Debug)]
pub(super) struct SinkCalls {
    begun: Instant,
    /// Begin of the current call.
    current_ms: AtomicU64,
    /// Begin of the first call without an answer, since the sink last worked.
    unanswered_ms: AtomicU64,
}

impl Default for SinkCalls {
    fn default() -> Self {
        Self::since(Instant::now())
    }
}

impl SinkCalls {
    fn since(begun: Instant) -> Self {
        Self { begun, current_ms: AtomicU64::new(NONE), unanswered_ms: AtomicU64::new(NONE) }
    }

    /// Makes a call of the database.
    pub(super) fn call<T: CallResult>(&self, call: impl FnOnce() -> T) -> T {
        let in_progress = self.begin_at(Instant::now());
        let result = call();
        in_progress.end(&result);
        result
    }

    fn begin_at(&self, now: Instant) -> CallInProgress<'_> {
        let since_ms = u64::try_from(now.saturating_duration_since(self.begun).as_millis());
        self.current_ms.store(since_ms.unwrap_or(NONE - 1), Ordering::Relaxed);
        CallInProgress(self)
    }

    /// Notes that the database answers again.
    pub(super) fn answered(&self) {
        self.unanswered_ms.store(NONE, Ordering::Relaxed);
    }

    /// Returns how long the database has not answered at `now`. Returns zero if that is shorter than
    /// [`WAITING_MIN`], or if the loader waits for no answer.
    pub(super) fn waiting_at(&self, now: Instant) -> Duration {
        let first = self.current_ms.load(Ordering::Relaxed).min(self.unanswered_ms.load(Ordering::Relaxed));
        if first == NONE {
            return Duration::ZERO;
        }
        let time = now.saturating_duration_since(self.begun + Duration::from_millis(first));
        if time < WAITING_MIN { Duration::ZERO } else { time }
    }
}

/// The result of a call of the database.
pub(super) trait CallResult {
    /// Returns whether the call ended without an answer.
    fn is_unanswered(&self) -> bool;
}

impl CallResult for () {
    fn is_unanswered(&self) -> bool {
        false
    }
}

impl<T> CallResult for Result<T, SinkError> {
    fn is_unanswered(&self) -> bool {
        self.as_ref().is_err_and(SinkError::is_unanswered)
    }
}

/// A call that runs until the drop of this value. A panic of the call drops the value too.
struct CallInProgress<'calls>(&'calls SinkCalls);

impl CallInProgress<'_> {
    fn end(self, result: &impl CallResult) {
        if result.is_unanswered() {
            let Self(calls) = &self;
            calls.unanswered_ms.fetch_min(calls.current_ms.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        self.0.current_ms.store(NONE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKED: fn() -> Result<(), SinkError> = || Err(SinkError::Locked { path: "a.sqlite".into() });

    /// Calls with a clock of the test, in seconds.
    fn calls() -> (SinkCalls, impl Fn(f64) -> Instant) {
        let begun = Instant::now();
        (SinkCalls::since(begun), move |seconds| begun + Duration::from_secs_f64(seconds))
    }

    #[test]
    fn a_call_without_an_answer_for_two_seconds_is_waited_for() {
        let (calls, at) = calls();
        assert_eq!(calls.waiting_at(at(60.0)), Duration::ZERO, "no call has begun");
        let call = calls.begin_at(at(10.0));
        assert_eq!(calls.waiting_at(at(11.999)), Duration::ZERO);
        assert_eq!(calls.waiting_at(at(12.0)), WAITING_MIN);
        assert_eq!(calls.waiting_at(at(70.0)), Duration::from_secs(60));
        call.end(&());
        assert_eq!(calls.waiting_at(at(70.0)), Duration::ZERO, "the database has answered");
        let _second = calls.begin_at(at(20.0));
        assert_eq!(calls.waiting_at(at(21.9)), Duration::ZERO, "the wait begins with each call");
    }

    #[test]
    fn a_wait_for_a_lock_goes_on_through_all_tries_until_the_sink_works() {
        let (calls, at) = calls();
        calls.begin_at(at(10.0)).end(&LOCKED());
        assert_eq!(calls.waiting_at(at(11.9)), Duration::ZERO);
        assert_eq!(
            calls.waiting_at(at(12.0)),
            WAITING_MIN,
            "no call runs, and the loader waits for its next try"
        );
        // Reads work while another program holds the lock to write.
        calls.begin_at(at(12.5)).end(&Ok::<_, SinkError>(()));
        calls.begin_at(at(12.6)).end(&LOCKED());
        let _third = calls.begin_at(at(14.0));
        assert_eq!(calls.waiting_at(at(15.0)), Duration::from_secs(5));
        calls.answered();
        assert_eq!(calls.waiting_at(at(15.0)), Duration::ZERO);
        assert_eq!(calls.waiting_at(at(16.0)), WAITING_MIN, "the third call still runs");
    }
}

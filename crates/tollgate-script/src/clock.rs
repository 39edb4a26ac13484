//! The clock of scripts: that of the system, or one that a test stops and moves.
//!
//! Budgets, deadlines and the waits of a server are not asked here: they are always those of the system.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the scripts of a host have their time from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The system.
    #[default]
    System,
    /// What a test says.
    Test(Arc<TestClock>),
}

impl Clock {
    /// Microseconds since 1970.
    pub fn wall_us(&self) -> i64 {
        match self {
            Self::System => system_us(),
            Self::Test(clock) => clock.stopped().as_ref().map_or_else(system_us, |stopped| stopped.wall_us),
        }
    }

    /// Monotonic time.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => Instant::now(),
            Self::Test(clock) => clock.stopped().as_ref().map_or_else(Instant::now, |stopped| stopped.at),
        }
    }

    /// Lets time pass; a clock that stands still is moved on.
    pub(crate) async fn sleep(self, duration: Duration) {
        match self {
            Self::Test(clock) if clock.stopped().is_some() => Nap::begin(clock, duration).await,
            _ => tokio::time::sleep(duration).await,
        }
    }
}

/// A clock that goes as that of the system does until a test stops it; then it stands still but for
/// [`advance`](Self::advance) and for scripts that sleep.
#[derive(Debug, Default)]
pub struct TestClock(Mutex<Option<Stopped>>);

#[derive(Debug)]
struct Stopped {
    wall_us: i64,
    at: Instant,
    /// Who sleeps until when.
    sleepers: BTreeSet<(Instant, u64)>,
    /// How many slept.
    count: u64,
}

impl TestClock {
    /// Stops it at a time in microseconds since 1970. As with any clock that is set, no time passes.
    pub(crate) fn set(&self, wall_us: i64) {
        let mut stopped = self.stopped();
        stopped.get_or_insert_with(Stopped::now).wall_us = wall_us;
    }

    /// Stops it, and lets so much time pass. Returns false, and does nothing, if that leads behind `end_us`.
    pub(crate) fn advance(&self, by: Duration, end_us: i64) -> bool {
        let mut stopped = self.stopped();
        let stopped = stopped.get_or_insert_with(Stopped::now);
        let end = stopped.wall_us.saturating_add(microseconds(by));
        let Some(at) = stopped.at.checked_add(by).filter(|_| end <= end_us) else { return false };
        (stopped.wall_us, stopped.at) = (end, at);
        true
    }

    /// A thread that panics ends the process; nothing is left half changed.
    fn stopped(&self) -> MutexGuard<'_, Option<Stopped>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stopped {
    fn now() -> Self {
        Self { wall_us: system_us(), at: Instant::now(), sleepers: BTreeSet::new(), count: 0 }
    }

    fn move_to(&mut self, at: Instant) {
        let passed = at.saturating_duration_since(self.at);
        self.wall_us = self.wall_us.saturating_add(microseconds(passed));
        self.at += passed;
    }
}

/// A sleep by a clock that stands still. Of several that sleep the first to wake moves the clock, so they
/// wake in their order.
struct Nap {
    clock: Arc<TestClock>,
    end: Instant,
    number: u64,
    /// Whether it gave others the time to lie down, too.
    has_begun: bool,
}

impl Nap {
    fn begin(clock: Arc<TestClock>, duration: Duration) -> Self {
        let (end, number) = {
            let mut stopped = clock.stopped();
            let stopped = stopped.get_or_insert_with(Stopped::now);
            let end = stopped.at + duration;
            stopped.count += 1;
            stopped.sleepers.insert((end, stopped.count));
            (end, stopped.count)
        };
        Self { clock, end, number, has_begun: false }
    }
}

impl Future for Nap {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        let mut stopped = self.clock.stopped();
        let Some(stopped) = stopped.as_mut() else { return Poll::Ready(()) };
        let is_next = stopped.sleepers.first() == Some(&(self.end, self.number));
        if has_begun && is_next {
            stopped.move_to(self.end);
        }
        if has_begun && self.end <= stopped.at {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        if let Some(stopped) = self.clock.stopped().as_mut() {
            stopped.sleepers.remove(&(self.end, self.number));
        }
    }
}

/// The last microsecond of 9999-12-30, as far as jiff counts, which leaves hours for time zones. A clock
/// outside 1970 to 9999 is moved to the nearer end: RFC 3339 has no room for it.
const LAST_US: i64 = 253_402_207_199_999_999;

fn microseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "the one wall clock of scripts")]
fn system_us() -> i64 {
    microseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()).min(LAST_US)
}

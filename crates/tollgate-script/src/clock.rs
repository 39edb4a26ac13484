//! The clock of scripts: the system clock, or a clock that a test stops and moves.
//!
//! Budgets, deadlines and waits of the server do not use this clock, but always the system clock.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate_value::TIMESTAMP_LAST_US;

/// Source of time for the scripts of a `Host`.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The system clock.
    #[default]
    System,
    /// A clock that a test controls.
    Test(Arc<TestClock>),
}

impl Clock {
    /// Returns the wall clock in microseconds since 1970.
    pub fn wall_us(&self) -> i64 {
        match self {
            Self::System => system_us(),
            Self::Test(clock) => clock.stopped().as_ref().map_or_else(system_us, |stopped| stopped.wall_us),
        }
    }

    /// Returns the monotonic time.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::System => Instant::now(),
            Self::Test(clock) => clock.stopped().as_ref().map_or_else(Instant::now, |stopped| stopped.at),
        }
    }

    /// Waits for `duration`. With a stopped clock, the clock is advanced instead.
    pub(crate) async fn sleep(self, duration: Duration) {
        match self {
            Self::Test(clock) if clock.stopped().is_some() => Nap::begin(clock, duration).await,
            _ => tokio::time::sleep(duration).await,
        }
    }
}

/// A clock that follows the system clock until a test stops it.
///
/// A stopped clock moves only by [`advance`](Self::advance) and by scripts that sleep.
#[derive(Debug, Default)]
pub struct TestClock(Mutex<Option<Stopped>>);

#[derive(Debug)]
struct Stopped {
    wall_us: i64,
    at: Instant,
    /// End of each sleep, and the number of the sleep.
    sleepers: BTreeSet<(Instant, u64)>,
    /// Number of sleeps so far.
    count: u64,
}

impl TestClock {
    /// Stops the clock at a time in microseconds since 1970. The monotonic time does not change, because
    /// setting a wall clock never changes it.
    pub(crate) fn set(&self, wall_us: i64) {
        let mut stopped = self.stopped();
        stopped.get_or_insert_with(Stopped::now).wall_us = wall_us;
    }

    /// Stops the clock and advances it. Returns false, and does nothing, if the new time would be after
    /// `end_us`.
    pub(crate) fn advance(&self, by: Duration, end_us: i64) -> bool {
        let mut stopped = self.stopped();
        let stopped = stopped.get_or_insert_with(Stopped::now);
        let end = stopped.wall_us.saturating_add(microseconds(by));
        let Some(at) = stopped.at.checked_add(by).filter(|_| end <= end_us) else { return false };
        (stopped.wall_us, stopped.at) = (end, at);
        true
    }

    /// Locks the state of the stopped clock. A poisoned lock is used as well, because a thread that panics
    /// ends the process.
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

/// A sleep on a stopped clock. The sleep with the earliest end moves the clock, so sleeps end in the right
/// order.
struct Nap {
    clock: Arc<TestClock>,
    end: Instant,
    number: u64,
    /// Whether the future was polled once. The clock does not move before that, so that other calls can begin
    /// their sleep.
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

fn microseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the time of the system clock. A clock before 1970 counts as 1970. A clock after the last timestamp
/// counts as the last timestamp.
#[expect(clippy::disallowed_methods, reason = "the one wall clock of scripts")]
fn system_us() -> i64 {
    microseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()).min(TIMESTAMP_LAST_US)
}

//! The clock of one worker: wall time for records and `Date`, and a coarse instant for deadlines.
//!
//! No decision depends on wall time.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate_http::http_date;

/// How often [`Clock::tick`] is called, and so how coarse deadlines and `Date` are.
pub(crate) const TICK: Duration = Duration::from_millis(250);

pub(crate) struct Clock {
    date: Cell<[u8; 29]>,
    coarse: Cell<Instant>,
    /// Wall time at the coarse instant, in microseconds since 1970.
    wall_us: Cell<i64>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let (wall, coarse) = (wall_clock(), Instant::now());
        Self {
            date: Cell::new(http_date(wall)),
            coarse: Cell::new(coarse),
            wall_us: Cell::new(since_epoch_us(wall)),
        }
    }

    /// Moves `Date`, wall time and the coarse instant on.
    pub(crate) fn tick(&self) {
        let wall = wall_clock();
        self.date.set(http_date(wall));
        self.wall_us.set(since_epoch_us(wall));
        self.coarse.set(Instant::now());
    }

    /// The value of `Date`, at most one tick old.
    pub(crate) fn date(&self) -> [u8; 29] {
        self.date.get()
    }

    /// The time of the last tick.
    pub(crate) fn coarse(&self) -> Instant {
        self.coarse.get()
    }

    /// Wall time at an instant, in microseconds since 1970. Counted on from the last tick: one clock is read less, and
    /// a clock that is set is followed within a tick.
    pub(crate) fn wall_us(&self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.coarse.get());
        self.wall_us.get().saturating_add(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

fn since_epoch_us(wall: SystemTime) -> i64 {
    let since = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "the one wall clock of the server")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

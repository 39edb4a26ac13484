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
    ticks: Cell<u32>,
    /// Wall time at the coarse instant, in microseconds since 1970.
    wall_us: Cell<i64>,
}

/// A moment by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    /// Wall time in microseconds since 1970.
    pub(crate) wall_us: i64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let (wall, coarse) = (wall_clock(), Instant::now());
        Self {
            date: Cell::new(http_date(wall)),
            coarse: Cell::new(coarse),
            ticks: Cell::new(0),
            wall_us: Cell::new(since_epoch_us(wall)),
        }
    }

    /// Moves `Date`, wall time and the coarse instant on.
    pub(crate) fn tick(&self) {
        let wall = wall_clock();
        self.date.set(http_date(wall));
        self.wall_us.set(since_epoch_us(wall));
        self.coarse.set(Instant::now());
        self.ticks.set(self.ticks.get().wrapping_add(1));
    }

    /// How often it was moved on.
    pub(crate) fn ticks(&self) -> u32 {
        self.ticks.get()
    }

    /// The value of `Date`, at most one tick old.
    pub(crate) fn date(&self) -> [u8; 29] {
        self.date.get()
    }

    /// The time of the last tick.
    pub(crate) fn coarse(&self) -> Instant {
        self.coarse.get()
    }

    /// This moment. Wall time is counted on from the last tick: one clock is read less, and a clock that is set is followed
    /// within a tick.
    pub(crate) fn now(&self) -> Moment {
        let at = Instant::now();
        let since = at.saturating_duration_since(self.coarse.get());
        let since_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Moment { at, wall_us: self.wall_us.get().saturating_add(since_us) }
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

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
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { date: Cell::new(http_date(wall_clock())), coarse: Cell::new(Instant::now()) }
    }

    /// Moves `Date` and the coarse instant on.
    pub(crate) fn tick(&self) {
        self.date.set(http_date(wall_clock()));
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

    /// Wall time in microseconds since 1970.
    pub(crate) fn wall_us(&self) -> i64 {
        let since = wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
}

#[expect(clippy::disallowed_methods, reason = "the one wall clock of the server")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

//! The clock of one worker: wall time for records and `Date`, and a coarse instant for deadlines.
//!
//! No decision depends on wall time.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate_http::http_date;
use tollgate_value::TIMESTAMP_LAST_US;

/// Time between two calls of [`WorkerClock::tick`], which is also the precision of deadlines.
pub(crate) const TICK: Duration = Duration::from_millis(250);

pub(crate) struct WorkerClock {
    date: Cell<[u8; 29]>,
    /// Time when the value of `Date` changes next, in microseconds since 1970.
    date_ends_us: Cell<i64>,
    coarse: Cell<Instant>,
    ticks: Cell<u32>,
    /// Wall time at the coarse instant, in microseconds since 1970.
    wall_us: Cell<i64>,
}

/// A moment in monotonic and wall time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    /// Wall time in microseconds since 1970.
    pub(crate) wall_us: i64,
}

impl WorkerClock {
    pub(crate) fn new() -> Self {
        let clock = Self {
            date: Cell::new([0; 29]),
            date_ends_us: Cell::new(0),
            coarse: Cell::new(Instant::now()),
            ticks: Cell::new(0),
            wall_us: Cell::new(wall_clock_us()),
        };
        clock.set_date(clock.wall_us.get());
        clock
    }

    /// Updates `Date`, wall time and the coarse instant.
    pub(crate) fn tick(&self) {
        let wall_us = wall_clock_us();
        self.set_date(wall_us);
        self.wall_us.set(wall_us);
        self.coarse.set(Instant::now());
        self.ticks.set(self.ticks.get().wrapping_add(1));
    }

    /// Returns the number of ticks so far.
    pub(crate) fn ticks(&self) -> u32 {
        self.ticks.get()
    }

    /// Returns the value of `Date`: the second of the last returned moment, or a later second.
    pub(crate) fn date(&self) -> [u8; 29] {
        self.date.get()
    }

    /// Returns the time of the last tick.
    pub(crate) fn coarse(&self) -> Instant {
        self.coarse.get()
    }

    /// Returns the current moment.
    ///
    /// Wall time is extrapolated from the last tick. The extrapolation saves one clock reading. A change of
    /// the system clock takes effect within a tick. `Date` is updated together with the wall time, so that no
    /// reply names a time after its own `Date`.
    pub(crate) fn now(&self) -> Moment {
        let at = Instant::now();
        let since = at.saturating_duration_since(self.coarse.get());
        let since_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        let wall_us = self.wall_us.get().saturating_add(since_us);
        if wall_us >= self.date_ends_us.get() {
            // Extrapolation never leaves the range of timestamps.
            let wall_us = wall_us.min(TIMESTAMP_LAST_US);
            self.set_date(wall_us);
            return Moment { at, wall_us };
        }
        Moment { at, wall_us }
    }

    #[cold]
    fn set_date(&self, wall_us: i64) {
        let second = wall_us.div_euclid(SECOND_US);
        self.date.set(http_date(UNIX_EPOCH + Duration::from_secs(second.try_into().unwrap_or_default())));
        self.date_ends_us.set((second + 1).saturating_mul(SECOND_US));
    }
}

const SECOND_US: i64 = 1_000_000;

/// Returns the time of the system clock. A clock before 1970 counts as 1970. A clock after the last timestamp
/// counts as the last timestamp, because `Date` and RFC 3339 end with the year 9999.
#[expect(clippy::disallowed_methods, reason = "the one wall clock of the server")]
fn wall_clock_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).map_or(TIMESTAMP_LAST_US, |us| us.min(TIMESTAMP_LAST_US))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_time_never_leaves_the_range_of_timestamps() {
        let clock = WorkerClock::new();
        clock.wall_us.set(TIMESTAMP_LAST_US);
        clock.set_date(TIMESTAMP_LAST_US);
        clock.coarse.set(Instant::now().checked_sub(Duration::from_secs(2)).unwrap());
        assert_eq!(clock.now().wall_us, TIMESTAMP_LAST_US);
        assert_eq!(&clock.date()[..16], b"Fri, 31 Dec 9999");
    }

    #[test]
    fn date_is_that_of_the_last_moment() {
        let clock = WorkerClock::new();
        for ms in [0, 400, 999, 1000, 1001, 3500] {
            let coarse = Instant::now().checked_sub(Duration::from_millis(ms)).unwrap();
            clock.coarse.set(coarse);
            let Moment { wall_us, .. } = clock.now();
            let of_moment = http_date(UNIX_EPOCH + Duration::from_micros(wall_us.try_into().unwrap()));
            assert_eq!(clock.date(), of_moment, "{ms} ms after a tick");
        }
    }
}

//! The number of log lines of each library. A library may log a line for each row or each connection, for
//! example the notices of a trigger in PostgreSQL.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Begins the target of each line of this program. These lines have limits where they are made.
const OWN_PREFIX: &str = "tollgate";
/// Name of the field with the target of a line that a library wrote by the crate `log`.
pub(super) const LOG_TARGET: &str = "log.target";
/// Maximum number of lines of a library in each period.
const LINES_MAX: u32 = 5;
const PERIOD: Duration = Duration::from_secs(1);

/// Counts the lines of each library.
#[derive(Debug, Default)]
pub(super) struct LibraryLimit(Mutex<BTreeMap<String, Window>>);

/// The lines of a library in the present period.
#[derive(Debug)]
struct Window {
    begun: Instant,
    lines: u32,
    left_out: u64,
}

/// What happens to a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The line is printed. `left_out` lines of the library before it were not.
    Print {
        left_out: u64,
    },
    LeaveOut,
}

impl LibraryLimit {
    /// Counts a line of a target.
    pub(super) fn take(&self, target: &str) -> Turn {
        if target.starts_with(OWN_PREFIX) {
            return Turn::Print { left_out: 0 };
        }
        self.take_at(target, Instant::now())
    }

    fn take_at(&self, target: &str, now: Instant) -> Turn {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || Window { begun: now, lines: 0, left_out: 0 };
        let window = windows.entry(target.to_owned()).or_insert_with(begin);
        let mut left_out = 0;
        if now.duration_since(window.begun) >= PERIOD {
            left_out = window.left_out;
            *window = begin();
        }
        if window.lines == LINES_MAX {
            window.left_out += 1;
            return Turn::LeaveOut;
        }
        window.lines += 1;
        Turn::Print { left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_prints_a_few_lines_a_second_and_then_says_how_many_it_left_out() {
        let (limit, begun) = (LibraryLimit::default(), Instant::now());
        let take = |target, ms| limit.take_at(target, begun + Duration::from_millis(ms));
        for ms in 0..u64::from(LINES_MAX) {
            assert_eq!(take("a", ms), Turn::Print { left_out: 0 });
        }
        for ms in 10..13 {
            assert_eq!(take("a", ms), Turn::LeaveOut);
        }
        assert_eq!(take("b", 13), Turn::Print { left_out: 0 }, "each library has its own limit");
        assert_eq!(take("a", 1_000), Turn::Print { left_out: 3 });
        assert_eq!(take("a", 1_001), Turn::Print { left_out: 0 });
        for _ in 0..100 {
            assert_eq!(limit.take("tollgate::serve"), Turn::Print { left_out: 0 });
        }
    }
}

//! The only use of the wall clock in the loader: times for people, and the lag. No decision depends on it.

use std::time::{SystemTime, UNIX_EPOCH};

/// The last time that jiff can represent, in microseconds since 1970. This time is hours before the end of
/// the year 9999, so that the same time in any time zone is in that year too.
const LAST_US: i64 = 253_402_207_199_999_999;

/// Returns the current time in microseconds since 1970. If the clock is outside the years 1970 to 9999,
/// returns the nearest time in these years, because tables have no text for other times.
#[expect(clippy::disallowed_methods, reason = "the one wall clock of the loader")]
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).map_or(LAST_US, |us| us.min(LAST_US))
}

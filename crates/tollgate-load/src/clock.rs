//! The only use of the wall clock in the loader: times for people, and the lag. No decision depends on it.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_value::TIMESTAMP_LAST_US;

/// Returns the current time in microseconds since 1970. If the clock is outside the years 1970 to 9999,
/// returns the nearest time in these years, because tables have no text for later times.
#[expect(clippy::disallowed_methods, reason = "the one wall clock of the loader")]
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).map_or(TIMESTAMP_LAST_US, |us| us.min(TIMESTAMP_LAST_US))
}

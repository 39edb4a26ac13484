//! The one wall clock of the loader: times for people, and the lag. Nothing is decided by it.

use std::time::{SystemTime, UNIX_EPOCH};

/// The last microsecond of 9999-12-30, as far as jiff counts, which leaves hours for time zones.
const LAST_US: i64 = 253_402_207_199_999_999;

/// Microseconds since 1970. A clock outside 1970 to 9999 is moved to the nearer end: tables have no text for
/// it.
#[expect(clippy::disallowed_methods, reason = "the one wall clock of the loader")]
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).map_or(LAST_US, |us| us.min(LAST_US))
}

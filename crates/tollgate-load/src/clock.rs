//! The only wall clock of the loader: times for people, and the lag. No decision depends on it.

use std::time::{SystemTime, UNIX_EPOCH};

/// The last microsecond of 9999-12-30. jiff counts no further, to leave hours for time zones.
const LAST_US: i64 = 253_402_207_199_999_999;

/// Returns microseconds since 1970. A time outside 1970 to 9999 is replaced by the nearest time inside,
/// because tables have no text for it.
#[expect(clippy::disallowed_methods, reason = "the one wall clock of the loader")]
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).map_or(LAST_US, |us| us.min(LAST_US))
}

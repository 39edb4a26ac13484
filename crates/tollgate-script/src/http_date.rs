//! Times of scripts, in microseconds since 1970, as HTTP dates (RFC 9110 section 5.6.7).

use std::time::{Duration, UNIX_EPOCH};

use tollgate_http::http_date;

/// Last microsecond that an HTTP date may have. This time is some hours before the end of the year 9999, so
/// that its date is in 9999 in every time zone.
pub(crate) const HTTP_LAST_US: i64 = 253_402_207_200_000_000 - 1;

/// Returns the IMF-fixdate of a time. A time outside the range becomes the nearer end of the range.
pub(crate) fn http_date_of(us: i64) -> [u8; 29] {
    http_date(UNIX_EPOCH + Duration::from_micros(u64::try_from(us).unwrap_or_default()))
}

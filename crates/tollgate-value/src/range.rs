//! The range of timestamps.
//!
//! The range is common to RFC 3339 (years 0000 to 9999), PostgreSQL, and the date libraries of clients, which
//! begin with the year 0001. It ends with 9999-12-31T23:59:59.999999Z, which programs write for "never ends".
//! The types of jiff end a day earlier, so they do not decide here.

use std::ops::RangeInclusive;

/// First timestamp, 0001-01-01T00:00:00Z, in microseconds since 1970.
pub const TIMESTAMP_FIRST_US: i64 = -62_135_596_800_000_000;
/// Last timestamp, 9999-12-31T23:59:59.999999Z, in microseconds since 1970.
pub const TIMESTAMP_LAST_US: i64 = 253_402_300_799_999_999;
/// All timestamps, in microseconds since 1970.
pub const TIMESTAMP_US: RangeInclusive<i64> = TIMESTAMP_FIRST_US..=TIMESTAMP_LAST_US;

//! Times and decimal numbers as values: the range of timestamps, their units, their zones, and their text.
//!
//! A timestamp is a count of microseconds since 1970-01-01T00:00:00Z, within [`TIMESTAMP_US`]. JSON, scripts,
//! columns, both databases, the loader and `log cat` share this range and these conversions.
//!
//! Absent here: clocks. The caller passes a time in.

mod civil;
mod decimal;
mod range;
mod timestamp;
mod unit;
mod zone;

pub use civil::{CivilTime, civil_time};
pub use decimal::exact_integer;
pub use range::{TIMESTAMP_FIRST_US, TIMESTAMP_LAST_US, TIMESTAMP_US};
pub use timestamp::{TimestampError, parse_timestamp, timestamp_text, trimmed_timestamp_text};
pub use unit::TimeUnit;
pub use zone::{Zone, ZoneError};

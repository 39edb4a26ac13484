//! Times, dates and decimal numbers as values: their ranges, their units, their zones, and their text.
//!
//! A timestamp is a count of microseconds since 1970-01-01T00:00:00Z, within [`TIMESTAMP_US`]. JSON, scripts,
//! columns, both databases, the loader and `log cat` share these ranges and these conversions.
//!
//! Absent here: clocks. The caller passes a time in.

mod civil;
mod date;
mod decimal;
mod decimal_text;
mod digits;
mod range;
mod time_of_day;
mod timestamp;
mod unit;
mod zone;

pub use civil::{CivilTime, civil_time};
pub use date::Date;
pub use decimal::{Decimal, DecimalSize};
pub use decimal_text::exact_integer;
pub use range::{TIMESTAMP_FIRST_US, TIMESTAMP_LAST_US, TIMESTAMP_US};
pub use time_of_day::TimeOfDay;
pub use timestamp::{TimestampError, parse_timestamp, timestamp_text, trimmed_timestamp_text};
pub use unit::TimeUnit;
pub use zone::{Zone, ZoneError};

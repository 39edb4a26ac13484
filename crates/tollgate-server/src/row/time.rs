//! Converts times from scripts and clients to timestamps, by the unit and the zone of their column.
//!
//! A number without a unit is in microseconds. Programs write seconds and milliseconds far more often, and as
//! microseconds such a number is a time in January 1970. So a positive number before the year 1975 does not
//! fit without a unit, and the error offers the units.

use tollgate_log::{Value, ValueError};
use tollgate_value::{TIMESTAMP_US, TimestampError, parse_timestamp};

use super::unfit::{json_string, unfit, unfit_for};
use super::{ColumnWriter, Target};

/// Positive numbers before 1975, which are no microseconds of our time. Milliseconds reach the end of this
/// range in the year 6969.
const NEEDS_UNIT: std::ops::Range<i64> = 1..157_766_400_000_000;
const WITH_UNIT: &str = "timestamp (without unit a number is microseconds, from 1975 on: set unit = \"s\", \
                         \"ms\", \"us\" or \"ns\")";
const WITH_ZONE: &str = "timestamp with an offset (set zone to accept times without one)";

/// Writes a number, as JSON writes it.
pub(super) fn push_number(
    text: &str,
    column: &Target,
    row: &mut impl ColumnWriter,
) -> Result<(), ValueError> {
    let us = match column.times.unit {
        Some(unit) => unit.microseconds(text).ok_or_else(|| unfit(column, text))?,
        None => microseconds(text.parse().ok(), column, &text)?,
    };
    row.push(Value::Timestamp(us))
}

/// Writes an integer.
pub(super) fn push_int(value: i64, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    match column.times.unit {
        Some(_) => push_number(&value.to_string(), column, row),
        None => row.push(Value::Timestamp(microseconds(Some(value), column, &value)?)),
    }
}

/// Writes a text: a time of RFC 3339, or a number if the column has a unit.
pub(super) fn push_text(text: &str, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    let us = match parse_timestamp(text, column.times.zone.as_ref()) {
        Ok(us) => us,
        Err(error) => of_other_text(text, error, column)?,
    };
    row.push(Value::Timestamp(us))
}

#[cold]
fn of_other_text(text: &str, error: TimestampError, column: &Target) -> Result<i64, ValueError> {
    if let Some(us) = column.times.unit.and_then(|unit| unit.microseconds(text)) {
        return Ok(us);
    }
    Err(match error {
        TimestampError::NoOffset => unfit_for(column, &json_string(text), WITH_ZONE),
        TimestampError::Unfit => unfit(column, &json_string(text)),
    })
}

/// Checks a number of microseconds. `value` is `None` if the number is no integer of 64 bits.
fn microseconds(
    value: Option<i64>,
    column: &Target,
    found: &dyn std::fmt::Display,
) -> Result<i64, ValueError> {
    match value {
        Some(us) if NEEDS_UNIT.contains(&us) => Err(unfit_for(column, &found.to_string(), WITH_UNIT)),
        Some(us) if TIMESTAMP_US.contains(&us) => Ok(us),
        Some(_) => Err(unfit(column, &found.to_string())),
        None => Err(unfit_for(column, &found.to_string(), WITH_UNIT)),
    }
}

#[cfg(test)]
mod tests;

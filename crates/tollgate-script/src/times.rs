//! Timestamps as arguments and results of script functions, in microseconds since 1970.

use mlua::Value;
use tollgate_value::{TIMESTAMP_LAST_US, TIMESTAMP_US};

use crate::arguments::whole_number;

/// Reads a timestamp.
///
/// # Errors
/// Any other value. The error names the value as `what`.
pub(crate) fn timestamp(what: &str, value: &Value) -> mlua::Result<i64> {
    whole_number(what, value, TIMESTAMP_US)
}

/// Returns a timestamp as a number of Luau. Doubles are exact up to the year 2255. A later time becomes the
/// nearest double, but never a time after the last timestamp.
pub(crate) fn number(us: i64) -> f64 {
    let nearest = us as f64;
    if nearest as i64 > TIMESTAMP_LAST_US { nearest.next_down() } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_stays_a_timestamp_as_a_number() {
        for us in [*TIMESTAMP_US.start(), -1, 0, 1 << 53, TIMESTAMP_LAST_US - 999_999, TIMESTAMP_LAST_US] {
            let number = number(us);
            assert!((number as i64 - us).abs() < 64, "{us}: {number}");
            assert!(TIMESTAMP_US.contains(&(number as i64)), "{us}: {number}");
        }
    }
}

//! Values of another type that are exactly a value of their column's type: `"12.34"`, `"true"`, `3.0`.
//!
//! A column accepts them only with `coerce`, because in JSON such a value is usually a mistake of the client.

use tollgate_log::{ColumnType, Value, ValueError};
use tollgate_value::exact_integer;

use super::unfit::{json_string, unfit};
use super::{ColumnWriter, Target};

/// Writes a number that is no integer of JSON, such as `3.0`.
#[cold]
pub(super) fn push_number(
    json: &str,
    column: &Target,
    row: &mut impl ColumnWriter,
) -> Result<(), ValueError> {
    match exact_integer(json) {
        Some(value) if column.coerce && column.kind == ColumnType::Int => row.push(Value::Int(value)),
        _ => Err(unfit(column, json)),
    }
}

/// Writes a text that has the form of a number or of a boolean.
#[cold]
pub(super) fn push_text(text: &str, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    let value = match column.kind {
        _ if !column.coerce => None,
        ColumnType::Int => exact_integer(text).map(Value::Int),
        ColumnType::Float => {
            text.parse().ok().filter(|value: &f64| value.is_finite() && is_number(text)).map(Value::Float)
        }
        ColumnType::Bool => text.parse().ok().map(Value::Bool),
        _ => None,
    };
    match value {
        Some(value) => row.push(value),
        None => Err(unfit(column, &json_string(text))),
    }
}

/// Returns whether a text begins and ends as a number of JSON does. Rust also parses `+1` and `1.`.
fn is_number(text: &str) -> bool {
    let (text, bytes) = (text.strip_prefix('-').unwrap_or(text), text.as_bytes());
    text.starts_with(|first: char| first.is_ascii_digit()) && bytes.last().is_some_and(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests;

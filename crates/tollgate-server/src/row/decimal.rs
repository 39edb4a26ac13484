//! Converts numbers to decimals. No digit is lost, and none is rounded.

use tollgate_log::{ColumnType, Value, ValueError};
use tollgate_value::Decimal;

use super::unfit::{json_string, unfit, unfit_for};
use super::{ColumnWriter, Target};

/// Writes a number as JSON writes it.
pub(super) fn push_number(
    json: &str,
    column: &Target,
    row: &mut impl ColumnWriter,
) -> Result<(), ValueError> {
    push(Decimal::parse(json), column, row, || unfit(column, json))
}

/// Writes a text that is such a number.
pub(super) fn push_text(text: &str, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    push(Decimal::parse(text), column, row, || unfit(column, &json_string(text)))
}

/// Writes an integer.
pub(super) fn push_int(value: i64, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    push(Some(value.into()), column, row, || unfit(column, &value.to_string()))
}

/// Writes a number of a script. Such a number is a double, and no double is equal to 12.34. So the column
/// accepts it only with `coerce`, and only where the double is exactly a decimal, such as 12.5.
#[cold]
pub(super) fn push_double(
    value: f64,
    column: &Target,
    row: &mut impl ColumnWriter,
) -> Result<(), ValueError> {
    let exact = if column.coerce { Decimal::of_double(value) } else { None };
    push(exact, column, row, || {
        let allowed = format!("{} as a string, because a number of a script is a double", column.kind);
        unfit_for(column, &value.to_string(), allowed)
    })
}

fn push(
    value: Option<Decimal>,
    column: &Target,
    row: &mut impl ColumnWriter,
    unfit: impl FnOnce() -> ValueError,
) -> Result<(), ValueError> {
    let sized = value.and_then(|value| match column.kind {
        ColumnType::Decimal(Some(size)) => value.with_size(size),
        _ => Some(value),
    });
    row.push(Value::Decimal(sized.ok_or_else(unfit)?))
}

#[cfg(test)]
mod tests;

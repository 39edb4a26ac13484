//! Converts values from scripts and clients to the types of columns. The error for an unfit value names the
//! value and the type.
//!
//! A JSON number is converted to a double only for a column of type float. An array has the rules of its
//! elements.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use tollgate_log::{ColumnType, Value, ValueError};
use tollgate_script::FieldValue;
use tollgate_value::{Date, TimeOfDay};
use uuid::Uuid;

use super::halves::text_with_halves;
use super::unfit::{json_string, unfit};
use super::{ColumnWriter, Target, array, coerce, decimal, time};

/// Maximum number up to which doubles represent every integer.
const EXACT_MAX: i64 = 1 << 53;
/// Maximum depth of arrays and objects in a column of type json. Scripts have the same limit for reading and
/// writing. SQLite's JSON functions accept 1,000. PostgreSQL's `jsonb` is limited only by its stack.
const JSON_DEPTH_MAX: usize = 128;

/// Writes JSON text or null into a column of type json.
pub(crate) fn push_json(
    json: Option<&str>,
    column: &Target,
    row: &mut impl ColumnWriter,
) -> Result<(), ValueError> {
    match json {
        None => row.push(Value::Null),
        Some(json) if is_too_deep(json.as_bytes()) => {
            Err(ValueError::TooDeep { column: column.name.clone(), limit: JSON_DEPTH_MAX })
        }
        Some(json) => row.push(Value::Json(json)),
    }
}

/// Returns whether JSON has more than [`JSON_DEPTH_MAX`] levels. Short text cannot have that many levels, so
/// it is not searched.
fn is_too_deep(json: &[u8]) -> bool {
    json.len() > 2 * JSON_DEPTH_MAX && levels(json) > JSON_DEPTH_MAX
}

fn levels(json: &[u8]) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b']' | b'}' => open = open.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    deepest
}

/// Moves to the byte after the closing quote of a string.
fn skip_string<'a>(bytes: &mut impl Iterator<Item = &'a u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

/// Writes a value from a script into the row, converted to the type of the column.
pub(crate) fn push_script_value(
    value: &FieldValue,
    column: &Target,
    row: &mut impl ColumnWriter,
) -> Result<(), ValueError> {
    if column.kind == ColumnType::Json {
        return push_script_json(value, column, row);
    }
    match value {
        FieldValue::Nil => row.push(Value::Null),
        FieldValue::Bool(value) => push_bool(*value, column, row),
        FieldValue::Int(value) => push_int(*value, column, row),
        FieldValue::Float(value) => push_float(*value, column, row),
        FieldValue::Text(bytes) if column.kind == ColumnType::Bytes => row.push(Value::Bytes(bytes)),
        FieldValue::Text(bytes) => push_text(&String::from_utf8_lossy(bytes), column, row),
        FieldValue::Json(json) => push_script_list(json, column, row),
        FieldValue::Unfit(reason) => Err(unfit(column, reason)),
    }
}

/// Writes a table of a script, which is here as JSON. An empty table is an empty list.
fn push_script_list(json: &str, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    let ColumnType::Array(element) = column.kind else { return Err(unfit(column, json)) };
    let list = if json == "{}" { "[]" } else { json };
    array::push(list, element, column, row, |raw, target, row| match raw.get().parse::<f64>() {
        Ok(double) => match raw.get().parse() {
            Ok(integer) => push_int(integer, target, row),
            Err(_) => push_float(double, target, row),
        },
        Err(_) => push_json_value(raw, target, row),
    })
}

fn push_script_json(
    value: &FieldValue,
    column: &Target,
    row: &mut impl ColumnWriter,
) -> Result<(), ValueError> {
    match value {
        FieldValue::Nil => row.push(Value::Null),
        FieldValue::Json(json) => row.push(Value::Json(json)),
        FieldValue::Unfit(reason) => Err(unfit(column, reason)),
        FieldValue::Bool(value) => row.push(Value::Json(&value.to_string())),
        FieldValue::Int(value) => row.push(Value::Json(&value.to_string())),
        FieldValue::Float(value) if value.is_finite() => row.push(Value::Json(&format!("{value:?}"))),
        FieldValue::Float(value) => Err(unfit(column, &value.to_string())),
        FieldValue::Text(bytes) => row.push(Value::Json(&json_string(&String::from_utf8_lossy(bytes)))),
    }
}

/// Writes a value from JSON text into the row, converted to the type of the column.
pub(crate) fn push_json_value(
    value: &RawValue,
    column: &Target,
    row: &mut impl ColumnWriter,
) -> Result<(), ValueError> {
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'n') => row.push(Value::Null),
        _ if column.kind == ColumnType::Json => push_json(Some(json), column, row),
        Some(b't') => push_bool(true, column, row),
        Some(b'f') => push_bool(false, column, row),
        Some(b'"') => match serde_json::from_str::<String>(json) {
            Ok(text) => push_json_text(&text, column, row),
            Err(_) => push_json_text(&text_with_halves(json), column, row),
        },
        Some(b'[') => match column.kind {
            ColumnType::Array(element) => {
                array::push(json, element, column, row, |raw, target, row| push_json_value(raw, target, row))
            }
            _ => Err(unfit(column, json)),
        },
        Some(b'{') | None => Err(unfit(column, json)),
        Some(_) => push_number(json, column, row),
    }
}

fn push_number(json: &str, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    match column.kind {
        ColumnType::Float => match json.parse::<f64>() {
            Ok(value) if value.is_finite() => row.push(Value::Float(value)),
            _ => Err(unfit(column, json)),
        },
        ColumnType::Timestamp => time::push_number(json, column, row),
        ColumnType::Decimal(_) => decimal::push_number(json, column, row),
        _ => match json.parse() {
            Ok(value) => push_int(value, column, row),
            Err(_) => coerce::push_number(json, column, row),
        },
    }
}

/// Writes a JSON string into the row. JSON has no type for bytes, so a column of type bytes accepts base64
/// (RFC 4648 section 4).
fn push_json_text(text: &str, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    if column.kind != ColumnType::Bytes {
        return push_text(text, column, row);
    }
    match STANDARD.decode(text) {
        Ok(bytes) => row.push(Value::Bytes(&bytes)),
        Err(error) => Err(unfit(column, &format!("text that is not base64 ({error})"))),
    }
}

fn push_bool(value: bool, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    match column.kind {
        ColumnType::Bool => row.push(Value::Bool(value)),
        _ => Err(unfit(column, &value.to_string())),
    }
}

/// Writes an integer into the row.
fn push_int(value: i64, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    match column.kind {
        ColumnType::Int => row.push(Value::Int(value)),
        ColumnType::Float if (-EXACT_MAX..=EXACT_MAX).contains(&value) => {
            row.push(Value::Float(value as f64))
        }
        ColumnType::Timestamp => time::push_int(value, column, row),
        ColumnType::Decimal(_) => decimal::push_int(value, column, row),
        _ => Err(unfit(column, &value.to_string())),
    }
}

fn push_float(value: f64, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    match column.kind {
        ColumnType::Float if value.is_finite() => row.push(Value::Float(value)),
        // The shortest decimal text of a double is the text that the script read or wrote.
        ColumnType::Timestamp => time::push_number(&value.to_string(), column, row),
        ColumnType::Decimal(_) => decimal::push_double(value, column, row),
        _ => Err(unfit(column, &value.to_string())),
    }
}

/// Writes text of the request into the row, converted to the type of the column. Numbers and booleans are
/// parsed.
pub(super) fn push_read(text: &str, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    let unfit = || unfit(column, &json_string(text));
    match column.kind {
        ColumnType::Int => match text.parse() {
            Ok(value) => row.push(Value::Int(value)),
            Err(_) => coerce::push_text(text, column, row),
        },
        ColumnType::Bool => row.push(Value::Bool(text.parse().map_err(|_| unfit())?)),
        ColumnType::Float => match text.parse::<f64>() {
            Ok(value) if value.is_finite() => row.push(Value::Float(value)),
            _ => Err(unfit()),
        },
        _ => push_text(text, column, row),
    }
}

fn push_text(text: &str, column: &Target, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    let quoted = || unfit(column, &json_string(text));
    match column.kind {
        ColumnType::Text => row.push(Value::Text(text)),
        ColumnType::Timestamp => time::push_text(text, column, row),
        ColumnType::Uuid => {
            let id = Uuid::try_parse(text).map_err(|_| quoted())?;
            row.push(Value::Uuid(id.into_bytes()))
        }
        ColumnType::Inet => {
            let address: IpAddr = text.parse().map_err(|_| quoted())?;
            row.push(Value::Inet(address))
        }
        ColumnType::Decimal(_) => decimal::push_text(text, column, row),
        ColumnType::Date => row.push(Value::Date(Date::parse(text).ok_or_else(quoted)?)),
        ColumnType::Time => row.push(Value::Time(TimeOfDay::parse(text).ok_or_else(quoted)?)),
        _ => coerce::push_text(text, column, row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: usize) {
        assert_eq!(levels(json.as_bytes()), expect, "{json}");
        assert!(serde_json::from_str::<&RawValue>(json).is_ok(), "{json}");
    }

    #[test]
    fn levels_are_those_of_arrays_and_objects_but_not_of_texts() {
        check("5", 0);
        check("[]", 1);
        check(r#"[{"a":[1]},[[]],{}]"#, 3);
        check(r#"{"[[[[":"{{\"[[","\\":[]}"#, 2);
    }

    #[test]
    fn an_array_with_a_level_too_many_is_too_deep() {
        let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(!is_too_deep(nested(JSON_DEPTH_MAX).as_bytes()));
        assert!(is_too_deep(nested(JSON_DEPTH_MAX + 1).as_bytes()));
    }
}

//! Values of records as JSON.

use tollgate_log::{Array, LogId, Value};
use tollgate_value::trimmed_timestamp_text;

use crate::print::{base64, push_formatted, push_json_float, push_json_string};

/// Appends a value as JSON.
pub(crate) fn push_value(out: &mut String, value: Value<'_>) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => push_formatted(out, format_args!("{value}")),
        Value::Int(number) => push_formatted(out, format_args!("{number}")),
        Value::Float(number) => push_json_float(out, number),
        Value::Text(text) => push_json_string(out, text),
        Value::Bytes(bytes) => push_formatted(out, format_args!("\"{}\"", base64(bytes))),
        Value::Timestamp(us) => match trimmed_timestamp_text(us) {
            Some(time) => push_formatted(out, format_args!("\"{time}\"")),
            // An older log may have times outside the range, which have no RFC 3339 form.
            None => push_formatted(out, format_args!("{us}")),
        },
        // In JSON text, a line end between tokens has the meaning of a blank. In a string it is always an
        // escape.
        Value::Json(text) => out.push_str(&text.replace(['\n', '\r'], " ")),
        // `LogId` is used because it prints its bytes in the form of a UUID.
        Value::Uuid(bytes) => push_formatted(out, format_args!("\"{}\"", LogId::from_bytes(bytes))),
        Value::Inet(address) => push_formatted(out, format_args!("\"{address}\"")),
        // Most readers of JSON make a double of a number, which would lose digits.
        Value::Decimal(number) => push_formatted(out, format_args!("\"{number}\"")),
        Value::Date(date) => push_formatted(out, format_args!("\"{date}\"")),
        Value::Time(time) => push_formatted(out, format_args!("\"{time}\"")),
        Value::Array(array) => push_array(out, array),
    }
}

fn push_array(out: &mut String, array: Array<'_>) {
    out.push('[');
    for (index, value) in array.elements().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push_value(out, value);
    }
    out.push(']');
}

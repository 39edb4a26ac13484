//! Rows and values as JSON. A reject stores its row as JSON, for programs and for people.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Json;
use serde_json::value::RawValue;
use tollgate_log::{Schema, Value};
use tollgate_value::timestamp_text;

use super::key::{KeptKey, millis};

/// Maximum bytes of an item as readable text. The item itself is stored completely.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// A record as a row, with the columns for which it has a value.
#[derive(Default)]
pub struct ItemRow {
    fields: BTreeMap<String, String>,
    pub(super) key: Option<KeptKey>,
}

impl ItemRow {
    /// Sets the value of a column.
    pub fn push(&mut self, column: &str, value: &Value<'_>) {
        self.fields.insert(column.to_owned(), json_text(value));
    }

    /// Sets the key of the row, and how long a sink remembers the key.
    pub fn set_key(&mut self, key: &[u8], window: Duration) {
        self.key = Some(KeptKey { bytes: key.into(), window_ms: millis(window) });
    }

    /// Returns the row as a JSON object.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let fields: Vec<_> =
            self.fields.iter().map(|(name, json)| format!("{}:{json}", Json::from(name.as_str()))).collect();
        format!("{{{}}}", fields.join(",")).into_bytes()
    }
}

/// Returns a row as a JSON object. The reject table stores it for a row that the database refused.
pub(super) fn row_as_json(schema: &Schema, values: &[Value<'_>]) -> Vec<u8> {
    let mut row = ItemRow::default();
    let columns = schema.columns().iter().zip(values).filter(|(column, _)| !column.is_key());
    columns.for_each(|(column, value)| row.push(&column.name, value));
    row.to_json()
}

/// Returns a value as JSON. A value of the type json keeps its text, so no digit is lost, and the value may
/// be nested too deeply to be parsed. A decimal is a string, because most readers of JSON make a double of a
/// number.
pub(super) fn json_text(value: &Value<'_>) -> String {
    let mut json = Vec::new();
    write_json(value, &mut json);
    String::from_utf8(json).unwrap_or_default()
}

/// Appends a value as JSON: see [`json_text`].
pub(super) fn write_json(value: &Value<'_>, json: &mut Vec<u8>) {
    let written = match value {
        Value::Json(text) if serde_json::from_str::<&RawValue>(text).is_ok() => {
            json.extend_from_slice(text.as_bytes());
            Ok(())
        }
        Value::Text(text) | Value::Json(text) => serde_json::to_writer(json, text),
        Value::Int(number) => serde_json::to_writer(json, number),
        value => serde_json::to_writer(json, &value_as_json(value)),
    };
    debug_assert!(written.is_ok(), "a write into memory cannot fail");
}

/// Returns a value as JSON. Numbers that JSON cannot represent, and invalid JSON, become text. Bytes become
/// hexadecimal after `\x`.
fn value_as_json(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::Float(value) if value.is_finite() => Json::from(*value),
        Value::Float(value) => Json::String(value.to_string()),
        Value::Text(value) | Value::Json(value) => Json::String((*value).to_owned()),
        Value::Bytes(value) => {
            let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            Json::String(format!("\\x{digits}"))
        }
        Value::Timestamp(us) => match timestamp_text(*us) {
            Some(text) => Json::String(String::from_utf8_lossy(&text).into_owned()),
            None => Json::from(*us),
        },
        Value::Uuid(value) => Json::String(uuid::Uuid::from_bytes(*value).to_string()),
        Value::Inet(value) => Json::String(value.to_string()),
        Value::Decimal(value) => Json::String(value.to_string()),
        Value::Date(value) => Json::String(value.to_string()),
        Value::Time(value) => Json::String(value.to_string()),
        Value::Array(value) => Json::Array(value.elements().map(|value| value_as_json(&value)).collect()),
    }
}

/// Returns the beginning of an item as text for people. U+FFFD replaces invalid UTF-8 and U+0000.
pub(super) fn readable(item: &[u8]) -> String {
    let head = &item[..item.len().min(TEXT_BYTES_MAX)];
    String::from_utf8_lossy(head).replace('\0', "\u{fffd}")
}

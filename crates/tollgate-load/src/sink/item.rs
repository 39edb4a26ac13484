//! Reads the columns of rejects from JSON objects, as [`super::ItemRow`] writes them.
//!
//! In older databases, a reject does not have the place where it was refused. Its item may then be one that a
//! client sent.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use serde_json::value::RawValue;
use tollgate_log::{ArrayBuffer, ColumnType, ElementType, OwnedArray, Value};
use tollgate_value::{Date, Decimal, TimeOfDay, parse_timestamp};

/// Parses an item. The values are read later, by the types of their columns. JSON values keep their text, at
/// any depth.
///
/// # Errors
/// The reason why the bytes are no item, as a text for people.
pub(super) fn parse(item: &[u8]) -> Result<BTreeMap<String, &RawValue>, String> {
    serde_json::from_slice(item).map_err(|error| format!("item is not a JSON object: {error}"))
}

/// Passes a value to `take`, as the same value would be in the log.
///
/// # Errors
/// The value does not fit a column of that type.
pub(super) fn with_value<R>(
    (name, kind): (&str, ColumnType),
    json: &RawValue,
    take: impl FnOnce(&Value<'_>) -> R,
) -> Result<R, String> {
    // A decimal of an item has the size of its column already. The column may have another size by now.
    value_of(kind.without_size(), json, take)
        .ok_or_else(|| format!("column {name:?} takes {}, found {json}", kind.name()))
}

fn value_of<R>(kind: ColumnType, raw: &RawValue, take: impl FnOnce(&Value<'_>) -> R) -> Option<R> {
    if raw.get() == "null" {
        return Some(take(&Value::Null));
    }
    let json = match kind {
        // These types read the text of the JSON value.
        ColumnType::Json | ColumnType::Array(_) => Json::Null,
        ColumnType::Decimal(_) if !raw.get().starts_with('"') => Json::from(raw.get()),
        _ => serde_json::from_str(raw.get()).ok()?,
    };
    let text = json.as_str();
    Some(match kind {
        ColumnType::Bool => take(&Value::Bool(json.as_bool()?)),
        ColumnType::Int => take(&Value::Int(json.as_i64()?)),
        ColumnType::Float => take(&Value::Float(json.as_f64().or_else(|| not_finite(text?))?)),
        ColumnType::Text => take(&Value::Text(text.filter(|text| !text.contains('\0'))?)),
        ColumnType::Bytes => take(&Value::Bytes(&bytes(text?)?)),
        ColumnType::Timestamp => take(&Value::Timestamp(match text {
            Some(text) => parse_timestamp(text, None).ok()?,
            None => json.as_i64()?,
        })),
        ColumnType::Json => take(&Value::Json(raw.get())),
        ColumnType::Uuid => take(&Value::Uuid(uuid::Uuid::try_parse(text?).ok()?.into_bytes())),
        ColumnType::Inet => take(&Value::Inet(text?.parse().ok()?)),
        ColumnType::Decimal(_) => take(&Value::Decimal(Decimal::parse(text?)?)),
        ColumnType::Date => take(&Value::Date(Date::parse(text?)?)),
        ColumnType::Time => take(&Value::Time(TimeOfDay::parse(text?)?)),
        ColumnType::Array(element) => take(&array(element, raw)?.value()),
    })
}

fn array(element: ElementType, raw: &RawValue) -> Option<OwnedArray> {
    let mut buffer = ArrayBuffer::new(element);
    for raw in serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok()? {
        value_of(element.column_type(), raw, |value| buffer.push(*value))?.ok()?;
    }
    Some(buffer.finish())
}

fn not_finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| !number.is_finite())
}

/// Decodes base64 (RFC 4648 section 4), which clients send, or hexadecimal after `\x`, which sinks write.
fn bytes(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    let Some(digits) = text.strip_prefix("\\x") else {
        return base64::engine::general_purpose::STANDARD.decode(text).ok();
    };
    let digits = digits.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

//! What is kept of a record that is no row.

use rusqlite::{Connection, params};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use tollgate_log::{LogId, Schema, Sequence, Value};

use crate::sink::ItemRow;

/// Most bytes of the readable form; the item itself is kept whole.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The rejects of a log between two records, both included, each with its reason.
pub(super) fn between(
    connection: &Connection,
    sink: &str,
    log: LogId,
    (first, last): (Sequence, Sequence),
) -> Result<Vec<(Sequence, String)>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, reason FROM tollgate_rejects \
         WHERE sink = ?1 AND log = ?2 AND sequence BETWEEN ?3 AND ?4 ORDER BY sequence",
    )?;
    let (first, last) = (first.0.cast_signed(), last.0.cast_signed());
    let rows = statement.query_map(params![sink, log.to_string(), first, last], |row| {
        Ok((Sequence(row.get::<_, i64>(0)?.cast_unsigned()), row.get(1)?))
    })?;
    rows.collect()
}

/// The row as a JSON object: what the reject table keeps of a row that the database refused.
pub(crate) fn row_as_json(schema: &Schema, values: &[Value<'_>]) -> Vec<u8> {
    let mut row = ItemRow::default();
    let columns = schema.columns().iter().zip(values).filter(|(column, _)| !column.is_key());
    columns.for_each(|(column, value)| row.push(&column.name, value));
    row.to_json()
}

/// JSON stays as it was written: no digit is lost, and it may be too deep to be read.
pub(crate) fn json_text(value: &Value<'_>) -> String {
    match value {
        Value::Json(text) if serde_json::from_str::<&RawValue>(text).is_ok() => (*text).to_owned(),
        value => value_as_json(value).to_string(),
    }
}

/// Numbers that JSON lacks are text, bytes are hexadecimal behind `\x`, JSON that does not parse is text.
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
        Value::Timestamp(us) => match super::bind::timestamp_text(*us) {
            Some(text) => Json::String(String::from_utf8_lossy(&text).into_owned()),
            None => Json::from(*us),
        },
        Value::Uuid(value) => Json::String(uuid::Uuid::from_bytes(*value).to_string()),
        Value::Inet(value) => Json::String(value.to_string()),
    }
}

/// The beginning of an item for people; bytes that are no UTF-8 show as U+FFFD, U+0000 too.
pub(crate) fn readable(item: &[u8]) -> String {
    let head = &item[..item.len().min(TEXT_BYTES_MAX)];
    String::from_utf8_lossy(head).replace('\0', "\u{fffd}")
}

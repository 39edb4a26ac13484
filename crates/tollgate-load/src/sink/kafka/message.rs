//! The record of a topic for a row: JSON, with the log and the number of the row in headers.

use tollgate_log::{LogId, Schema, Sequence, Value};
use tollgate_queue::QueueRecord;

use super::state::fnv;
use crate::sink::json::row_as_json;
use crate::sink::key::Key;

/// Header with the id of the log.
pub(super) const LOG: &str = "tollgate-log";
/// Header with the number of the row in its log. Log and number are the identity of a row.
pub(super) const SEQUENCE: &str = "tollgate-seq";
/// Header with the name of the stream.
pub(super) const STREAM: &str = "tollgate-stream";
/// Header with a hash of the names and types of the columns, 16 hexadecimal digits.
pub(super) const SCHEMA: &str = "tollgate-schema";

/// Returns the record of a row.
pub(super) fn row(
    topic: &str,
    log: LogId,
    sequence: Sequence,
    schema: &Schema,
    values: &[Value<'_>],
) -> QueueRecord {
    QueueRecord {
        topic: topic.to_owned(),
        partition: None,
        key: Key::of(schema, values).map(|key| key.bytes.to_vec()),
        value: Some(row_as_json(schema, values)),
        headers: headers(log, sequence, schema.stream(), schema_hash(schema)),
    }
}

/// Returns the headers of a row.
pub(super) fn headers(
    log: LogId,
    sequence: Sequence,
    stream: &str,
    schema: String,
) -> Vec<(&'static str, Vec<u8>)> {
    let values = [log.to_string(), sequence.0.to_string(), stream.to_owned(), schema];
    [LOG, SEQUENCE, STREAM, SCHEMA].into_iter().zip(values.map(String::into_bytes)).collect()
}

/// Returns a hash that changes with the name or the type of a column.
fn schema_hash(schema: &Schema) -> String {
    let columns = schema.table_columns().map(|column| format!("{}:{}\n", column.name, column.kind.name()));
    format!("{:016x}", fnv(columns.collect::<String>().into_bytes()))
}

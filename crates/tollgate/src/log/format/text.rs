//! Lines for people: the time when the record was written, its number, its stream, then `name=value`.

use tollgate_log::{LogId, Record, RecordBody, Value};
use tollgate_value::timestamp_text;

use super::value::push_value;
use crate::print::{printable, push_formatted, push_json_string};

/// Minimum width of the record number. With this width, the usual records are aligned.
const SEQUENCE_WIDTH: usize = 8;
const STREAM_WIDTH: usize = 8;

/// Prints records as text. A line with the log's id precedes the records of each log.
#[derive(Default)]
pub(super) struct Text {
    log: Option<LogId>,
    /// Width of the longest name so far.
    stream_width: usize,
}

impl Text {
    /// Appends one record. `stamp_us` is the wall-clock time, in microseconds since 1970, when the batch of
    /// the record was written.
    pub(super) fn push_record(&mut self, out: &mut String, log: LogId, stamp_us: i64, record: &Record<'_>) {
        if self.log.replace(log) != Some(log) {
            push_formatted(out, format_args!("==> log {log} <==\n"));
        }
        let stream = printable(record.schema.stream());
        self.stream_width = self.stream_width.max(STREAM_WIDTH).max(stream.chars().count());
        push_stamp(out, stamp_us);
        let (number, width) = (record.sequence.0, self.stream_width);
        push_formatted(out, format_args!("  {number:>SEQUENCE_WIDTH$}  {stream:<width$}"));
        match &record.body {
            RecordBody::Row(values) => {
                for (column, value) in record.schema.columns().iter().zip(values) {
                    push_formatted(out, format_args!("  {}=", printable(&column.name)));
                    push_readable(out, *value);
                }
            }
            RecordBody::Reject { reason, item } => {
                out.push_str("  REJECT ");
                push_json_string(out, reason);
                out.push_str("  item=");
                push_json_string(out, &String::from_utf8_lossy(item));
            }
        }
    }
}

/// Appends a time, always with six digits of a second, so that the next field is aligned.
fn push_stamp(out: &mut String, stamp_us: i64) {
    match timestamp_text(stamp_us) {
        Some(time) => out.push_str(&String::from_utf8_lossy(&time)),
        None => push_formatted(out, format_args!("{stamp_us}")),
    }
}

/// Appends a value, with quotes only if it is not one word.
fn push_readable(out: &mut String, value: Value<'_>) {
    let is_word = |text: &str| {
        let is_plain = |character: char| !character.is_whitespace() && !character.is_control();
        !text.is_empty() && text != "-" && !text.contains(['"', '=']) && text.chars().all(is_plain)
    };
    match value {
        Value::Null => out.push('-'),
        Value::Text(text) if is_word(text) => out.push_str(text),
        Value::Timestamp(us) => push_stamp(out, us),
        Value::Uuid(_)
        | Value::Inet(_)
        | Value::Bytes(_)
        | Value::Decimal(_)
        | Value::Date(_)
        | Value::Time(_) => {
            let mut quoted = String::new();
            push_value(&mut quoted, value);
            out.push_str(quoted.trim_matches('"'));
        }
        Value::Array(_) => {
            let mut json = String::new();
            push_value(&mut json, value);
            out.push_str(&printable(&json));
        }
        Value::Json(text) => out.push_str(&printable(&text.replace(['\n', '\r'], " "))),
        value => push_value(out, value),
    }
}

//! JSON lines (RFC 8259): the identity of a record, then its columns or the reason of its reject.

use tollgate_log::{LogId, Record, RecordBody};

use super::value::push_value;
use crate::print::{base64, push_formatted, push_json_string};

/// Appends one record as a JSON object.
pub(super) fn push_record(out: &mut String, log: LogId, record: &Record<'_>) {
    push_formatted(out, format_args!("{{\"log\":\"{log}\",\"sequence\":{},\"stream\":", record.sequence));
    push_json_string(out, record.schema.stream());
    match &record.body {
        RecordBody::Row(values) => {
            for (column, value) in record.schema.columns().iter().zip(values) {
                out.push(',');
                push_json_string(out, &column.name);
                out.push(':');
                push_value(out, *value);
            }
        }
        RecordBody::Reject { reason, item } => {
            out.push_str(",\"reject\":");
            push_json_string(out, reason);
            match std::str::from_utf8(item) {
                Ok(text) => {
                    out.push_str(",\"item\":");
                    push_json_string(out, text);
                }
                Err(_) => push_formatted(out, format_args!(",\"item_base64\":\"{}\"", base64(item))),
            }
        }
    }
    out.push('}');
}

//! JSON lines (RFC 8259): the identity of a record, then its columns or the reason of its reject.

use tollgate_log::{LogId, Record, RecordBody};

use super::value::push_value;
use crate::print::{base64, printed_name, push_formatted, push_json_string};

/// Appends one record as a JSON object.
pub(super) fn push_record(out: &mut String, log: LogId, record: &Record<'_>) {
    push_formatted(out, format_args!("{{\"log\":\"{log}\",\"sequence\":{},\"stream\":", record.sequence));
    push_json_string(out, record.schema.stream());
    match &record.body {
        RecordBody::Row(values) => {
            for (column, value) in record.schema.columns().iter().zip(values) {
                out.push(',');
                push_json_string(out, &printed_name(&column.name));
                out.push(':');
                push_value(out, *value);
            }
        }
        RecordBody::Reject { reason, item } => {
            out.push_str(",\"reject\":");
            push_json_string(out, reason);
            out.push(',');
            push_item(out, item);
        }
    }
    out.push('}');
}

/// Appends one record as an object of its identity and its content. The names of columns are unchanged.
pub(super) fn push_envelope(out: &mut String, log: LogId, record: &Record<'_>) {
    push_formatted(out, format_args!("{{\"_log\":\"{log}\",\"_seq\":{},\"_stream\":", record.sequence));
    push_json_string(out, record.schema.stream());
    match &record.body {
        RecordBody::Row(values) => {
            out.push_str(",\"row\":{");
            for (index, (column, value)) in record.schema.columns().iter().zip(values).enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_json_string(out, &column.name);
                out.push(':');
                push_value(out, *value);
            }
        }
        RecordBody::Reject { reason, item } => {
            out.push_str(",\"reject\":{\"reason\":");
            push_json_string(out, reason);
            out.push(',');
            push_item(out, item);
        }
    }
    out.push_str("}}");
}

/// Appends the item of a reject, as text if it is UTF-8.
fn push_item(out: &mut String, item: &[u8]) {
    match std::str::from_utf8(item) {
        Ok(text) => {
            out.push_str("\"item\":");
            push_json_string(out, text);
        }
        Err(_) => push_formatted(out, format_args!("\"item_base64\":\"{}\"", base64(item))),
    }
}

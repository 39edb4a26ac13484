//! The combined access-log format of Apache and nginx: `%h %l %u %t "%r" %>s %b "%{Referer}i"
//! "%{User-Agent}i"`.
//!
//! The log knows the names of columns, and the configuration knows their sources. A column is used if the
//! configuration has its stream and column, and the source is a part of the request or the reply. A missing
//! column is printed as `-`. Two fields of the format are never recorded, the identity and the user, so they
//! are always `-`. The version of HTTP is not recorded either. The format needs a version, so `HTTP/1.1` is
//! printed.

use std::collections::HashMap;

use tollgate_log::{Record, RecordBody, Value};
use tollgate_server::{Source, StreamSpec};

use super::value::push_value;
use crate::common_log::{self, push_byte};
use crate::print::push_formatted;

/// The fields of the format that a record has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Address,
    Time,
    Method,
    Path,
    Query,
    Status,
    Bytes,
    Referer,
    UserAgent,
}

impl Field {
    fn of(source: &Source) -> Option<Self> {
        Some(match source {
            Source::RequestRemoteAddr => Self::Address,
            Source::RequestTime => Self::Time,
            Source::RequestMethod => Self::Method,
            Source::RequestPath => Self::Path,
            Source::RequestQuery => Self::Query,
            Source::ReplyStatus => Self::Status,
            Source::ReplyBytes => Self::Bytes,
            Source::RequestHeader(name) if name.eq_ignore_ascii_case("referer") => Self::Referer,
            Source::RequestHeader(name) if name.eq_ignore_ascii_case("user-agent") => Self::UserAgent,
            _ => return None,
        })
    }
}

/// Prints records as lines of an access log.
pub(super) struct Combined {
    /// Fields by the names of stream and column.
    fields: HashMap<String, HashMap<String, Field>>,
}

impl Combined {
    pub(super) fn new(streams: &[StreamSpec]) -> Self {
        let fields_of = |stream: &StreamSpec| {
            let field = |column: &tollgate_server::ColumnSpec| {
                Field::of(&column.source).map(|field| (column.name.clone(), field))
            };
            (stream.name.clone(), stream.columns.iter().filter_map(field).collect())
        };
        Self { fields: streams.iter().map(fields_of).collect() }
    }

    /// Appends the line of one record. A reject has no columns, so its fields are `-`.
    pub(super) fn push_record(&self, out: &mut String, record: &Record<'_>) {
        let value = |field| self.value(record, field);
        push_plain(out, value(Field::Address));
        out.push_str(" - - [");
        push_time(out, value(Field::Time));
        out.push_str("] \"");
        push_request(out, value(Field::Method), value(Field::Path), value(Field::Query));
        out.push_str("\" ");
        push_plain(out, value(Field::Status));
        out.push(' ');
        push_plain(out, value(Field::Bytes));
        for field in [Field::Referer, Field::UserAgent] {
            out.push_str(" \"");
            push_plain(out, value(field));
            out.push('"');
        }
    }

    fn value<'a>(&self, record: &Record<'a>, field: Field) -> Value<'a> {
        let (RecordBody::Row(values), Some(fields)) = (&record.body, self.fields.get(record.schema.stream()))
        else {
            return Value::Null;
        };
        let columns = record.schema.columns().iter().zip(values);
        let mut found = columns.filter(|(column, _)| fields.get(&column.name) == Some(&field));
        found.next().map_or(Value::Null, |(_, value)| *value)
    }
}

/// Appends the method, the target and the version, or `-` alone if there is neither method nor path.
fn push_request(out: &mut String, method: Value<'_>, path: Value<'_>, query: Value<'_>) {
    if method == Value::Null && path == Value::Null {
        return out.push('-');
    }
    push_plain(out, method);
    out.push(' ');
    match path {
        // The recorded path is decoded. Bytes that a target cannot have are encoded again.
        Value::Text(path) => push_target(out, path),
        other => push_plain(out, other),
    }
    if let Value::Text(query) = query {
        out.push('?');
        push_target(out, query);
    }
    out.push_str(" HTTP/1.1");
}

fn push_target(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | 0..=b' ' | 0x7f.. => push_formatted(out, format_args!("%{byte:02X}")),
            byte => out.push(char::from(byte)),
        }
    }
}

fn push_time(out: &mut String, value: Value<'_>) {
    match value {
        Value::Timestamp(us) => common_log::push_time(out, us),
        _ => out.push('-'),
    }
}

/// Appends a value without quotes. Characters of a text that could end the field or control a terminal become
/// `\xHH`, as in both servers.
fn push_plain(out: &mut String, value: Value<'_>) {
    match value {
        Value::Null | Value::Text("") => out.push('-'),
        Value::Text(text) => text.bytes().for_each(|byte| push_byte(out, byte)),
        Value::Inet(address) => push_formatted(out, format_args!("{address}")),
        value => push_value(out, value),
    }
}

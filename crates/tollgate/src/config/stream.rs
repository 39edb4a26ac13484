//! `[stream.NAME]`: what is kept of each transaction.

use tollgate_log::{ColumnType, Level};
use tollgate_server::{ColumnSpec, Source, StreamSpec, UnknownFields};

use super::fault::{Span, did_you_mean};
use super::route::is_name;
use super::section::{Section, Written};

/// Longest name of a stream or column in bytes, and most columns: the log's bounds.
const NAME_BYTES_MAX: usize = 63;
const COLUMNS_MAX: usize = 1000;
/// What the names of streams may not begin with: tables of ours and of SQLite.
const RESERVED: [&str; 2] = ["tollgate_", "sqlite_"];

/// Reads all streams, in the order of the file. A faulty one is there too, with what could be read of it, so that
/// routes may name it.
pub(super) fn streams(root: &mut Section<'_>) -> Vec<StreamSpec> {
    let mut streams: Vec<StreamSpec> = Vec::new();
    for (name, section) in root.named_tables("stream") {
        check_name(&name, &section, &streams);
        streams.push(stream(name.value, section));
    }
    streams
}

fn check_name(name: &Written<String>, section: &Section<'_>, before: &[StreamSpec]) {
    let found = &name.value;
    if !is_name(found) || found.len() > NAME_BYTES_MAX {
        let allowed = "a letter or _, then letters, digits and _, at most 63 bytes";
        section.fault_at(&name.span, format!("stream is named {found:?}, allowed is {allowed}"));
    }
    let lower = found.to_ascii_lowercase();
    if let Some(prefix) = RESERVED.iter().find(|prefix| lower.starts_with(**prefix)) {
        section.fault_at(
            &name.span,
            format!("stream is named {found:?}: names with {prefix} are kept for tables of others"),
        );
    }
    if let Some(other) = before.iter().find(|stream| stream.name.eq_ignore_ascii_case(found)) {
        let text = format!("stream {found:?} is {:?} again: tables have no case", other.name);
        section.fault_at(&name.span, text);
    }
}

fn stream(name: String, mut section: Section<'_>) -> StreamSpec {
    let ack = section.choice("ack", &Level::ALL.map(|level| (level.name(), level))).unwrap_or(Level::Synced);
    let choices = [("reject", UnknownFields::Reject), ("ignore", UnknownFields::Ignore)];
    let unknown = section.choice("unknown", &choices).unwrap_or_default();
    let columns = columns(&name, &mut section);
    section.finish();
    StreamSpec { name, ack, columns, unknown }
}

fn columns(stream: &str, section: &mut Section<'_>) -> Vec<ColumnSpec> {
    let is_there = section.has("columns");
    let tables = section.tables(
        "columns",
        &format!("a column of [stream.{stream}]"),
        "a list of { name = \"...\", type = \"...\", from = \"...\" }",
    );
    let Some(tables) = tables else {
        if !is_there {
            section.fault(format!("missing key \"columns\" in [stream.{stream}]"));
        }
        return Vec::new();
    };
    if tables.is_empty() || tables.len() > COLUMNS_MAX {
        let count = tables.len();
        section.fault(format!("[stream.{stream}] has {count} columns, allowed are 1 to {COLUMNS_MAX}"));
    }
    let mut columns: Vec<ColumnSpec> = Vec::new();
    for table in tables {
        columns.extend(column(table, &columns));
    }
    columns
}

fn column(mut section: Section<'_>, before: &[ColumnSpec]) -> Option<ColumnSpec> {
    let name = section.needed_text("name");
    if let Some(name) = &name {
        check_column_name(name, &section, before);
    }
    let kind_span = section.needed_text("type");
    let kind = kind_span.as_ref().and_then(|text| column_type(&section, text));
    let from = section.text("from");
    let source = match (&from, &name) {
        (Some(from), _) => source(&section, from),
        (None, Some(name)) if !section.has("from") => Some(Source::RecordField(name.value.clone())),
        _ => None,
    };
    if let (Some(kind), Some(source), Some(written)) = (kind, &source, &kind_span) {
        check_type(&section, kind, source, &written.span);
    }
    section.finish();
    Some(ColumnSpec { name: name?.value, kind: kind?, source: source? })
}

fn check_column_name(name: &Written<String>, section: &Section<'_>, before: &[ColumnSpec]) {
    let found = &name.value;
    if found.is_empty() || found.len() > NAME_BYTES_MAX || found.contains(char::is_control) {
        let allowed = "1 to 63 bytes without control characters";
        section.fault_at(&name.span, format!("column is named {found:?}, allowed are {allowed}"));
    }
    if before.iter().any(|column| column.name.eq_ignore_ascii_case(found)) {
        section.fault_at(&name.span, format!("column {found:?} is there already: tables have no case"));
    }
}

fn column_type(section: &Section<'_>, written: &Written<String>) -> Option<ColumnType> {
    let kind = ColumnType::from_name(&written.value);
    if kind.is_none() {
        let hint = did_you_mean(&written.value, ColumnType::ALL.map(ColumnType::name));
        section.fault_at(&written.span, format!("unknown type {:?}{hint}", written.value));
    }
    kind
}

fn source(section: &Section<'_>, written: &Written<String>) -> Option<Source> {
    let source = Source::from_name(&written.value);
    if source.is_none() {
        let hint = did_you_mean(&written.value, Source::NAMES);
        section.fault_at(&written.span, format!("unknown source {:?}{hint}", written.value));
    }
    source
}

fn check_type(section: &Section<'_>, kind: ColumnType, source: &Source, span: &Span) {
    let allowed = source.column_types();
    if !allowed.contains(&kind) {
        let names: Vec<_> = allowed.iter().map(|kind| kind.name()).collect();
        let (from, found) = (source_name(source), kind.name());
        section.fault_at(span, format!("type is {found:?}, but {from} fills: {}", names.join(", ")));
    }
}

/// The name of a source, as `from` takes it.
pub(super) fn source_name(source: &Source) -> String {
    let name = match source {
        Source::RequestTime => "request.time",
        Source::RequestId => "request.id",
        Source::RequestMethod => "request.method",
        Source::RequestPath => "request.path",
        Source::RequestQuery => "request.query",
        Source::RequestHost => "request.host",
        Source::RequestRemoteAddr => "request.remote_addr",
        Source::RequestHeader(name) => return format!("request.header.{name}"),
        Source::ReplyStatus => "reply.status",
        Source::ReplyTimeUs => "reply.time_us",
        Source::ReplyBytes => "reply.bytes",
        Source::ReplyOutcome => "reply.outcome",
        Source::Body => "body",
        Source::RecordField(name) => return format!("record.{name}"),
        Source::Record => "record",
        Source::LogId => "log.id",
        Source::LogSequence => "log.sequence",
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_the_name_that_it_is_read_from() {
        for name in Source::NAMES {
            assert_eq!(Source::from_name(name).map(|source| source_name(&source)).as_deref(), Some(name));
        }
    }
}

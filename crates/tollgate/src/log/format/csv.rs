//! Comma-separated values (RFC 4180) of the rows of one stream: the identity of a record, then its columns.
//!
//! The header is fixed when the first row is printed. If the configuration has the stream, the header is
//! fixed earlier. If the columns of a row differ from the header, each value is printed below its name in the
//! header. Lines end with LF, as in `tollgate sql`.

use std::collections::BTreeSet;

use tollgate_log::{LogId, Record, Schema, Value};

use super::value::push_value;
use crate::print::{printed_name, push_formatted};

/// Prints the rows of one stream.
pub(super) struct Csv {
    /// The columns of the header. `None` until they are known.
    columns: Option<Vec<String>>,
    pub(super) is_header_due: bool,
    /// Columns of rows that the header lacks.
    missing: BTreeSet<String>,
    /// Number of rejects so far. Rejects have no columns, so they are not printed.
    pub(super) rejects: u64,
}

impl Csv {
    /// Makes a printer. `columns`: the columns of the stream in the configuration, if the configuration has
    /// the stream.
    pub(super) fn new(columns: Option<Vec<String>>) -> Self {
        Self { columns, is_header_due: true, missing: BTreeSet::new(), rejects: 0 }
    }

    /// Appends the header line, if it is due and the columns are known.
    pub(super) fn push_header(&mut self, out: &mut String) {
        let (true, Some(columns)) = (self.is_header_due, &self.columns) else { return };
        self.is_header_due = false;
        out.push_str("log,sequence");
        for column in columns {
            out.push(',');
            push_text(out, &printed_name(column));
        }
        out.push('\n');
    }

    /// Uses the columns of the first row for the header, if they are not known yet.
    pub(super) fn know(&mut self, schema: &Schema) {
        let names = || schema.columns().iter().map(|column| column.name.clone()).collect();
        self.columns.get_or_insert_with(names);
    }

    /// Appends one row. Returns a column that the header lacks, once for each such column.
    pub(super) fn push_row(
        &mut self,
        out: &mut String,
        log: LogId,
        record: &Record<'_>,
        values: &[Value<'_>],
    ) -> Option<String> {
        push_formatted(out, format_args!("{log},{}", record.sequence));
        let (header, columns) = (self.columns.as_deref().unwrap_or_default(), record.schema.columns());
        let is_same = header.len() == columns.len()
            && header.iter().zip(columns).all(|(name, column)| *name == column.name);
        if is_same {
            for value in values {
                out.push(',');
                push_field(out, *value);
            }
            return None;
        }
        for name in header {
            out.push(',');
            let place = columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
            push_field(out, place.and_then(|place| values.get(place)).copied().unwrap_or(Value::Null));
        }
        let is_new = |name: &&String| {
            let is_in_header = header.iter().any(|known| known.eq_ignore_ascii_case(name));
            !is_in_header && !self.missing.contains(*name)
        };
        let missing = columns.iter().map(|column| &column.name).find(is_new)?.clone();
        self.missing.insert(missing.clone());
        Some(missing)
    }
}

/// Appends a value. Null is an empty field, and an empty text is an empty text in quotes.
fn push_field(out: &mut String, value: Value<'_>) {
    match value {
        Value::Null => {}
        Value::Text("") => out.push_str("\"\""),
        Value::Text(text) => push_text(out, text),
        // JSON has no such numbers.
        Value::Float(number) if !number.is_finite() => {}
        value => {
            let mut json = String::new();
            push_value(&mut json, value);
            let is_string = !matches!(value, Value::Json(_)) && json.starts_with('"');
            push_text(out, if is_string { json.trim_matches('"') } else { &json });
        }
    }
}

/// Appends a text, in quotes where RFC 4180 requires them.
fn push_text(out: &mut String, text: &str) {
    if text.contains(['"', ',', '\n', '\r']) {
        push_formatted(out, format_args!("\"{}\"", text.replace('"', "\"\"")));
    } else {
        out.push_str(text);
    }
}

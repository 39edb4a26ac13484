//! What is kept of each transaction: streams, their columns, where values come from and what is done to them.
//!
//! [`Source`] is the catalogue of what a column can be filled from, [`ColumnRules`] of what happens on the
//! way.

mod ack;
mod rules;
mod source;

use std::time::Duration;

use tollgate_log::{Column, ColumnOrigin, ColumnType, Schema, SchemaError};

pub use ack::Ack;
pub(crate) use rules::Owned;
pub use rules::{Absent, BytesMax, ColumnRules, DefaultValue, HashKey, Overlong, Redaction};
pub use source::Source;
pub(crate) use source::named;

/// The name of the key among the columns of a schema. No column of a table has it.
pub const KEY_COLUMN: &str = "(key)";

/// What is kept of each transaction: a table.
#[derive(Debug, Clone)]
pub struct StreamSpec {
    /// Its name, and that of its table.
    pub name: String,
    /// How far a record has to be before its reply leaves.
    pub ack: Ack,
    /// Its columns.
    pub columns: Vec<ColumnSpec>,
    /// What becomes of fields that no column takes.
    pub unknown: UnknownFields,
    /// What tells a retry from another record; none if every record is one of its own.
    pub key: Option<KeySpec>,
}

/// What becomes of fields of a record that no column takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownFields {
    /// The record is kept as a reject that names them.
    #[default]
    Reject,
    /// They are left out.
    Ignore,
}

/// What tells a retry from another record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpec {
    /// Where it comes from: one that [`Source::is_key`].
    pub source: Source,
    /// How long a sink remembers it. In whole milliseconds.
    pub window: Duration,
}

impl KeySpec {
    /// How long keys are remembered where nothing else is said.
    pub const WINDOW: Duration = Duration::from_hours(24);
}

/// One column and where its value comes from.
#[derive(Debug, Clone)]
pub struct ColumnSpec {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnType,
    /// Where its value comes from.
    pub source: Source,
    /// What is done to the value.
    pub rules: ColumnRules,
}

impl StreamSpec {
    /// The schema of the stream in the log.
    ///
    /// # Errors
    /// Names and counts that the log does not take.
    pub fn schema(&self) -> Result<Schema, SchemaError> {
        let columns = self.columns.iter().map(|column| Column {
            name: column.name.clone(),
            kind: column.kind,
            origin: column.source.origin(),
        });
        let key = self.key.iter().map(|key| Column {
            name: KEY_COLUMN.to_owned(),
            kind: ColumnType::Bytes,
            origin: ColumnOrigin::Key {
                window_ms: u64::try_from(key.window.as_millis()).unwrap_or(u64::MAX),
            },
        });
        Schema::new(&self.name, columns.chain(key).collect())
    }
}

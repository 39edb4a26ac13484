//! The options of a stream: its columns, the sources of their values, and the rules for the values.
//!
//! [`Source`] lists all sources of values. [`ColumnRules`] lists the rules that change a value.

mod ack;
mod field_path;
mod rules;
mod source;
mod tls_part;

use std::time::Duration;

use tollgate_log::{Column, ColumnOrigin, ColumnType, Schema, SchemaError};
use tollgate_value::{TimeUnit, Zone};

pub(crate) use ack::AwaitedKind;
pub use ack::{Ack, WhenAway};
pub use field_path::FieldPath;
pub(crate) use field_path::pointer_to;
pub use rules::{Absent, BytesMax, ColumnRules, DefaultValue, HashKey, Overlong, Redaction};
pub(crate) use rules::{Owned, network};
pub(crate) use source::named;
pub use source::{Source, XML_FIELD};
pub use tls_part::TlsPart;

/// The name of the key column in a schema. No column of a table can have this name.
pub const KEY_COLUMN: &str = "(key)";

/// A stream, which is a table and the data that is recorded for it.
#[derive(Debug, Clone)]
pub struct StreamSpec {
    /// The name of the stream, and of its table.
    pub name: String,
    /// The ack level of the records.
    pub ack: Ack,
    /// Columns of the table.
    pub columns: Vec<ColumnSpec>,
    /// Treatment of fields without a column.
    pub unknown: UnknownFields,
    /// The key that marks retries. `None` if every record is a new one.
    pub key: Option<KeySpec>,
}

/// Treatment of fields of a record that have no column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownFields {
    /// The record is kept as a reject that names these fields.
    #[default]
    Reject,
    /// The fields are left out.
    Ignore,
}

/// The key that marks retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpec {
    /// The source of the key. [`Source::is_key`] has to return true for this source.
    pub source: Source,
    /// Time for which a sink remembers a key. The value has whole milliseconds.
    pub window: Duration,
}

impl KeySpec {
    /// Default time for which keys are remembered.
    pub const WINDOW: Duration = Duration::from_hours(24);
}

/// How a column reads times that programs write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeRules {
    /// The unit of numbers. Without a unit, numbers are microseconds, and only from the year 1975 on.
    pub unit: Option<TimeUnit>,
    /// The zone of times without an offset. Without a zone, such times do not fit.
    pub zone: Option<Zone>,
}

/// One column and the source of its value.
#[derive(Debug, Clone)]
pub struct ColumnSpec {
    /// Name of the column.
    pub name: String,
    /// Type of the column.
    pub kind: ColumnType,
    /// Source of the value.
    pub source: Source,
    /// How a column of type timestamp reads times. For other types, this has no effect.
    pub times: TimeRules,
    /// Whether a value of another type fits if it is exactly a value of the column's type.
    pub coerce: bool,
    /// Rules for the value.
    pub rules: ColumnRules,
}

impl StreamSpec {
    /// Returns the schema of the stream in the log.
    ///
    /// # Errors
    /// The log does not accept the names or the number of columns.
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

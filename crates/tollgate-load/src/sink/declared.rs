//! The streams of the configuration. A table or a column is created only if it fits these streams.
//!
//! A log of an earlier run may have a stream whose table or columns do not fit the streams of the
//! configuration. If they were created, the configured stream could not be loaded. So the sink refuses such a
//! log, and loads the other logs.

use std::sync::Arc;

use tollgate_log::{Column, ColumnType, Schema};

use crate::error::SinkError;

/// How a database compares names of tables and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameCase {
    /// Names that differ by case are different.
    Kept,
    /// Names that differ only by ASCII case are the same.
    Ignored,
    /// Names of columns that differ only by ASCII case are the same. Names of tables that do are different.
    #[cfg(feature = "lake")]
    IgnoredInTables,
}

impl NameCase {
    fn is_same_table(self, one: &str, other: &str) -> bool {
        match self {
            Self::Ignored => one.eq_ignore_ascii_case(other),
            _ => one == other,
        }
    }

    fn is_same_column(self, one: &str, other: &str) -> bool {
        match self {
            Self::Kept => one == other,
            _ => one.eq_ignore_ascii_case(other),
        }
    }
}

/// The schemas of the configured streams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredStreams(Arc<[Schema]>);

impl FromIterator<Schema> for DeclaredStreams {
    fn from_iter<I: IntoIterator<Item = Schema>>(schemas: I) -> Self {
        Self(schemas.into_iter().collect())
    }
}

impl DeclaredStreams {
    /// Returns the schemas.
    pub fn iter(&self) -> impl Iterator<Item = &Schema> {
        self.0.iter()
    }

    /// Checks the columns that a stream needs and that its table lacks. If the table is missing, these are
    /// all columns.
    ///
    /// # Errors
    /// `StreamName` if the table would have the name of the table of another configured stream.
    /// `TypeDeclared` if the configuration gives one of the columns another type.
    pub(crate) fn check_missing(
        &self,
        schema: &Schema,
        missing: &[&Column],
        names: NameCase,
    ) -> Result<(), SinkError> {
        let stream = schema.stream();
        let Some(declared) = self.0.iter().find(|declared| declared.stream() == stream) else {
            return self.check_name(stream, names);
        };
        missing.iter().try_for_each(|column| check_type(declared, column, names))
    }

    /// Returns the type with which a missing column is created: the type of the configuration, which may have
    /// another size for a decimal.
    pub(crate) fn type_of(&self, stream: &str, column: &Column) -> ColumnType {
        let declared = self.0.iter().find(|declared| declared.stream() == stream);
        let found = declared.and_then(|declared| find(declared, column, NameCase::Kept));
        found.map_or(column.kind, |found| found.kind)
    }

    fn check_name(&self, stream: &str, names: NameCase) -> Result<(), SinkError> {
        match self.0.iter().find(|declared| names.is_same_table(declared.stream(), stream)) {
            Some(twin) => Err(SinkError::StreamName {
                stream: stream.to_owned(),
                reason: format!(
                    "it differs from the configured stream {:?} by case alone, SQLite ignores case",
                    twin.stream()
                ),
            }),
            None => Ok(()),
        }
    }
}

fn find<'a>(declared: &'a Schema, column: &Column, names: NameCase) -> Option<&'a Column> {
    declared.table_columns().find(|other| names.is_same_column(&other.name, &column.name))
}

fn check_type(declared: &Schema, column: &Column, names: NameCase) -> Result<(), SinkError> {
    match find(declared, column, names) {
        Some(other) if other.kind.without_size() != column.kind.without_size() => {
            Err(SinkError::TypeDeclared {
                stream: declared.stream().to_owned(),
                column: column.name.clone(),
                declared: other.kind.name(),
                found: column.kind.name(),
            })
        }
        _ => Ok(()),
    }
}

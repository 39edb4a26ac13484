//! A stream as a worker keeps it.

use tollgate_log::{ColumnType, Level, RowEncoder, SchemaId, ValueError};
use tollgate_script::RecordFields;

use super::Facts;
use crate::options::{Source, StreamSpec, UnknownFields};

/// What is recorded of transactions, and where each value comes from.
#[derive(Debug)]
pub(crate) struct StreamPlan {
    pub(crate) id: SchemaId,
    pub(crate) ack: Level,
    pub(crate) unknown: UnknownFields,
    /// The fields of a record that are kept: the names of [`Source::RecordField`] once each, and whether the whole is.
    pub(crate) fields: RecordFields,
    columns: Vec<ColumnPlan>,
}

#[derive(Debug)]
pub(crate) struct ColumnPlan {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    filling: Filling,
}

/// Where the value of a column comes from.
#[derive(Debug)]
enum Filling {
    Fact(Source),
    /// By its place in [`StreamPlan::fields`].
    Field(usize),
    WholeRecord,
}

/// A record as a script or a client gave it.
pub(crate) trait Given {
    /// Fills a column from one field, by its place in [`StreamPlan::fields`]. An absent one is null.
    ///
    /// # Errors
    /// The value does not fit.
    fn push_field(
        &self,
        field: usize,
        column: &ColumnPlan,
        row: &mut RowEncoder<'_>,
    ) -> Result<(), ValueError>;

    /// The whole record as JSON.
    fn whole(&self) -> Option<&str>;
}

impl StreamPlan {
    pub(crate) fn new(id: SchemaId, spec: &StreamSpec) -> Self {
        let mut fields = RecordFields::default();
        let columns = spec.columns.iter().map(|column| ColumnPlan {
            name: column.name.clone(),
            kind: column.kind,
            filling: filling(&column.source, &mut fields),
        });
        let columns = columns.collect();
        Self { id, ack: spec.ack, unknown: spec.unknown, fields, columns }
    }

    /// Fills a row.
    ///
    /// # Errors
    /// The first value that does not fit its column.
    pub(crate) fn fill(
        &self,
        row: &mut RowEncoder<'_>,
        facts: &Facts<'_>,
        given: &impl Given,
    ) -> Result<(), ValueError> {
        for column in &self.columns {
            match &column.filling {
                Filling::Fact(source) => facts.push(source, column.kind, row)?,
                Filling::Field(field) => given.push_field(*field, column, row)?,
                Filling::WholeRecord => super::fit::push_json(given.whole(), row)?,
            }
        }
        Ok(())
    }
}

fn filling(source: &Source, fields: &mut RecordFields) -> Filling {
    match source {
        Source::RecordField(name) => {
            let known = fields.names.iter().position(|known| known == name);
            Filling::Field(known.unwrap_or_else(|| {
                fields.names.push(name.clone());
                fields.names.len() - 1
            }))
        }
        Source::Record => {
            fields.whole = true;
            Filling::WholeRecord
        }
        source => Filling::Fact(source.clone()),
    }
}

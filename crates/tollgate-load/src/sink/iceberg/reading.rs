//! Checks the streams of an Iceberg sink, without a change.

use tollgate_log::Schema;

use super::options::IcebergOptions;
#[cfg(feature = "lake")]
use super::tables::LakeTables;
use crate::error::SinkError;
use crate::sink::parquet::{self, MadeOf};

/// Checks whether tables can have the columns of these streams: first by the notes of the sink, then by the
/// tables of the catalog.
pub(in crate::sink) fn check<'s>(
    options: &IcebergOptions,
    sink: &str,
    schemas: impl Iterator<Item = &'s Schema>,
) -> Result<(), SinkError> {
    let free_column =
        |stream: &str, column: &str, note: &str| options.free_column(sink, stream, (column, note));
    let schemas: Vec<_> = schemas.collect();
    parquet::check(&options.files, sink, schemas.iter().copied(), (MadeOf::Table, &free_column))?;
    check_tables(options, sink, &schemas)
}

/// Checks whether the tables of the catalog can have the columns of these streams.
#[cfg(feature = "lake")]
fn check_tables(options: &IcebergOptions, sink: &str, schemas: &[&Schema]) -> Result<(), SinkError> {
    LakeTables::check(options, sink, schemas)
}

#[cfg(not(feature = "lake"))]
fn check_tables(_: &IcebergOptions, _: &str, _: &[&Schema]) -> Result<(), SinkError> {
    Err(SinkError::NoLake)
}

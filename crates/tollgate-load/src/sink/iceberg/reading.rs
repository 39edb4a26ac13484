//! Checks the streams of an Iceberg sink, without a change.

use tollgate_log::Schema;

use super::options::IcebergOptions;
use crate::error::SinkError;
use crate::sink::parquet::{self, MadeOf};

/// Checks whether tables can have the columns of these streams.
pub(in crate::sink) fn check<'s>(
    options: &IcebergOptions,
    sink: &str,
    schemas: impl Iterator<Item = &'s Schema>,
) -> Result<(), SinkError> {
    let free_column =
        |stream: &str, column: &str, note: &str| options.free_column(sink, stream, (column, note));
    parquet::check(&options.files, sink, schemas, (MadeOf::Table, &free_column))
}

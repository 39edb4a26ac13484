//! Tables of Apache Iceberg as a sink: the files of a Parquet sink, and a commit of each table for each load.
//!
//! Plans, files and rejects are those of [`super::parquet`]. After a load has its files, each table gets them
//! in one commit, which also has the position. The catalog is a table of SQLite or PostgreSQL, or a REST
//! catalog.

#[cfg(feature = "lake")]
mod objects;
mod options;
mod reading;
#[cfg(feature = "lake")]
mod rest;
mod rest_options;
#[cfg(feature = "lake")]
mod sqlite_catalog;
#[cfg(feature = "lake")]
mod tables;

pub use options::{CatalogPlace, IcebergOptions};
pub(super) use reading::check;
pub use rest_options::{ClientCredentials, RestAuth, RestOptions, SigV4};
#[cfg(feature = "lake")]
pub(super) use tables::LakeTables;

#[cfg(feature = "lake")]
pub(super) fn open(
    options: &IcebergOptions,
    name: &str,
    rules: super::write_rules::WriteRules,
) -> Result<Box<dyn super::contract::Sink>, crate::error::SinkError> {
    let tables = LakeTables::open(options, name, super::catalog_sql::CatalogAccess::Write)?;
    Ok(Box::new(super::parquet::ParquetSink::open(&options.files, name, rules, Some(tables))?))
}

#[cfg(not(feature = "lake"))]
pub(super) fn open(
    _: &IcebergOptions,
    _: &str,
    _: super::write_rules::WriteRules,
) -> Result<Box<dyn super::contract::Sink>, crate::error::SinkError> {
    Err(crate::error::SinkError::NoLake)
}

//! Parquet files as a sink: whole segments become files in a folder or an object store.
//!
//! The crate `tollgate-lake` has the order of the steps, and the reason why each row is there once. Here a
//! load of the loader becomes a plan: its position, its files, and the results of its records.
//!
//! Files remember no keys. All rows of a key become rows, with the key in the column `_key`.

#[cfg(feature = "lake")]
mod chunk;
#[cfg(feature = "lake")]
mod contract;
#[cfg(feature = "lake")]
mod decided;
mod leases;
mod options;
#[cfg(feature = "lake")]
mod parts;
mod place;
mod reading;
#[cfg(feature = "lake")]
mod retry;
#[cfg(feature = "lake")]
mod sink;

pub(super) use leases::LakeLeases;
pub use options::{LakePlace, ParquetOptions};
#[cfg(feature = "lake")]
pub(super) use place::{created_of, open_ledger};
pub(super) use reading::{MadeOf, check, check_names, free_column, read_counts, read_positions};
#[cfg(feature = "lake")]
pub(super) use sink::ParquetSink;

#[cfg(feature = "lake")]
pub(super) fn open(
    options: &ParquetOptions,
    name: &str,
    rules: super::write_rules::WriteRules,
) -> Result<Box<dyn super::contract::Sink>, crate::error::SinkError> {
    Ok(Box::new(ParquetSink::open(options, name, rules, None)?))
}

#[cfg(not(feature = "lake"))]
pub(super) fn open(
    _: &ParquetOptions,
    _: &str,
    _: super::write_rules::WriteRules,
) -> Result<Box<dyn super::contract::Sink>, crate::error::SinkError> {
    Err(crate::error::SinkError::NoLake)
}

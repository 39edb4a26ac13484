//! Tables of Apache Iceberg, format version 2: metadata files, manifests, and commits to a catalog.
//!
//! | file | task |
//! | --- | --- |
//! | [`types`], [`partition`] | columns and partitions of tables |
//! | [`metadata`] | the metadata file of a table |
//! | [`avro`], [`manifest`], [`metrics`] | which data files a snapshot has, with their counts and bounds |
//! | [`fence`], [`settled`] | which loads a table has |
//! | [`catalog`], [`warehouse`] | the services that a table needs |
//! | [`tables`] | creates tables, adds columns, appends files |
//! | [`sweep`] | removes files that no snapshot needs |

mod avro;
mod catalog;
mod fence;
mod folder;
mod manifest;
mod metadata;
mod metrics;
mod partition;
mod settled;
mod sweep;
mod tables;
mod types;
mod warehouse;

#[cfg(test)]
mod tests;

pub use catalog::{Catalog, TableName};
pub use folder::FolderObjects;
pub use metrics::FileMetrics;
pub use partition::TIME_COLUMN;
pub use settled::Settled;
pub(crate) use tables::folder_of;
pub use tables::{FileFacts, TableOptions, Tables};
pub use types::{FieldId, FieldIds, TableColumn};
pub use warehouse::{FoundObject, Objects};

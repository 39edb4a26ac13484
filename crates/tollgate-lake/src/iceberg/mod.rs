//! Tables of Apache Iceberg, format version 2: metadata files, manifests, and commits to a catalog.
//!
//! | file | task |
//! | --- | --- |
//! | [`types`], [`partition`] | columns and partitions of tables |
//! | [`new_table`], [`metadata`] | a table that is to be created; the metadata of a table |
//! | [`avro`], [`manifest`], [`metrics`] | which data files a snapshot has, with their counts and bounds |
//! | [`fence`], [`settled`] | which loads a table has |
//! | [`noted`] | which state of each table the sink has seen |
//! | [`merge`] | merges small manifests |
//! | [`catalog`], [`warehouse`] | the services that a table needs |
//! | [`commit`], [`change`] | a change of a table: requirements and updates |
//! | [`file_catalog`] | a catalog that keeps only the address of each metadata file |
//! | [`tables`] | creates tables, adds columns, appends files |
//! | [`sweep`] | removes files that no snapshot needs |

mod avro;
mod catalog;
mod change;
mod commit;
mod fence;
mod file_catalog;
mod folder;
mod manifest;
mod merge;
mod metadata;
mod metrics;
mod new_table;
mod noted;
mod partition;
mod settled;
mod sweep;
mod tables;
mod types;
mod warehouse;

#[cfg(test)]
mod tests;

pub use catalog::{Catalog, CatalogTable, TableName};
pub use commit::{Requirement, TableCommit, Update};
pub use file_catalog::{FileCatalog, Locations};
pub use folder::FolderObjects;
pub use metrics::FileMetrics;
pub use new_table::NewTable;
pub use partition::TIME_COLUMN;
pub use settled::Settled;
pub use sweep::Swept;
pub use tables::{FileFacts, TableOptions, Tables};
pub use types::{FieldId, FieldIds, TableColumn};
pub use warehouse::folder_of;
pub use warehouse::{FoundObject, Objects};

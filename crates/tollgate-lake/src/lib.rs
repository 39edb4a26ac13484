//! Parquet files of a lake: rows of whole segments, with the plans and commits that bring each row once.
//!
//! A load covers the records of one log from a first to a last number. It passes through the files in this
//! order:
//!
//! | file | task |
//! | --- | --- |
//! | [`table`], [`columns`] | the columns of a file, and the values of a row group in memory |
//! | [`writer`], [`writers`] | one file in writing; all files of a load within one bound on memory |
//! | [`plan`] | which records a load has, and which files: created once, never changed |
//! | [`place`], [`folder`] | a folder or a store: files and short texts that are created once |
//! | [`ledger`] | plans and commits of one sink: the position and the counts of each log |
//! | [`brought`] | which files of a decided load are in the lake |
//! | [`names`] | the names of all files |
//! | [`read`] | reads rejects and the stamps of files |
//! | [`iceberg`] | tables of Iceberg: the files of a load in one commit of each table |
//!
//! A load counts once its commit exists. The order is: files beside the lake, plan, files into the lake,
//! commit. The plan fixes the last record of the load. After a crash, the next loader finds the plan, makes
//! the same files, and skips the files that the lake has. Two loaders may do so at once, because each step
//! creates an object once and then compares it.
//!
//! Absent here: sinks, the loader, object stores. The crate above connects them.

mod brought;
mod error;
mod folder;
mod ledger;
mod names;
mod partition;
mod place;
mod plan;

#[cfg(feature = "parquet")]
mod chunk;
#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod encoder;
#[cfg(feature = "parquet")]
pub mod iceberg;
#[cfg(feature = "parquet")]
mod read;
#[cfg(feature = "parquet")]
mod rows;
#[cfg(feature = "parquet")]
mod table;
#[cfg(feature = "parquet")]
mod writer;
#[cfg(feature = "parquet")]
mod writers;

pub use brought::Brought;
pub use error::LakeError;
pub use folder::FolderPlace;
pub use ledger::{Ledger, LedgerLog, NotedType};
pub use names::{
    GAPS, LoadName, OWN_FOLDER, REJECTS, RESERVED_IN_FILES, RESERVED_IN_TABLES, day_of, table_folder,
};
pub use partition::Partition;
pub use place::{Created, FileStamp, Place};
pub use plan::{Commit, Counts, GapText, Plan, PlannedFile, RecordDigest, Resolved, Streams, total_rows};

/// The library that reads and writes files, for tests of other crates.
#[cfg(feature = "parquet")]
pub use parquet;
#[cfg(feature = "parquet")]
pub use read::{StoredReject, read_rejects};
#[cfg(feature = "parquet")]
pub use table::{KEY_COLUMN, LOG_COLUMN, SEQUENCE_COLUMN, table_columns, unfit};
#[cfg(feature = "parquet")]
pub use table::{table_columns_of_gaps, table_columns_of_rejects};
#[cfg(feature = "parquet")]
pub use writers::{GapEvent, MadeFiles, RejectRow, Writers};

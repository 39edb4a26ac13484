//! Errors of a lake.

use std::path::{Path, PathBuf};

/// Why a call on a lake failed.
#[derive(Debug, thiserror::Error)]
pub enum LakeError {
    /// A file cannot be read or written.
    #[error("cannot {action} {}", file.display())]
    File {
        /// The failed action.
        action: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// Error of the file.
        source: std::io::Error,
    },
    /// The store did not carry out the call, or its answer is lost.
    #[error("cannot {action} {name} in the lake")]
    Call {
        /// The failed action.
        action: &'static str,
        /// Name of the object.
        name: String,
        /// Error of the store.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The lake has lost an object, or does not show it yet.
    #[error("cannot find {name} in the lake")]
    Missing {
        /// Name of the object.
        name: String,
    },
    /// A file of the lake differs from the file of its plan. Another log or another program wrote it.
    #[error(
        "file {name} of the lake has {found}, the load has {wanted}: another program wrote it. Move the file \
         away if its rows are not needed"
    )]
    Other {
        /// Name of the file.
        name: String,
        /// The stamp of the file.
        found: String,
        /// The stamp of the file of this load.
        wanted: String,
    },
    /// The records or the configuration do not give the files of a plan.
    #[error(
        "the load does not give the files of plan {name}: {reason}. Run it once with the configuration and \
         the version of the program that made the plan"
    )]
    Differs {
        /// Name of the plan.
        name: String,
        /// The difference.
        reason: String,
    },
    /// A plan can neither be finished nor given up, because the lake has a part of its files.
    #[error(
        "plan {name} can neither be finished nor given up: the lake has {}, and lacks {}. {remedy}, then try \
         again",
        there.join(", "),
        absent.join(", ")
    )]
    Partly {
        /// Name of the plan.
        name: String,
        /// The files that the lake has.
        there: Vec<String>,
        /// The files that it lacks.
        absent: Vec<String>,
        /// What makes it lack all of them.
        remedy: String,
    },
    /// Another program ended a retry, and the lake then got rows that the commit has as rejects.
    #[error(
        "commit {name} has ended this retry without the rows of {}: delete these rows before the next retry, \
         which brings them again",
        files.join(", ")
    )]
    Ended {
        /// Name of the commit.
        name: String,
        /// The files with the rows.
        files: Vec<String>,
    },
    /// A plan has records that cannot be read any more.
    #[error("plan {name} has records {first}-{last}, which cannot be read any more ({reason}): {remedy}")]
    Unreadable {
        /// Name of the plan.
        name: String,
        /// First record that cannot be read.
        first: u64,
        /// Last record that cannot be read.
        last: u64,
        /// Why they cannot be read.
        reason: String,
        /// What ends the error.
        remedy: String,
    },
    /// A plan, a commit, a file of metadata or a file of rejects cannot be read.
    #[error("{name} of the lake cannot be read: {reason}")]
    Text {
        /// Name of the object.
        name: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// This program cannot append to a table of Iceberg.
    #[error("table {table} {reason}")]
    Table {
        /// Name of the table.
        table: String,
        /// Why it cannot.
        reason: String,
    },
    /// A column of a table of Iceberg has another type than the column of the stream.
    #[error("column {column:?} of table {table} is {found}, the stream needs {wanted}")]
    Retyped {
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// Its type in the table.
        found: String,
        /// Its type for the stream.
        wanted: String,
    },
    /// The library for Parquet failed.
    #[error("cannot write {}", file.display())]
    Parquet {
        /// Path of the file.
        file: PathBuf,
        /// Error of the library.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl LakeError {
    /// Returns a function that wraps an error of a file.
    pub(crate) fn file(action: &'static str, file: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::File { action, file, source }
    }

    /// Returns a function that wraps an error of a store.
    pub fn call<E>(action: &'static str, name: &str) -> impl FnOnce(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let name = name.to_owned();
        move |source| Self::Call { action, name, source: Box::new(source) }
    }

    /// Returns a function that wraps an error of the library for Parquet.
    #[cfg(feature = "parquet")]
    pub(crate) fn parquet(file: &Path) -> impl FnOnce(parquet::errors::ParquetError) -> Self + use<> {
        let file = file.to_owned();
        move |error| {
            // The text of this variant repeats its source.
            let source = match error {
                parquet::errors::ParquetError::External(source) => source,
                error => Box::new(error),
            };
            Self::Parquet { file, source }
        }
    }

    /// Returns the error of a table at an address outside of the warehouse.
    #[cfg(feature = "parquet")]
    pub(crate) fn outside(table: &impl std::fmt::Display, address: &str, warehouse: &str) -> Self {
        let reason = format!("is at {address}, outside of the warehouse {warehouse}: move it");
        Self::Table { table: table.to_string(), reason }
    }

    /// Returns whether a later try may succeed.
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Call { .. } | Self::Missing { .. } | Self::Parquet { .. })
    }
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    use tollgate_log::join_chain;

    use super::*;

    #[test]
    fn an_error_of_the_disk_is_reported_once() {
        let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = LakeError::parquet(Path::new("/parts/1.part"))(error.into());
        assert_eq!(join_chain(&error), "cannot write /parts/1.part: no storage space");
    }
}

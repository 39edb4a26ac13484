//! Options of an Iceberg sink.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_lake::Partition;

use super::rest_options::RestOptions;
use crate::sink::parquet::ParquetOptions;
use crate::sink::postgres::PostgresUrl;

/// Options of an Iceberg sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcebergOptions {
    /// The warehouse, and how files are made.
    pub files: ParquetOptions,
    /// The place of the catalog.
    pub catalog: CatalogPlace,
    /// Name of the catalog in its database.
    pub catalog_name: String,
    /// Namespace of the tables.
    pub namespace: String,
    /// How new tables are partitioned.
    pub partition: Partition,
    /// Age from which snapshots expire. `None`: they never do.
    pub snapshots_kept: Option<Duration>,
    /// Age from which files that no snapshot needs are removed. `None`: they never are.
    pub orphans_kept: Option<Duration>,
}

/// The place of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogPlace {
    /// A file of SQLite. If the file is missing, the sink creates it.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres(Box<PostgresUrl>),
    /// A REST catalog.
    Rest(Box<RestOptions>),
}

impl CatalogPlace {
    /// Returns whether both are the same catalog. Their authentication may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sqlite(path), Self::Sqlite(other)) => path == other,
            (Self::Postgres(url), Self::Postgres(other)) => url.is_same_database(other),
            (Self::Rest(rest), Self::Rest(other)) => rest.is_same_catalog(other),
            _ => false,
        }
    }
}

/// Writes the place, without a secret.
impl std::fmt::Display for CatalogPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(url) => url.fmt(f),
            Self::Rest(rest) => f.write_str(&rest.address),
        }
    }
}

impl IcebergOptions {
    /// Returns the default options.
    pub fn new(files: ParquetOptions, catalog: CatalogPlace) -> Self {
        Self {
            files,
            catalog,
            catalog_name: "tollgate".to_owned(),
            namespace: "tollgate".to_owned(),
            partition: Partition::default(),
            snapshots_kept: Some(Duration::from_hours(5 * 24)),
            orphans_kept: Some(Duration::from_hours(7 * 24)),
        }
    }

    /// Returns the statements that free the name of a column of a stream: one for an engine, one for a shell.
    pub(crate) fn free_column(&self, sink: &str, stream: &str, column: &str) -> String {
        let (namespace, place) = (&self.namespace, &self.files.place);
        format!(
            "ALTER TABLE {namespace}.{stream} RENAME COLUMN {column} TO {column}_old; \
             rm {place}/_tollgate/{sink}/columns/{stream}/{column}"
        )
    }

    /// Returns the option that makes `new` another place for rows and positions.
    pub(crate) fn moved_by(&self, new: &Self) -> Option<&'static str> {
        if !self.catalog.is_same(&new.catalog)
            || (&self.catalog_name, &self.namespace) != (&new.catalog_name, &new.namespace)
        {
            return Some("another catalog or namespace");
        }
        self.files.moved_by(&new.files)
    }
}

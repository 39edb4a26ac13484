//! Options of an Iceberg sink.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_lake::Partition;

use super::rest_options::RestOptions;
use crate::sink::parquet::{LakePlace, ParquetOptions};
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

    /// Returns how to free the name of a column of a stream, whose type has this note.
    pub(crate) fn free_column(&self, sink: &str, stream: &str, (column, note): (&str, &str)) -> String {
        let (namespace, place) = (&self.namespace, &self.files.place);
        let kind = match place {
            LakePlace::Folder(_) => "file",
            LakePlace::Objects(_) => "object",
        };
        format!(
            "run `ALTER TABLE {namespace}.{stream} RENAME COLUMN {column} TO {column}_old` in an engine, \
             remove the {kind} `{place}/_tollgate/{sink}/columns/{stream}/{note}`,"
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

#[cfg(test)]
mod tests {
    use tollgate_ship::{ObjectStoreOptions, StorePlace};

    use super::*;
    use crate::sink::parquet::free_column;

    #[test]
    fn each_remedy_of_a_column_is_for_one_program_and_exists_on_a_store() {
        let remedies = |files: ParquetOptions| {
            let tables = IcebergOptions::new(files.clone(), CatalogPlace::Sqlite("c".into()));
            [free_column(&files, "lake", "visits"), tables.free_column("lake", "visits", ("N", "n"))]
        };
        let statement = "run `ALTER TABLE tollgate.visits RENAME COLUMN N TO N_old` in an engine, remove the";
        assert_eq!(
            remedies(ParquetOptions::in_folder("/l")),
            [
                "run `mv /l/visits /l/visits_old; rm -r /l/_tollgate/lake/columns/visits`".to_owned(),
                format!("{statement} file `/l/_tollgate/lake/columns/visits/n`,"),
            ]
        );
        let objects = ObjectStoreOptions::new(StorePlace::parse("s3://b/p").unwrap());
        let place = LakePlace::Objects(Box::new(objects));
        assert_eq!(
            remedies(ParquetOptions::new(place, "parts")),
            [
                "move the objects below `s3://b/p/visits/` to `s3://b/p/visits_old/`, remove those below \
                 `s3://b/p/_tollgate/lake/columns/visits/`,"
                    .to_owned(),
                format!("{statement} object `s3://b/p/_tollgate/lake/columns/visits/n`,"),
            ]
        );
    }
}

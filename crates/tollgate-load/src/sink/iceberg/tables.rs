//! The tables of an Iceberg sink, with their catalog and their warehouse.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_lake::iceberg::{Catalog, FileFacts, FolderObjects, Objects, TableOptions, Tables};
use tollgate_lake::{
    LakeError, Ledger, LoadName, Plan, REJECTS, Writers, table_columns, table_columns_of_rejects,
};
use tollgate_log::Schema;
use tollgate_ship::{ObjectStore, Pacer};

use super::objects::StoreObjects;
use super::options::{CatalogPlace, IcebergOptions};
use super::sqlite_catalog::SqliteCatalog;
use crate::clock::now_us;
use crate::error::SinkError;
use crate::sink::parquet::LakePlace;
use crate::sink::postgres::PostgresCatalog;

/// Time between two searches for files that no snapshot needs.
const SWEEP_EVERY: Duration = Duration::from_hours(24);

/// The tables of an Iceberg sink.
pub(in crate::sink) struct LakeTables {
    tables: Tables,
    namespace: String,
    orphans_kept: Option<Duration>,
    /// When the last search for unneeded files began.
    swept: Option<Instant>,
}

fn now_ms() -> i64 {
    now_us() / 1_000
}

impl LakeTables {
    pub(in crate::sink) fn open(options: &IcebergOptions, sink: &str) -> Result<Self, SinkError> {
        let catalog: Box<dyn Catalog> = match &options.catalog {
            CatalogPlace::Sqlite(path) => Box::new(SqliteCatalog::new(path, &options.catalog_name)),
            CatalogPlace::Postgres(url) => Box::new(PostgresCatalog::new(url, &options.catalog_name)),
        };
        let table_options = TableOptions {
            sink: sink.to_owned(),
            namespace: options.namespace.clone(),
            partition: options.partition,
            snapshots_kept: options.snapshots_kept,
        };
        Ok(Self {
            tables: Tables::new(objects(&options.files.place)?, catalog, table_options, now_ms),
            namespace: options.namespace.clone(),
            orphans_kept: options.orphans_kept,
            swept: None,
        })
    }

    /// Forgets the columns of tables, which another program may have changed.
    pub(in crate::sink) fn forget(&mut self) {
        self.tables.forget();
    }

    /// Begins the files of a load. Makes the table of rejects.
    pub(in crate::sink) fn begin(&mut self, writers: Writers) -> Result<Writers, SinkError> {
        let mut writers = writers.of_tables(&self.namespace);
        let ids = self.tables.ensure(REJECTS, &table_columns_of_rejects());
        writers.set_ids(REJECTS, ids.map_err(SinkError::lake("make the table of rejects"))?);
        Ok(writers)
    }

    /// Makes the table of a stream, or adds its new columns.
    pub(in crate::sink) fn prepare(
        &mut self,
        schema: &Schema,
        writers: &mut Writers,
    ) -> Result<(), SinkError> {
        let ids = self.tables.ensure(schema.stream(), &table_columns(schema));
        writers.set_ids(schema.stream(), ids.map_err(failed_to_make)?);
        Ok(())
    }

    /// Brings the files of a load into their tables.
    pub(in crate::sink) fn append(
        &mut self,
        load: LoadName,
        plan: &Plan,
        files: &[FileFacts],
    ) -> Result<(), LakeError> {
        self.tables.append(load, plan, files)
    }

    /// Returns the names of the files of a table.
    pub(in crate::sink) fn files(&mut self, table: &str) -> Result<Vec<String>, LakeError> {
        self.tables.files(table)
    }

    /// Removes files that no snapshot needs, once a day.
    pub(in crate::sink) fn tidy(&mut self, ledger: &Ledger) -> Result<(), SinkError> {
        let Some(age) = self.orphans_kept else { return Ok(()) };
        if self.swept.is_some_and(|swept| swept.elapsed() < SWEEP_EVERY) {
            return Ok(());
        }
        self.swept = Some(Instant::now());
        let removed = self.tables.sweep(age, &|load| ledger.is_committed(load));
        let removed = removed.map_err(SinkError::lake("remove unneeded files of tables"))?;
        if removed > 0 {
            tracing::info!(namespace = self.namespace, removed, "removed files that no snapshot needs");
        }
        Ok(())
    }
}

/// Returns the error of a table that cannot have the columns of a stream.
fn failed_to_make(error: LakeError) -> SinkError {
    match error {
        LakeError::Retyped { table, column, found, wanted } => SinkError::TypeChanged {
            rename: format!("ALTER TABLE {table} RENAME COLUMN {column} TO {column}_old"),
            table,
            column,
            found,
            wanted: wanted.into(),
        },
        error => SinkError::lake("make the table of a stream")(error),
    }
}

fn objects(place: &LakePlace) -> Result<Box<dyn Objects>, SinkError> {
    Ok(match place {
        LakePlace::Folder(folder) => Box::new(FolderObjects::new(folder)),
        LakePlace::Objects(options) => {
            let store = ObjectStore::open((**options).clone(), Arc::new(Pacer::new(None)));
            let store = store.map_err(|error| LakeError::call("open", "the store")(error));
            Box::new(StoreObjects::new(store.map_err(SinkError::lake("open the lake"))?, place.to_string()))
        }
    })
}

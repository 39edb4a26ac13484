//! The tables of an Iceberg sink, with their catalog and their warehouse.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_lake::iceberg::{
    Catalog, FileCatalog, FileFacts, FolderObjects, Locations, Objects, Swept, TableOptions, Tables,
    folder_of,
};
use tollgate_lake::{
    GAPS, LakeError, Ledger, LoadName, Plan, REJECTS, Writers, table_columns, table_columns_of_gaps,
    table_columns_of_rejects,
};
use tollgate_log::{LogId, Schema, join_chain};
use tollgate_ship::{ObjectStore, Pacer};

use super::objects::StoreObjects;
use super::options::{CatalogPlace, IcebergOptions};
use super::rest::RestCatalog;
use super::sqlite_catalog::SqliteCatalog;
use crate::clock::now_us;
use crate::error::SinkError;
use crate::sink::catalog_sql::CatalogAccess;
use crate::sink::parquet::{LakePlace, open_ledger};
use crate::sink::postgres::PostgresCatalog;

/// Time between two searches for files that no snapshot needs.
const SWEEP_EVERY: Duration = Duration::from_hours(24);

const MAKE_TABLE: &str = "make the table of a stream";
const READ_TABLE: &str = "read a table of the catalog";

/// The tables of an Iceberg sink.
pub(in crate::sink) struct LakeTables {
    tables: Tables,
    options: IcebergOptions,
    sink: String,
    /// When the last search for unneeded files began.
    swept: Option<Instant>,
}

fn now_ms() -> i64 {
    now_us() / 1_000
}

impl LakeTables {
    pub(in crate::sink) fn open(
        options: &IcebergOptions,
        sink: &str,
        access: CatalogAccess,
    ) -> Result<Self, SinkError> {
        let objects = objects(&options.files.place)?;
        let catalog = catalog(options, &objects, access);
        let table_options = TableOptions {
            sink: sink.to_owned(),
            namespace: options.namespace.clone(),
            partition: options.partition,
            snapshots_kept: options.snapshots_kept,
        };
        Ok(Self {
            tables: Tables::new(objects, catalog, table_options, now_ms),
            options: options.clone(),
            sink: sink.to_owned(),
            swept: None,
        })
    }

    /// Forgets the columns of tables, which another program may have changed.
    pub(in crate::sink) fn forget(&mut self) {
        self.tables.forget();
    }

    /// Begins the files of a load. Makes the tables of rejects and gaps.
    pub(in crate::sink) fn begin(&mut self, writers: Writers) -> Result<Writers, SinkError> {
        // An engine may have changed the columns since the last load.
        self.tables.forget();
        let mut writers = writers.of_tables(&self.options.namespace);
        for (table, columns) in [(REJECTS, table_columns_of_rejects()), (GAPS, table_columns_of_gaps())] {
            let ids = self.tables.ensure(table, &columns);
            writers.set_ids(table, ids.map_err(SinkError::lake("make the table of rejects or gaps"))?);
        }
        Ok(writers)
    }

    /// Makes the table of a stream, or adds its new columns.
    pub(in crate::sink) fn prepare(
        &mut self,
        schema: &Schema,
        writers: &mut Writers,
        ledger: &Ledger,
    ) -> Result<(), SinkError> {
        let ids = self.tables.ensure(schema.stream(), &table_columns(schema));
        let ids = ids.map_err(|error| self.failed(MAKE_TABLE, schema.stream(), error, ledger))?;
        writers.set_ids(schema.stream(), ids);
        Ok(())
    }

    /// Checks whether the tables of the catalog can have the columns of these streams. Changes nothing.
    pub(in crate::sink) fn check(
        options: &IcebergOptions,
        sink: &str,
        schemas: &[&Schema],
    ) -> Result<(), SinkError> {
        let mut tables = Self::open(options, sink, CatalogAccess::Read)?;
        let ledger = open_ledger(&options.files, sink)?;
        for (table, columns) in [(REJECTS, table_columns_of_rejects()), (GAPS, table_columns_of_gaps())] {
            tables.tables.check(table, &columns).map_err(SinkError::lake(READ_TABLE))?;
        }
        schemas.iter().try_for_each(|schema| {
            let checked = tables.tables.check(schema.stream(), &table_columns(schema));
            checked.map_err(|error| tables.failed(READ_TABLE, schema.stream(), error, &ledger))
        })
    }

    /// Returns the statements that free the name of a column of a stream.
    pub(in crate::sink) fn free_column(&self, stream: &str, column: &str, note: &str) -> String {
        self.options.free_column(&self.sink, stream, (column, note))
    }

    /// Returns the error of a table that cannot have the columns of a stream.
    fn failed(&self, action: &'static str, stream: &str, error: LakeError, ledger: &Ledger) -> SinkError {
        match error {
            LakeError::Retyped { table, column, found, wanted } => {
                let noted = ledger.known_type(stream, &column).ok().flatten();
                let note = noted.map_or_else(|| column.to_ascii_lowercase(), |noted| noted.note);
                let (rename, wanted) = (self.free_column(stream, &column, &note), wanted.into());
                SinkError::TypeChanged { table, column, found, wanted, rename }
            }
            error => SinkError::lake(action)(error),
        }
    }

    /// Brings the files of a load into their tables.
    pub(in crate::sink) fn append(
        &mut self,
        load: LoadName,
        plan: &Plan,
        files: &[FileFacts],
        ledger: &mut Ledger,
    ) -> Result<(), LakeError> {
        self.tables.append(load, plan, files, ledger)
    }

    /// Returns whether a table has the files of a load that is not committed.
    pub(in crate::sink) fn has_load(
        &mut self,
        table: &str,
        load: LoadName,
        plan: &Plan,
    ) -> Result<bool, LakeError> {
        self.tables.has_load(table, load, plan)
    }

    /// Returns the property of tables that has the position of a log.
    pub(in crate::sink) fn position_of(&self, log: LogId) -> String {
        self.tables.position_of(log)
    }

    /// Returns the name of the folder of a table in the warehouse.
    pub(in crate::sink) fn folder(&self, table: &str) -> String {
        folder_of(&self.options.namespace, table)
    }

    /// Returns the names of the files of a table.
    pub(in crate::sink) fn files(&mut self, table: &str) -> Result<Vec<String>, LakeError> {
        self.tables.files(table)
    }

    /// Removes files that no snapshot needs, once a day. A failure only occupies space.
    pub(in crate::sink) fn tidy(&mut self, ledger: &mut Ledger) {
        let is_due = self.swept.is_none_or(|swept| swept.elapsed() >= SWEEP_EVERY);
        let Some(age) = self.options.orphans_kept.filter(|_| is_due) else { return };
        self.swept = Some(Instant::now());
        let namespace = &self.options.namespace;
        match sweep(&mut self.tables, ledger, age) {
            Ok(Swept { removed, left }) => {
                if removed > 0 {
                    tracing::info!(namespace, removed, "removed files that no snapshot needs");
                }
                for table in left {
                    tracing::warn!(
                        table,
                        "kept all files of the folder of a table: the metadata of a table in this folder \
                         cannot be read. Repair it, or drop it from the catalog"
                    );
                }
            }
            Err(error) => {
                let reason = join_chain(&error);
                tracing::warn!(namespace, reason, "cannot remove files that no snapshot needs");
            }
        }
    }
}

fn catalog(options: &IcebergOptions, objects: &Arc<dyn Objects>, access: CatalogAccess) -> Box<dyn Catalog> {
    let locations: Box<dyn Locations> = match &options.catalog {
        CatalogPlace::Sqlite(path) => Box::new(SqliteCatalog::new(path, &options.catalog_name, access)),
        CatalogPlace::Postgres(url) => Box::new(PostgresCatalog::new(url, &options.catalog_name, access)),
        CatalogPlace::Rest(rest) => return Box::new(RestCatalog::new(rest, options.files.place.aws_keys())),
    };
    Box::new(FileCatalog::new(locations, objects.clone(), now_ms))
}

/// Removes files that no snapshot needs, unless a loader of the sink did so in the last day.
fn sweep(tables: &mut Tables, ledger: &mut Ledger, age: Duration) -> Result<Swept, LakeError> {
    let note = ledger.note("swept");
    let swept: Option<i64> = ledger.place().text(&note)?.and_then(|text| text.trim().parse().ok());
    // A time ahead of this clock is as old as none.
    let is_recent =
        |swept: i64| u64::try_from(now_ms() - swept).is_ok_and(|ms| Duration::from_millis(ms) < SWEEP_EVERY);
    if swept.is_some_and(is_recent) {
        return Ok(Swept::default());
    }
    let swept = tables.sweep(age, ledger)?;
    ledger.place().replace_text(&note, &format!("{}\n", now_ms()))?;
    Ok(swept)
}

fn objects(place: &LakePlace) -> Result<Arc<dyn Objects>, SinkError> {
    Ok(match place {
        LakePlace::Folder(folder) => Arc::new(FolderObjects::new(folder)),
        LakePlace::Objects(options) => {
            let store = ObjectStore::open((**options).clone(), Arc::new(Pacer::new(None)));
            let store = store.map_err(|error| LakeError::call("open", "the store")(error));
            Arc::new(StoreObjects::new(store.map_err(SinkError::lake("open the lake"))?, place.to_string()))
        }
    })
}

//! A catalog in a file of SQLite.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use tollgate_lake::LakeError;
use tollgate_lake::iceberg::{Locations, TableName};
use tollgate_log::{DiskStorage, make_folder};

use crate::error::SinkError;
use crate::sink::catalog_sql::{ADD, ADD_NAMESPACE, CREATE, CatalogAccess, LOCATION, REPLACE, TABLES};

/// Longest wait for the lock of another program.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// A catalog in a file of SQLite.
pub(super) struct SqliteCatalog {
    path: PathBuf,
    catalog: String,
    access: CatalogAccess,
    connection: Option<Connection>,
}

impl SqliteCatalog {
    /// Creates a catalog. Opens nothing.
    pub(super) fn new(path: &Path, catalog: &str, access: CatalogAccess) -> Self {
        Self { path: path.to_owned(), catalog: catalog.to_owned(), access, connection: None }
    }

    fn run<T>(
        &mut self,
        action: &'static str,
        call: impl FnOnce(&Connection, &str) -> rusqlite::Result<T>,
    ) -> Result<T, LakeError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().map_err(LakeError::call("use", "the catalog"))?,
        };
        let result = call(&connection, &self.catalog);
        if result.is_ok() {
            self.connection = Some(connection);
        }
        result.map_err(self.failed(action)).map_err(LakeError::call("use", "the catalog"))
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(rusqlite::Error) -> SinkError + use<> {
        let path = self.path.clone();
        move |source| SinkError::Database { action, path, source }
    }

    fn connect(&self) -> Result<Connection, SinkError> {
        if self.access == CatalogAccess::Write {
            self.make_folder()?;
        }
        self.open().map_err(self.failed("open the catalog"))
    }

    /// Returns whether the catalog is only read, and has no file or no tables yet.
    fn is_missing(&mut self) -> Result<bool, LakeError> {
        if self.access == CatalogAccess::Write {
            return Ok(false);
        }
        let exists = self.path.try_exists().map_err(LakeError::call("find", "the file of the catalog"))?;
        if !exists {
            return Ok(true);
        }
        self.run("find the tables of the catalog", |connection, _| {
            Ok(!connection.table_exists(None, "iceberg_tables")?)
        })
    }

    fn make_folder(&self) -> Result<(), SinkError> {
        let Some(folder) = self.path.parent() else { return Ok(()) };
        let made = make_folder(&DiskStorage, folder);
        made.map_err(|source| SinkError::Folder { path: folder.to_owned(), source })
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        if self.access == CatalogAccess::Read {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&self.path, flags)?;
            connection.busy_timeout(LOCK_WAIT)?;
            return Ok(connection);
        }
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(LOCK_WAIT)?;
        // A commit that returned is on disk, in each journal mode that another program may have set.
        connection.pragma_update(None, "synchronous", "FULL")?;
        CREATE.iter().try_for_each(|statement| connection.execute_batch(statement))?;
        Ok(connection)
    }
}

impl Locations for SqliteCatalog {
    fn location(&mut self, table: &TableName) -> Result<Option<String>, LakeError> {
        if self.is_missing()? {
            return Ok(None);
        }
        self.run("find a table", |connection, catalog| {
            let row = params![catalog, table.namespace, table.table];
            let found = connection.query_row(LOCATION, row, |row| row.get::<_, Option<String>>(0));
            Ok(found.optional()?.flatten())
        })
    }

    fn tables(&mut self, namespace: &str) -> Result<Vec<String>, LakeError> {
        self.run("list the tables", |connection, catalog| {
            let mut statement = connection.prepare(TABLES)?;
            let rows = statement.query_map(params![catalog, namespace], |row| row.get(0))?;
            rows.collect()
        })
    }

    fn add(&mut self, table: &TableName, location: &str) -> Result<bool, LakeError> {
        self.run("add a table", |connection, catalog| {
            connection.execute(ADD_NAMESPACE, params![catalog, table.namespace])?;
            let row = params![catalog, table.namespace, table.table, location];
            Ok(connection.execute(ADD, row)? == 1)
        })
    }

    fn replace(&mut self, table: &TableName, old: &str, new: &str) -> Result<bool, LakeError> {
        self.run("commit to a table", |connection, catalog| {
            let row = params![new, old, catalog, table.namespace, table.table];
            Ok(connection.execute(REPLACE, row)? == 1)
        })
    }
}

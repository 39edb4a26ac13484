//! A catalog of Iceberg in PostgreSQL.

use tokio_postgres::types::ToSql;
use tollgate_lake::LakeError;
use tollgate_lake::iceberg::{Locations, TableName};

use super::error::{Failure, at};
use super::options::{PostgresOptions, PostgresUrl};
use super::session::Session;
use crate::sink::catalog_sql::{ADD, ADD_NAMESPACE, CREATE, CatalogAccess, LOCATION, REPLACE, TABLES};

/// Finds whether the catalog has its tables.
const EXISTS: &str = "SELECT 1 WHERE to_regclass('iceberg_tables') IS NOT NULL \
                      AND to_regclass('iceberg_namespace_properties') IS NOT NULL";

/// A catalog in PostgreSQL. After an error, it connects again.
pub(crate) struct PostgresCatalog {
    options: PostgresOptions,
    catalog: String,
    access: CatalogAccess,
    session: Option<Session>,
}

impl PostgresCatalog {
    /// Creates a catalog. Connects to nothing.
    pub(in crate::sink) fn new(server: &PostgresUrl, catalog: &str, access: CatalogAccess) -> Self {
        let options = PostgresOptions::new(server.clone());
        Self { options, catalog: catalog.to_owned(), access, session: None }
    }

    fn run<T>(
        &mut self,
        action: &'static str,
        call: impl FnOnce(&mut Session, &str) -> Result<T, Failure>,
    ) -> Result<T, LakeError> {
        let failed = || LakeError::call("use", "the catalog");
        let mut session = match self.session.take() {
            Some(session) if session.is_usable() => session,
            _ => self.connect().map_err(failed())?,
        };
        let result = call(&mut session, &self.catalog);
        if result.is_ok() {
            self.session = Some(session);
        }
        result.map_err(at(action, &self.options)).map_err(failed())
    }

    fn connect(&self) -> Result<Session, crate::error::SinkError> {
        let mut session = Session::open(&self.options)?;
        let failed = || at("make the tables of the catalog", &self.options);
        // A user without the right to create tables may use tables that exist.
        if self.access == CatalogAccess::Write && session.query(EXISTS, &[]).map_err(failed())?.is_empty() {
            CREATE.iter().try_for_each(|statement| session.run(statement)).map_err(failed())?;
        }
        Ok(session)
    }
}

impl Locations for PostgresCatalog {
    fn location(&mut self, table: &TableName) -> Result<Option<String>, LakeError> {
        let access = self.access;
        self.run("find a table", |session, catalog| {
            if access == CatalogAccess::Read && session.query(EXISTS, &[])?.is_empty() {
                return Ok(None);
            }
            let row: [&(dyn ToSql + Sync); 3] = [&catalog, &table.namespace, &table.table];
            let rows = session.query(LOCATION, &row)?;
            Ok(rows.first().and_then(|row| row.get(0)))
        })
    }

    fn tables(&mut self, namespace: &str) -> Result<Vec<String>, LakeError> {
        self.run("list the tables", |session, catalog| {
            let rows = session.query(TABLES, &[&catalog, &namespace])?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        })
    }

    fn add(&mut self, table: &TableName, location: &str) -> Result<bool, LakeError> {
        self.run("add a table", |session, catalog| {
            session.execute(ADD_NAMESPACE, &[&catalog, &table.namespace])?;
            let row: [&(dyn ToSql + Sync); 4] = [&catalog, &table.namespace, &table.table, &location];
            Ok(session.execute(ADD, &row)? == 1)
        })
    }

    fn replace(&mut self, table: &TableName, old: &str, new: &str) -> Result<bool, LakeError> {
        self.run("commit to a table", |session, catalog| {
            let row: [&(dyn ToSql + Sync); 5] = [&new, &old, &catalog, &table.namespace, &table.table];
            Ok(session.execute(REPLACE, &row)? == 1)
        })
    }
}

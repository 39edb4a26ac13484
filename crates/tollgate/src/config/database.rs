//! `[database.NAME]`: the databases that scripts read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tollgate_load::{
    Asker, PostgresUrl, QueryAnswer, QueryError, QueryOptions, QueryPool, QueryRow, QuerySource, QueryValue,
    hide_password,
};
use tollgate_server::{Database, SqlAnswer, SqlReply, SqlRow, SqlValue};

use super::key::{keys, write};
use super::path::{PathTo, path};
use super::quoted::quoted_path;
use super::route::is_name;
use super::section::Section;
use super::units::{GIB, HOUR_MS, KIB, MIB, SECOND_MS};

keys! {
    pub(super) KEYS of QueryOptions;
    /// A SQLite file, opened read-only. It is opened again if another file replaces it.
    sqlite [SQLITE] = other("needed, or `postgres`", "a path");
    /// A PostgreSQL server.
    postgres [POSTGRES] = other("needed, or `sqlite`", "an address as for sinks");
    /// Connections at once, for all workers together.
    connections = integer(4, 1..=64) => connections;
    /// How long a query may take, and the opening of a connection.
    timeout = duration(5 * SECOND_MS, 10..=HOUR_MS) => timeout;
    /// Rows of one answer. More: an error.
    rows_max = integer(1000, 1..=1_000_000) => rows_max;
    /// Bytes of one answer. More: an error.
    bytes_max = size(MIB, KIB..=GIB) => bytes_max;
}

/// A database that scripts may read.
#[derive(Debug, Clone)]
pub(crate) struct ReadDatabase {
    pool: Arc<Pool>,
    /// The connection as the file writes it. Variables are not replaced, because the value holds a password.
    written: String,
}

#[derive(Debug)]
struct Pool(QueryPool);

impl ReadDatabase {
    pub(super) fn as_readable(&self) -> Arc<dyn Database> {
        self.pool.clone()
    }

    pub(super) fn name(&self) -> &str {
        self.pool.0.name()
    }

    /// Returns the connection, with the password. `None`: the database is a file.
    pub(super) fn connection(&self) -> Option<&PostgresUrl> {
        match &self.pool.0.options().source {
            QuerySource::Sqlite(_) => None,
            QuerySource::Postgres(url) => Some(url),
        }
    }

    /// Returns the SQLite file. `None`: it is another kind of database.
    pub(super) fn sqlite(&self) -> Option<&Path> {
        match &self.pool.0.options().source {
            QuerySource::Sqlite(path) => Some(path),
            QuerySource::Postgres(_) => None,
        }
    }
}

/// Reads all databases, in the order of the file.
pub(super) fn databases(root: &mut Section<'_>, folder: &Path) -> Vec<ReadDatabase> {
    let tables = root.named_tables("database");
    tables
        .into_iter()
        .filter_map(|(name, mut section)| {
            if !is_name(&name.value) {
                let text = format!(
                    "database is named {:?}, allowed is a letter or _, then letters, digits and _",
                    name.value
                );
                section.fault_at(&name.span, text);
            }
            let database = database(&mut section, name.value, folder);
            section.finish();
            database
        })
        .collect()
}

fn database(section: &mut Section<'_>, name: String, folder: &Path) -> Option<ReadDatabase> {
    let found = match (section.has(SQLITE.name), section.has(POSTGRES.name)) {
        (true, true) => Some("sqlite and postgres"),
        (false, false) => Some("none"),
        _ => None,
    };
    if let Some(found) = found {
        let text = format!(
            "[database.{name}] needs one database, found {found}, allowed is one of sqlite, postgres"
        );
        section.fault(text);
    }
    let written = section.as_written(POSTGRES.name).map(hide_password).unwrap_or_default();
    let sqlite =
        path(section, SQLITE.name, PathTo::File).map(|file| QuerySource::Sqlite(folder.join(file.value)));
    let postgres = section.text(POSTGRES.name).and_then(|url| match PostgresUrl::parse(&url.value) {
        Ok(server) => Some(QuerySource::Postgres(Box::new(server))),
        Err(reason) => {
            section.fault_at(&url.span, format!("postgres in [database.{name}]: {reason}"));
            None
        }
    });
    let source = sqlite.or(postgres);
    let has_source = source.is_some();
    // The bounds are read even if the source is missing, so that all faults are reported.
    let source = source.unwrap_or_else(|| QuerySource::Sqlite(PathBuf::new()));
    let (connections, timeout, rows_max, bytes_max) = (0, Duration::ZERO, 0, 0);
    let mut options = QueryOptions { name, source, connections, timeout, rows_max, bytes_max };
    section.read(KEYS, &mut options);
    has_source.then(|| ReadDatabase { pool: Arc::new(Pool(QueryPool::new(options))), written })
}

impl fmt::Display for ReadDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = self.pool.0.options();
        writeln!(f, "\n[database.{}]", options.name)?;
        let own = match &options.source {
            QuerySource::Sqlite(path) => (SQLITE.name, Some(quoted_path(path))),
            // The text is not escaped, so its variables are printed as variables.
            QuerySource::Postgres(_) => {
                (POSTGRES.name, Some(toml::Value::String(self.written.clone()).to_string()))
            }
        };
        write(KEYS, options, &[own], f)
    }
}

impl Database for Pool {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn ask(&self, sql: String, parameters: Vec<SqlValue>, reply: SqlReply) {
        self.0.ask(sql, parameters.into_iter().map(query_value).collect(), Box::new(Replying(reply)));
    }
}

struct Replying(SqlReply);

impl Asker for Replying {
    fn is_gone(&self) -> bool {
        self.0.is_closed()
    }

    fn deliver(self: Box<Self>, answer: Result<QueryAnswer, QueryError>) {
        // An error is ignored, because a script that no longer waits needs no answer.
        let _ = self.0.send(answer.map(sql_answer).map_err(|error| error.to_string()));
    }
}

fn query_value(value: SqlValue) -> QueryValue {
    match value {
        SqlValue::Null => QueryValue::Null,
        SqlValue::Bool(value) => QueryValue::Bool(value),
        SqlValue::Int(value) => QueryValue::Int(value),
        SqlValue::Float(value) => QueryValue::Float(value),
        SqlValue::Text(value) => QueryValue::Text(value),
        SqlValue::Bytes(value) => QueryValue::Bytes(value),
    }
}

fn sql_answer(answer: QueryAnswer) -> SqlAnswer {
    let rows = answer.rows.into_iter().map(|row| match row {
        QueryRow::Json(json) => SqlRow::Json(json),
        QueryRow::Values(values) => SqlRow::Values(values.into_iter().map(sql_value).collect()),
    });
    SqlAnswer { columns: answer.columns, rows: rows.collect() }
}

fn sql_value(value: QueryValue) -> SqlValue {
    match value {
        QueryValue::Null => SqlValue::Null,
        QueryValue::Bool(value) => SqlValue::Bool(value),
        QueryValue::Int(value) => SqlValue::Int(value),
        QueryValue::Float(value) => SqlValue::Float(value),
        QueryValue::Text(value) => SqlValue::Text(value),
        QueryValue::Bytes(value) => SqlValue::Bytes(value),
    }
}

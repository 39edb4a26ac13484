//! One table per stream, created from its schema.
//!
//! `tollgate_columns` stores the Tollgate type of each column, because SQLite cannot tell a timestamp from a
//! text.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_log::{Column, ColumnType, Schema};

use super::bind::declared_type;
use super::bookkeeping::open_to_read;
use super::connection::failed;
use crate::error::SinkError;
use crate::sink::declared::{DeclaredStreams, NameCase};
use crate::sink::rename::rename_remedy;

/// Why a table does not fit the stream.
pub(super) enum EnsureError {
    Refused(SinkError),
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for EnsureError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Creates the table of a stream or adds missing columns. Returns the statement that inserts a row.
///
/// All columns are checked before the table is changed.
fn ensure(
    connection: &Connection,
    declared: &DeclaredStreams,
    schema: &Schema,
) -> Result<String, EnsureError> {
    check_name(connection, schema.stream())?;
    let existing = existing_columns(connection, schema.stream())?;
    let missing = check_columns(connection, declared, schema, &existing)?;
    if existing.is_empty() {
        create(connection, schema)?;
        return Ok(insert_statement(schema));
    }
    for column in missing {
        let (table, name) = (quoted(schema.stream()), quoted(&column.name));
        let declared = declared_type(column.kind);
        connection.execute(&format!("ALTER TABLE {table} ADD COLUMN {name} {declared}"), [])?;
    }
    remember(connection, schema)?;
    Ok(insert_statement(schema))
}

/// Creates or extends the table of a stream as [`ensure`] does, but returns the errors of a sink.
pub(super) fn ensure_table(
    connection: &Connection,
    path: &Path,
    declared: &DeclaredStreams,
    schema: &Schema,
) -> Result<String, SinkError> {
    ensure(connection, declared, schema).map_err(|error| match error {
        EnsureError::Refused(error) => error,
        EnsureError::Database(error) => failed("create or change a table", path)(error),
    })
}

/// Checks whether the rows of these streams fit the existing tables. Does not change the database.
pub(crate) fn check<'a>(path: &Path, schemas: impl Iterator<Item = &'a Schema>) -> Result<(), SinkError> {
    let Some(connection) = open_to_read(path)? else { return Ok(()) };
    for schema in schemas {
        look(&connection, &DeclaredStreams::default(), schema).map_err(|error| match error {
            EnsureError::Refused(error) => error,
            EnsureError::Database(error) => failed("read the columns of a table", path)(error),
        })?;
    }
    Ok(())
}

/// Checks whether the rows of a stream fit its table. If there is no table, checks whether it could be
/// created. Does not change the database.
pub(super) fn look(
    connection: &Connection,
    declared: &DeclaredStreams,
    schema: &Schema,
) -> Result<(), EnsureError> {
    check_name(connection, schema.stream())?;
    let existing = existing_columns(connection, schema.stream())?;
    check_columns(connection, declared, schema, &existing).map(drop)
}

/// Checks the existing columns, and returns the missing ones.
fn check_columns<'a>(
    connection: &Connection,
    declared: &DeclaredStreams,
    schema: &'a Schema,
    existing: &[(String, String)],
) -> Result<Vec<&'a Column>, EnsureError> {
    let mut missing = Vec::new();
    for column in schema.table_columns() {
        match existing.iter().find(|(name, _)| name.eq_ignore_ascii_case(&column.name)) {
            Some((_, declared)) => check_type(connection, schema.stream(), column, declared)?,
            None => missing.push(column),
        }
    }
    declared.check_missing(schema, &missing, NameCase::Ignored).map_err(EnsureError::Refused)?;
    Ok(missing)
}

fn check_name(connection: &Connection, stream: &str) -> Result<(), EnsureError> {
    let refused = |reason: String| {
        Err(EnsureError::Refused(SinkError::StreamName { stream: stream.to_owned(), reason }))
    };
    let lower = stream.to_ascii_lowercase();
    if let Some(prefix) = ["tollgate_", "sqlite_"].into_iter().find(|prefix| lower.starts_with(prefix)) {
        return refused(format!("names that begin with {prefix} are reserved for bookkeeping"));
    }
    if stream.contains('\0') {
        return refused("its name contains U+0000".to_owned());
    }
    if !has_notes(connection)? {
        return Ok(());
    }
    let twin: Option<String> = connection
        .query_row(
            "SELECT stream FROM tollgate_columns WHERE stream = ?1 COLLATE NOCASE AND stream <> ?1 LIMIT 1",
            [stream],
            |row| row.get(0),
        )
        .optional()?;
    match twin {
        Some(twin) => {
            refused(format!("it differs from stream {twin:?} only by case, and SQLite ignores case"))
        }
        None => Ok(()),
    }
}

/// Returns whether the bookkeeping exists. A program that only reads may open the database before the
/// bookkeeping is created.
fn has_notes(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection.table_exists(None, "tollgate_columns")
}

pub(super) fn existing_columns(
    connection: &Connection,
    table: &str,
) -> Result<Vec<(String, String)>, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT name, type FROM pragma_table_xinfo(?1)")?;
    let columns = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    columns.collect()
}

fn create(connection: &Connection, schema: &Schema) -> Result<(), EnsureError> {
    let columns: Vec<_> = schema
        .table_columns()
        .map(|column| format!("{} {}", quoted(&column.name), declared_type(column.kind)))
        .collect();
    connection.execute(&format!("CREATE TABLE {} ({})", quoted(schema.stream()), columns.join(", ")), [])?;
    Ok(remember(connection, schema)?)
}

/// Checks that an existing column fits the stream. Compares SQLite's affinity, and the type that was stored
/// when the column was created.
fn check_type(
    connection: &Connection,
    table: &str,
    column: &Column,
    declared: &str,
) -> Result<(), EnsureError> {
    let found_type = "SELECT type FROM tollgate_columns WHERE stream = ?1 AND name = ?2";
    let noted: Option<String> = match has_notes(connection)? {
        true => connection.query_row(found_type, [table, &column.name], |row| row.get(0)).optional()?,
        false => None,
    };
    let found = match noted {
        Some(noted) if !is_same_type(&noted, column.kind) => noted,
        _ if affinity(declared) != affinity(declared_type(column.kind)) => declared.to_owned(),
        _ => return Ok(()),
    };
    Err(EnsureError::Refused(SinkError::TypeChanged {
        table: table.to_owned(),
        column: column.name.clone(),
        found,
        wanted: column.kind.name(),
        rename: rename_remedy(&quoted(table), &column.name),
    }))
}

/// Returns whether a stored type has the same form in the table as `kind`. Decimals of all sizes are texts,
/// so the size of a column may change.
fn is_same_type(noted: &str, kind: ColumnType) -> bool {
    ColumnType::from_name(noted).is_some_and(|noted| noted.without_size() == kind.without_size())
}

fn remember(connection: &Connection, schema: &Schema) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO tollgate_columns (stream, name, type) VALUES (?1, ?2, ?3) \
         ON CONFLICT (stream, name) DO UPDATE SET type = excluded.type WHERE type <> excluded.type",
    )?;
    for column in schema.table_columns() {
        statement.execute(params![schema.stream(), column.name, &*column.kind.name()])?;
    }
    Ok(())
}

/// Returns the insert statement. With `OR ABORT`, a conflict undoes only the statement, whatever conflict
/// clauses the table has.
fn insert_statement(schema: &Schema) -> String {
    let names: Vec<_> = schema.table_columns().map(|column| quoted(&column.name)).collect();
    let places = vec!["?"; names.len()].join(", ");
    format!("INSERT OR ABORT INTO {} ({}) VALUES ({places})", quoted(schema.stream()), names.join(", "))
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the affinity of a declared type. Source: <https://www.sqlite.org/datatype3.html> section 3.1.
fn affinity(declared: &str) -> &'static str {
    let upper = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| upper.contains(word));
    if has(&["INT"]) {
        "INTEGER"
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        "TEXT"
    } else if upper.is_empty() || has(&["BLOB"]) {
        "BLOB"
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        "REAL"
    } else {
        "NUMERIC"
    }
}

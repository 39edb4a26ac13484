//! The bookkeeping tables, and the version of their layout.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use super::connection::{LOCK_WAIT, failed};
use crate::error::SinkError;
use crate::sink::accounts::BOOKKEEPING_VERSION;

/// The bookkeeping tables. The tables have a column for the name of the sink, because another sink may fill
/// the same database later. Sequence numbers are positive 64-bit integers. Times are from the clock of the
/// loader.
pub(super) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS tollgate_meta (
        id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
        version INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS tollgate_sinks (
        sink TEXT NOT NULL PRIMARY KEY,
        since TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS tollgate_positions (
        sink TEXT NOT NULL,
        log TEXT NOT NULL,
        start INTEGER NOT NULL,
        last INTEGER NOT NULL,
        chain INTEGER,
        loaded_at TEXT NOT NULL,
        node TEXT,
        PRIMARY KEY (sink, log)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS tollgate_counts (
        sink TEXT NOT NULL,
        log TEXT NOT NULL,
        stream TEXT NOT NULL,
        loaded INTEGER NOT NULL,
        rejected INTEGER NOT NULL,
        duplicates INTEGER NOT NULL,
        skipped INTEGER NOT NULL,
        PRIMARY KEY (sink, log, stream)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS tollgate_rejects (
        sink TEXT NOT NULL,
        log TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        stream TEXT NOT NULL,
        reason TEXT NOT NULL,
        item BLOB NOT NULL,
        text TEXT NOT NULL,
        loaded_at TEXT NOT NULL,
        key BLOB,
        key_window_ms INTEGER,
        refused_by TEXT,
        PRIMARY KEY (sink, log, sequence)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS tollgate_refusals (
        sink TEXT NOT NULL,
        log TEXT NOT NULL,
        segment INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        PRIMARY KEY (sink, log, segment)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS tollgate_gaps (
        sink TEXT NOT NULL,
        log TEXT NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        reason TEXT NOT NULL,
        since TEXT NOT NULL,
        PRIMARY KEY (sink, log, first)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS tollgate_origins (
        sink TEXT NOT NULL,
        log TEXT NOT NULL,
        origin TEXT NOT NULL,
        last INTEGER NOT NULL,
        PRIMARY KEY (sink, log, origin)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS tollgate_columns (
        stream TEXT NOT NULL,
        name TEXT NOT NULL COLLATE NOCASE,
        type TEXT NOT NULL,
        PRIMARY KEY (stream, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS tollgate_keys (
        stream TEXT NOT NULL,
        key BLOB NOT NULL,
        log TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        PRIMARY KEY (stream, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS tollgate_keys_by_end ON tollgate_keys (expires);
    CREATE TABLE IF NOT EXISTS tollgate_ticks (
        id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
        ms INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS tollgate_leases (
        sink TEXT NOT NULL,
        store TEXT NOT NULL,
        name TEXT NOT NULL,
        holder TEXT NOT NULL,
        until REAL NOT NULL,
        PRIMARY KEY (sink, store, name)
    ) STRICT, WITHOUT ROWID;
";

/// Newer columns: table, name, type. A program without them reads and writes the tables as before, so the
/// version stays.
const GAINED: [(&str, &str, &str); 4] = [
    ("tollgate_rejects", "key", "BLOB"),
    ("tollgate_rejects", "key_window_ms", "INTEGER"),
    ("tollgate_rejects", "refused_by", "TEXT"),
    ("tollgate_positions", "node", "TEXT"),
];

/// Creates missing tables and columns.
///
/// # Errors
/// `Bookkeeping` if a later version of this program created the tables. The tables are then not changed.
pub(super) fn make(connection: &Connection, path: &Path) -> Result<(), SinkError> {
    let found = check_version(connection, path)?;
    let made = || {
        connection.execute_batch(TABLES)?;
        add_columns(connection)?;
        if found.is_none() {
            let insert = "INSERT INTO tollgate_meta (id, version) VALUES (1, ?1) ON CONFLICT (id) DO NOTHING";
            connection.execute(insert, [BOOKKEEPING_VERSION])?;
        }
        Ok(())
    };
    made().map_err(failed("create the bookkeeping tables", path))
}

fn add_columns(connection: &Connection) -> Result<(), rusqlite::Error> {
    let is_missing = |(table, name, _): &(&str, &str, &str)| {
        connection.column_exists(None, *table, *name).map(|is_there| !is_there)
    };
    let missing: Result<Vec<_>, rusqlite::Error> = GAINED.iter().map(is_missing).collect();
    if !missing?.contains(&true) {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    for column in &GAINED {
        // Another process may have added the column since the check.
        if is_missing(column)? {
            let (table, name, kind) = column;
            transaction.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {name} {kind}"))?;
        }
    }
    transaction.commit()
}

/// Opens an existing database without changing it. Returns `None` if there is no database.
///
/// # Errors
/// `Denied` if the system refuses to look up the file.
pub(super) fn open_to_read(path: &Path) -> Result<Option<Connection>, SinkError> {
    match fs::metadata(path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(SinkError::Denied { path: path.to_owned() });
        }
        Err(_) => return Ok(None),
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed("open a connection", path))?;
    connection.busy_timeout(20 * LOCK_WAIT).map_err(failed("set up a connection", path))?;
    check_version(&connection, path)?;
    Ok(Some(connection))
}

/// Checks and returns the version of the tables. Returns `None` if there are no tables, or if they are so old
/// that they store no version. Such tables have the first version.
pub(super) fn check_version(connection: &Connection, path: &Path) -> Result<Option<i64>, SinkError> {
    match read_version(connection).map_err(failed("read the version of the bookkeeping", path))? {
        Some(found) if found != BOOKKEEPING_VERSION => {
            let (database, known) = (path.display().to_string(), BOOKKEEPING_VERSION);
            Err(SinkError::Bookkeeping { database, found, known })
        }
        found => Ok(found),
    }
}

fn read_version(connection: &Connection) -> Result<Option<i64>, rusqlite::Error> {
    if !connection.table_exists(None, "tollgate_meta")? {
        return Ok(None);
    }
    connection.query_row("SELECT version FROM tollgate_meta", [], |row| row.get(0)).optional()
}

//! The database of a sink: opening it, and the state of the open database.

use std::collections::{BTreeSet, HashMap};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use tollgate_log::{DiskStorage, FILE_MODE, LogId, Schema};

use super::bookkeeping;
use super::chunk::SqliteChunk;
use super::connection::{LOCK_WAIT, failed};
use super::keys::SqliteKeys;
use super::sync::{left_wal, sync_wal};
use crate::error::SinkError;
use crate::sink::key::{Monotonic, system_clock};
use crate::sink::write_rules::WriteRules;
use crate::sqlite_files::SqliteFiles;

/// The first version of SQLite without the WAL-reset bug. That bug could corrupt a database with several
/// connections.
const VERSION_MIN: i32 = 3_051_003;
const VERSION_MIN_TEXT: &str = "3.51.3";
/// Bytes to which SQLite cuts a larger WAL when it starts again at the beginning of the file.
const WAL_BYTES_KEPT: i64 = 64 << 20;
/// Bytes of a WAL from which on the sink warns. A WAL of this size means that a reader prevents SQLite from
/// starting again at the beginning of the file.
const WAL_BYTES_WARN: u64 = 256 << 20;
const STATEMENTS_MAX: usize = 256;

/// Statement that creates a table for the operator's file. Its only row has the range of records of the load.
/// Only this connection sees the table.
const LOAD_TABLE: &str = "CREATE TEMP TABLE IF NOT EXISTS tollgate_load (log TEXT, first INTEGER, last INTEGER); \
     INSERT INTO tollgate_load DEFAULT VALUES";

/// An SQLite database as a sink.
pub(crate) struct SqliteSink {
    pub(super) path: PathBuf,
    /// Name of the sink in the bookkeeping.
    pub(super) name: String,
    pub(super) connection: Connection,
    pub(super) files: SqliteFiles,
    /// SQLite's `data_version` at the last check. The value changes when another connection writes.
    pub(super) data_version: Option<i64>,
    pub(super) rules: WriteRules,
    /// The insert statement of each schema whose table is known to fit.
    pub(super) tables: HashMap<Schema, String>,
    pub(super) keys: SqliteKeys,
    pub(super) chunk: Option<SqliteChunk>,
    /// Logs whose last load had rows without a parent.
    pub(super) orphaned: BTreeSet<LogId>,
    pub(super) unchecked_bytes: u64,
    is_wal_warned: bool,
}

impl SqliteSink {
    /// Opens or creates the database.
    ///
    /// # Errors
    /// The file is no database or cannot be written, the library is too old, or the bookkeeping has a later
    /// version. After `Locked`, a retry may succeed.
    pub(crate) fn open(path: &Path, name: &str, rules: WriteRules) -> Result<Self, SinkError> {
        Self::open_with(path, name, rules, system_clock())
    }

    /// Opens the database as [`Self::open`] does, but with the given clock for the windows of keys.
    pub(crate) fn open_with(
        path: &Path,
        name: &str,
        rules: WriteRules,
        clock: Monotonic,
    ) -> Result<Self, SinkError> {
        if rusqlite::version_number() < VERSION_MIN {
            return Err(SinkError::Version { found: rusqlite::version(), needed: VERSION_MIN_TEXT });
        }
        make_folder(path)?;
        make_file(path);
        let left_wal = left_wal(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(path, flags).map_err(failed("open a connection", path))?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        let mode = configure(&connection).map_err(failed("set up a connection", path))?;
        if mode != "wal" {
            return Err(SinkError::JournalMode { path: path.to_owned(), found: mode });
        }
        bookkeeping::make(&connection, path)?;
        if let Some(wal) = left_wal {
            sync_wal(&wal)?;
        }
        let keys =
            SqliteKeys::new(&connection, clock).map_err(failed("read how long keys are kept", path))?;
        let sink = Self {
            path: path.to_owned(),
            name: name.to_owned(),
            connection,
            files: SqliteFiles::of(path),
            data_version: None,
            rules,
            tables: HashMap::new(),
            keys,
            chunk: None,
            orphaned: BTreeSet::new(),
            // The size of the WAL of an earlier run is unknown. The maximum here makes the first commit check
            // it.
            unchecked_bytes: u64::MAX,
            is_wal_warned: false,
        };
        sink.check_files()?;
        Ok(sink)
    }

    pub(super) fn failed(&self, action: &'static str) -> impl FnOnce(rusqlite::Error) -> SinkError {
        failed(action, &self.path)
    }

    pub(super) fn warn_of_large_wal(&mut self, wal_frames: i64, page_bytes: i64) {
        let wal_bytes = wal_frames.saturating_mul(page_bytes).max(0).cast_unsigned();
        if wal_bytes < WAL_BYTES_WARN {
            self.is_wal_warned = false;
        } else if !self.is_wal_warned {
            self.is_wal_warned = true;
            tracing::warn!(
                database = %self.path.display(), wal_bytes,
                "the WAL cannot be checkpointed: a reader keeps an old snapshot open"
            );
        }
    }
}

/// Creates the folder of the database durably. Segments are deleted because the database has their records,
/// so the name of its folder has to be on disk too.
fn make_folder(path: &Path) -> Result<(), SinkError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    tollgate_log::make_folder(&DiskStorage, folder)
        .map_err(|source| SinkError::Folder { path: folder.to_owned(), source })
}

/// Creates an empty file with mode [`FILE_MODE`], because SQLite would use all bits that the umask allows.
/// SQLite gives its other files the same mode. Errors are ignored here, because SQLite reports them when it
/// opens the file.
fn make_file(path: &Path) {
    let made = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
    drop(made);
}

fn configure(connection: &Connection) -> Result<String, rusqlite::Error> {
    connection.busy_timeout(LOCK_WAIT)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.execute_batch(LOAD_TABLE)?;
    Ok(mode)
}

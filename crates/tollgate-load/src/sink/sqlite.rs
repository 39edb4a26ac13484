//! SQLite as a sink: one connection that writes, in WAL mode, with a sync at every commit.
//!
//! Others may read meanwhile (`tollgate sql`, any program), and even write: whoever holds the lock is waited for.
//! Checkpoints run between commits, never inside one: a commit costs one sync of the WAL, and the WAL stays bounded
//! unless a reader keeps an old snapshot for long.
//!
//! The file is looked at before each load and behind each commit: one that was removed or replaced meanwhile has taken nothing.
//! Its connection is closed without a checkpoint, which would write into files that are somebody else's by now.
//!
//! A statement that fails for the content of its row leaves the transaction whole (`INSERT OR ABORT`; `insert` has where that
//! takes a savepoint), so rows need no bisection: the row becomes a reject and its neighbours load.

mod bind;
mod bookkeeping;
mod chunk;
mod counts;
mod fill;
mod insert;
mod keys;
mod moved;
mod parents;
mod positions;
mod reject;
mod retry;
mod sync;
mod table;
mod writer;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use tollgate_log::{DiskStorage, FILE_MODE, Gap, LogId, Position, RecordBatch, Schema, Sequence};

use super::after::AfterLoad;
use super::key::{Monotonic, system_clock};
use super::reject::Refused;
use super::{ReadItem, Retried, Sink, Tally};
use crate::audit::STREAM_UNKNOWN;
use crate::clock::now_us;
use crate::error::SinkError;
use crate::sqlite_files::SqliteFiles;
use bind::timestamp_text;
use chunk::Chunk;
use keys::Keys;
use retry::RetryError;
use sync::{left_wal, sync_wal};
use table::{EnsureError, ensure};

pub(crate) use counts::{LogCounts, StreamCounts, read_counts};
pub(crate) use positions::read_positions;
pub(crate) use table::check;
use writer::BatchWriter;

pub(super) use reject::{json_text, readable, row_as_json};

/// The first version without the WAL-reset bug that could corrupt a database with several connections.
const VERSION_MIN: i32 = 3_051_003;
const VERSION_MIN_TEXT: &str = "3.51.3";
/// How long SQLite itself waits for a lock; the loader's backoff comes on top.
const LOCK_WAIT: Duration = Duration::from_millis(250);
/// A WAL that grew beyond this is cut when it is begun anew.
const WAL_BYTES_KEPT: i64 = 64 << 20;
/// A WAL of this size means that a reader holds it up.
const WAL_BYTES_WARN: u64 = 256 << 20;
const STATEMENTS_MAX: usize = 256;

/// What a file that runs after each load reads what is new from: one row, of this connection alone.
const LOAD_TABLE: &str = "CREATE TEMP TABLE IF NOT EXISTS tollgate_load (log TEXT, first INTEGER, last INTEGER); \
     INSERT INTO tollgate_load DEFAULT VALUES";

/// An SQLite database that is loaded into.
pub(crate) struct SqliteSink {
    path: PathBuf,
    /// Whose bookkeeping it is.
    name: String,
    connection: Connection,
    files: SqliteFiles,
    /// What SQLite calls the state that others left the database in, as of the last look.
    data_version: Option<i64>,
    after: Option<AfterLoad>,
    rejects_max: u64,
    /// The insert statement of each schema whose table is ensured.
    tables: HashMap<Schema, String>,
    keys: Keys,
    chunk: Option<Chunk>,
    /// Logs whose last load had rows without a parent.
    orphaned: BTreeSet<LogId>,
    unchecked_bytes: u64,
    is_wal_warned: bool,
}

/// Names the database of an error.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(rusqlite::Error) -> SinkError {
    let path = path.to_owned();
    move |source| match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SinkError::Locked { path },
        _ => SinkError::Database { action, path, source },
    }
}

impl SqliteSink {
    /// Opens or makes the database.
    ///
    /// # Errors
    /// Not a database, not writable, too old a library, a later bookkeeping; `Locked` is worth a retry.
    pub(crate) fn open(
        path: &Path,
        name: &str,
        after: Option<AfterLoad>,
        rejects_max: u64,
    ) -> Result<Self, SinkError> {
        Self::open_with(path, name, (after, rejects_max), system_clock())
    }

    /// The same with a clock that windows of keys go by.
    pub(crate) fn open_with(
        path: &Path,
        name: &str,
        (after, rejects_max): (Option<AfterLoad>, u64),
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
        let keys = Keys::new(&connection, clock).map_err(failed("read how long keys are kept", path))?;
        let sink = Self {
            path: path.to_owned(),
            name: name.to_owned(),
            connection,
            files: SqliteFiles::of(path),
            data_version: None,
            after,
            rejects_max,
            tables: HashMap::new(),
            keys,
            chunk: None,
            orphaned: BTreeSet::new(),
            // What a run before left in the WAL is not known: the first commit finds out.
            unchecked_bytes: u64::MAX,
            is_wal_warned: false,
        };
        sink.check_files()?;
        Ok(sink)
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(rusqlite::Error) -> SinkError {
        failed(action, &self.path)
    }

    fn warn_of_large_wal(&mut self, wal_frames: i64, page_bytes: i64) {
        let wal_bytes = wal_frames.saturating_mul(page_bytes).max(0).cast_unsigned();
        if wal_bytes < WAL_BYTES_WARN {
            self.is_wal_warned = false;
        } else if !self.is_wal_warned {
            self.is_wal_warned = true;
            tracing::warn!(
                database = %self.path.display(), wal_bytes,
                "the WAL cannot be written back: a reader keeps an old snapshot open"
            );
        }
    }
}

/// Segments are deleted because the database has them: its own name has to be as durable.
fn make_folder(path: &Path) -> Result<(), SinkError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    tollgate_log::make_folder(&DiskStorage, folder)
        .map_err(|source| SinkError::Folder { path: path.to_owned(), source })
}

/// Makes an empty file with mode [`FILE_MODE`], because SQLite would use all that the umask allows. SQLite gives its other
/// files the same mode. An error shows when SQLite opens the file.
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

fn now_text() -> String {
    let text = timestamp_text(now_us()).unwrap_or(*b"9999-12-31T23:59:59.999999Z");
    String::from_utf8_lossy(&text).into_owned()
}

impl Sink for SqliteSink {
    fn is_enrolled(&mut self) -> Result<bool, SinkError> {
        self.connection
            .query_row("SELECT 1 FROM tollgate_sinks WHERE sink = ?1", [&self.name], |_| Ok(()))
            .optional()
            .map(|row| row.is_some())
            .map_err(self.failed("look whether the sink is new"))
    }

    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.failed("begin to enroll the sink"))?;
        let enrolled = enroll(&self.connection, &self.name, ends);
        enrolled.and_then(|()| self.connection.execute_batch("COMMIT")).map_err(|error| {
            let error = self.failed("enroll the sink")(error);
            self.rollback();
            error
        })
    }

    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError> {
        let row = |row: &rusqlite::Row<'_>| {
            let (last, chain): (i64, Option<u32>) = (row.get(0)?, row.get(1)?);
            Ok(Position { last: Sequence(last.cast_unsigned()), chain })
        };
        self.connection
            .prepare_cached("SELECT last, chain FROM tollgate_positions WHERE sink = ?1 AND log = ?2")
            .and_then(|mut statement| {
                statement.query_row(params![self.name, log.to_string()], row).optional()
            })
            .map_err(self.failed("read the position"))
    }

    fn look(&mut self, schema: &Schema) -> Result<(), SinkError> {
        if self.tables.contains_key(schema) {
            return Ok(());
        }
        table::look(&self.connection, schema).map_err(|error| match error {
            EnsureError::Refused(error) => error,
            EnsureError::Database(error) => self.failed("look at a table")(error),
        })
    }

    fn tables_met(&self) -> usize {
        self.chunk.as_ref().map_or(0, |chunk| chunk.tables_met)
    }

    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError> {
        self.begin_chunk(log, expected, None)?;
        // The commit decides; looking here spares the work of a chunk that cannot win.
        if self.position(log)?.map(|found| found.last) != expected.map(|position| position.last) {
            return Err(SinkError::Lost { log });
        }
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError> {
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        chunk.saw(batch.first());
        chunk.refusals.enter(batch.segment());
        chunk.bytes += batch.bytes() as u64;
        let mut writer = BatchWriter {
            path: &self.path,
            connection: &self.connection,
            tables: &mut self.tables,
            sink: &self.name,
            keys: &mut self.keys,
            log_text: &chunk.log_text,
            triggered: &chunk.triggered,
            parents: chunk.parents,
            lanes: Vec::new(),
            tables_met: &mut chunk.tables_met,
            refusals: &mut chunk.refusals,
        };
        let mut undecodable = Tally::default();
        for (sequence, record) in batch.numbered() {
            match record {
                Ok(record) => writer.record(&record)?,
                Err(error) => {
                    writer.reject(sequence, STREAM_UNKNOWN, &Refused::at_ingest(&error.to_string(), &[]))?;
                    undecodable.rejects += 1;
                }
            }
        }
        for lane in &writer.lanes {
            chunk.counts.add(lane.stream, lane.tally);
        }
        if undecodable.rejects > 0 {
            chunk.counts.add(STREAM_UNKNOWN, undecodable);
        }
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        chunk.saw(gap.first);
        chunk.missing = chunk.missing.saturating_add(gap.first.count_to(gap.last));
        let (first, last) = (gap.first.0.cast_signed(), gap.last.0.cast_signed());
        self.connection
            .execute(
                "INSERT INTO tollgate_gaps (sink, log, first, last, reason, since) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![self.name, chunk.log_text, first, last, gap.reason, now_text()],
            )
            .map_err(failed("note a gap", &self.path))?;
        Ok(())
    }

    fn skipped(&mut self, stream: &str, count: u64) {
        if let Some(chunk) = &mut self.chunk {
            chunk.counts.add(stream, Tally { skipped: count, ..Tally::default() });
        }
    }

    fn commit(&mut self, end: Position) -> Result<Tally, SinkError> {
        let Some(chunk) = self.chunk.take() else { return Ok(Tally::default()) };
        if !self.move_position(&chunk, end).map_err(self.failed("move the position"))? {
            return Err(SinkError::Lost { log: chunk.log });
        }
        self.finish_chunk(&chunk, end.last)
    }

    fn rejects(
        &mut self,
        log: LogId,
        first: Sequence,
        last: Sequence,
    ) -> Result<Vec<(Sequence, String)>, SinkError> {
        reject::between(&self.connection, &self.name, log, (first, last))
            .map_err(self.failed("read the rejects"))
    }

    fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError> {
        fill::gaps(&self.connection, &self.name, log).map_err(self.failed("read the gaps"))
    }

    fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError> {
        fill::records(&self.connection, &self.name).map_err(self.failed("count the records of gaps"))
    }

    fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError> {
        let renamed = fill::rename(&self.connection, &self.name, log, gap, reason);
        let is_renamed = renamed.map_err(self.failed("change the reason of a gap"))?;
        self.check_files()?;
        Ok(is_renamed)
    }

    fn begin_fill(&mut self, log: LogId, gap: &Gap) -> Result<(), SinkError> {
        self.begin_chunk(log, None, Some(gap.clone()))
    }

    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError> {
        let Some(chunk) = self.chunk.take() else { return Ok(Tally::default()) };
        let Some(gap) = &chunk.filled else { return Ok(Tally::default()) };
        let is_replaced = fill::replace(&self.connection, &self.name, &chunk.log_text, gap, left);
        if !is_replaced.map_err(self.failed("fill a gap"))? {
            return Err(SinkError::Lost { log: chunk.log });
        }
        self.finish_chunk(&chunk, gap.last)
    }

    fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError> {
        let retried = retry::retry(&self.connection, &self.name, &mut self.keys, read);
        let retried = retried.map_err(|error| match error {
            RetryError::Database(error) => self.failed("try rejects again")(error),
            RetryError::RolledBack(table) => SinkError::RolledBack { table },
        })?;
        self.check_files()?;
        Ok(retried)
    }

    fn rollback(&mut self) {
        self.chunk = None;
        // Tables that were made in the transaction are gone with it.
        self.tables.clear();
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::warn!(database = %self.path.display(), %error, "rollback failed");
        }
    }

    fn is_changed(&mut self) -> Result<bool, SinkError> {
        self.look_at_files()
    }

    fn tidy(&mut self, bytes: u64) -> Result<(), SinkError> {
        if self.unchecked_bytes < bytes {
            return Ok(());
        }
        self.check_files()?;
        self.unchecked_bytes = 0;
        let wal_frames: i64 = self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))
            .map_err(self.failed("write the WAL back"))?;
        let page_bytes: i64 = self
            .connection
            .query_row("PRAGMA page_size", [], |row| row.get(0))
            .map_err(self.failed("read"))?;
        self.warn_of_large_wal(wal_frames, page_bytes);
        Ok(())
    }
}

/// Does nothing if the sink is known: another loader was faster.
fn enroll(
    connection: &Connection,
    sink: &str,
    ends: &BTreeMap<LogId, Position>,
) -> Result<(), rusqlite::Error> {
    let now = now_text();
    let new = connection.execute(
        "INSERT INTO tollgate_sinks (sink, since) VALUES (?1, ?2) ON CONFLICT (sink) DO NOTHING",
        params![sink, now],
    )?;
    if new == 0 {
        return Ok(());
    }
    let mut position = connection.prepare_cached(
        "INSERT INTO tollgate_positions (sink, log, start, last, chain, loaded_at) \
         VALUES (?1, ?2, ?3, ?3, ?4, ?5) ON CONFLICT (sink, log) DO NOTHING",
    )?;
    for (log, end) in ends {
        let (last, chain) = (end.last.0.cast_signed(), end.chain.map(i64::from));
        position.execute(params![sink, log.to_string(), last, chain, now])?;
    }
    Ok(())
}

fn ensure_table(connection: &Connection, path: &Path, schema: &Schema) -> Result<String, SinkError> {
    ensure(connection, schema).map_err(|error| match error {
        EnsureError::Refused(error) => error,
        EnsureError::Database(error) => failed("make or change a table", path)(error),
    })
}

//! What a load needs of a database: the seam between following logs and keeping rows.
//!
//! A sink has one transaction open at most. Between [`Sink::begin`] and [`Sink::commit`] it takes batches and gaps of
//! one log, in order; all of them, and the position behind the last, become visible together or not at all.

mod after;
mod postgres;
mod sqlite;

use std::collections::BTreeMap;
use std::path::PathBuf;

use tollgate_log::{Gap, LogId, Position, RecordBatch, Schema};

use crate::error::SinkError;
use after::AfterLoad;
use postgres::PostgresSink;
use sqlite::SqliteSink;

pub use postgres::{PostgresOptions, PostgresUrl, TableName, hide_password};
pub(crate) use sqlite::LogCounts;

/// How many rows of one load the database may refuse before something else must be wrong.
const REJECTS_MAX: u64 = 1_000;

/// Names a sink and says where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkOptions {
    /// The name in configuration, log lines and metrics.
    pub name: String,
    /// Where it is.
    pub kind: SinkKind,
    /// A file of SQL that runs in the transaction of each load, after its rows were written.
    pub after_load: Option<PathBuf>,
    /// More rows of one load than this refused by the database stop the sink.
    pub rejects_max: u64,
}

/// The kinds of sinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkKind {
    /// An SQLite database in a file, made if missing; its folder has to be there.
    Sqlite {
        /// The file.
        path: PathBuf,
    },
    /// A PostgreSQL database.
    Postgres(Box<PostgresOptions>),
}

impl SinkOptions {
    /// A sink with the defaults.
    pub fn new(name: impl Into<String>, kind: SinkKind) -> Self {
        Self { name: name.into(), kind, after_load: None, rejects_max: REJECTS_MAX }
    }

    /// Opens the sink for writing.
    pub(crate) fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let after = self.after_load.clone().map(AfterLoad::new);
        match &self.kind {
            SinkKind::Sqlite { path } => Ok(Box::new(SqliteSink::open(path, after, self.rejects_max)?)),
            SinkKind::Postgres(options) => {
                Ok(Box::new(PostgresSink::open(options, after, self.rejects_max)?))
            }
        }
    }

    /// Reads how far each log is loaded, changing nothing. None: the database is not there, or nothing was loaded yet.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn positions(&self) -> Result<Option<BTreeMap<LogId, Position>>, SinkError> {
        match &self.kind {
            SinkKind::Sqlite { path } => sqlite::read_positions(path),
            SinkKind::Postgres(options) => postgres::read_positions(options),
        }
    }

    /// Reads positions and counters, changing nothing. A database that is not there has loaded nothing.
    pub(crate) fn counts(&self) -> Result<Vec<LogCounts>, SinkError> {
        match &self.kind {
            SinkKind::Sqlite { path } => sqlite::read_counts(path),
            SinkKind::Postgres(options) => postgres::read_counts(options),
        }
    }
}

/// What one commit brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Rows in tables.
    pub rows: u64,
    /// Rejects, those made at ingest and those that the database made.
    pub rejects: u64,
    /// Records that are in gaps.
    pub missing: u64,
}

/// A database that rows are loaded into.
///
/// After any error of `begin`, `write`, `gap` or `commit` the caller calls [`Self::rollback`] and reads the position
/// again: whether a commit that failed took place is known by that alone.
pub trait Sink: Send {
    /// How far a log is loaded; none if nothing of it is.
    ///
    /// # Errors
    /// The database fails.
    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError>;

    /// Makes the table of a stream, or adds the columns that it gained. Nothing is ever dropped or retyped.
    ///
    /// # Errors
    /// `StreamName` and `TypeChanged` stop the sink; others are retried.
    fn ensure(&mut self, schema: &Schema) -> Result<(), SinkError>;

    /// Begins a transaction for records of `log` behind `expected`.
    ///
    /// # Errors
    /// `Lost` if the position is another by now.
    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError>;

    /// Takes the records of a batch: rows, or rejects where the database refuses a row for its content.
    ///
    /// # Errors
    /// Any error that is not one of a row.
    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError>;

    /// Takes a gap.
    ///
    /// # Errors
    /// The database fails.
    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError>;

    /// Moves the position to `end` and commits. `Ok` means on disk.
    ///
    /// # Errors
    /// `Lost` if the position is not the expected one: then nothing is committed. After other errors it is unknown.
    fn commit(&mut self, end: Position) -> Result<Tally, SinkError>;

    /// Gives up the open transaction, if there is one.
    fn rollback(&mut self);

    /// Does what may be done between loads, to keep the next ones fast and files bounded, once about so many bytes were
    /// written since the last time.
    ///
    /// # Errors
    /// The database fails; no row depends on it.
    fn tidy(&mut self, bytes: u64) -> Result<(), SinkError>;
}

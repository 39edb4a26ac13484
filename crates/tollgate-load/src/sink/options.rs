//! What a sink is: its name, its place, what it takes; and how it is opened and read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tollgate_log::{LogId, Position, Schema};

use super::accounts::LogCounts;
use super::after::AfterLoad;
use super::contract::Sink;
use super::postgres::{self, PostgresOptions, PostgresSink};
use super::reject::{ReadItem, Retried};
use super::sqlite::{self, SqliteSink};
use super::streams::Taken;
use crate::error::SinkError;

/// How many rows of one segment the database may refuse before something else must be wrong.
const REJECTS_MAX: u64 = 1_000;

/// Names a sink and says where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkOptions {
    /// The name in configuration, log lines and metrics.
    pub name: String,
    /// Where it is.
    pub kind: SinkKind,
    /// What of the logs it takes.
    pub taken: Taken,
    /// Where it begins, when the database has never seen it.
    pub from: LoadFrom,
    /// A file of SQL that runs in the transaction of each load, after its rows were written.
    pub after_load: Option<PathBuf>,
    /// More rows of one segment than this refused by the database stop the sink.
    pub rejects_max: u64,
}

/// Where a sink begins that the database has never seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadFrom {
    /// At the oldest record that is kept.
    #[default]
    Oldest,
    /// Behind what may be read at that moment: the records before are neither pending nor missing.
    Now,
}

impl LoadFrom {
    /// Both, with their names in configuration.
    pub const ALL: [(&'static str, Self); 2] = [("oldest", Self::Oldest), ("now", Self::Now)];

    /// The name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oldest => "oldest",
            Self::Now => "now",
        }
    }
}

/// The kinds of sinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkKind {
    /// An SQLite database in a file, made with its folder if missing.
    Sqlite {
        /// The file.
        path: PathBuf,
    },
    /// A PostgreSQL database.
    Postgres(Box<PostgresOptions>),
}

impl SinkOptions {
    /// A sink with the defaults: it takes all streams from the oldest record on.
    pub fn new(name: impl Into<String>, kind: SinkKind) -> Self {
        let (taken, from) = (Taken::default(), LoadFrom::default());
        Self { name: name.into(), kind, taken, from, after_load: None, rejects_max: REJECTS_MAX }
    }

    /// What else than before is meant by the same name, so that its positions would not be there. None: it is
    /// the same.
    pub fn moved_by(&self, new: &Self) -> Option<&'static str> {
        match (&self.kind, &new.kind) {
            (SinkKind::Sqlite { path }, SinkKind::Sqlite { path: new }) if path == new => None,
            (SinkKind::Postgres(present), SinkKind::Postgres(new)) => present.moved_by(new),
            _ => Some("another database"),
        }
    }

    /// Opens the sink for writing.
    pub(crate) fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let after = self.after_load.clone().map(AfterLoad::new);
        match &self.kind {
            SinkKind::Sqlite { path } => {
                Ok(Box::new(SqliteSink::open(path, &self.name, after, self.rejects_max)?))
            }
            SinkKind::Postgres(options) => {
                Ok(Box::new(PostgresSink::open(options, &self.name, after, self.rejects_max)?))
            }
        }
    }

    /// Looks whether the rows of these streams fit their tables, as far as there are any, changing nothing.
    ///
    /// # Errors
    /// [`SinkError::is_of_configuration`] if they do not; or the database does not answer.
    pub fn check(&self, streams: &[Schema]) -> Result<(), SinkError> {
        let taken = streams.iter().filter(|schema| self.taken.takes(schema.stream()));
        match &self.kind {
            SinkKind::Sqlite { path } => sqlite::check(path, taken),
            SinkKind::Postgres(options) => postgres::check(options, taken),
        }
    }

    /// Tries the rejects of the sink again; `read` knows the streams of today.
    ///
    /// # Errors
    /// The sink cannot be opened or fails; what was committed before counts.
    pub fn retry_rejects(&self, read: &ReadItem<'_>) -> Result<Retried, SinkError> {
        self.open()?.retry_rejects(read)
    }

    /// Reads how far each log is loaded, changing nothing. None: the database is not there, or nothing was
    /// loaded yet.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn positions(&self) -> Result<Option<BTreeMap<LogId, Position>>, SinkError> {
        match &self.kind {
            SinkKind::Sqlite { path } => sqlite::read_positions(path, &self.name),
            SinkKind::Postgres(options) => postgres::read_positions(options, &self.name),
        }
    }

    /// Reads positions and counters, changing nothing. A database that is not there has loaded nothing.
    pub(crate) fn counts(&self) -> Result<Vec<LogCounts>, SinkError> {
        match &self.kind {
            SinkKind::Sqlite { path } => sqlite::read_counts(path, &self.name),
            SinkKind::Postgres(options) => postgres::read_counts(options, &self.name),
        }
    }
}

/// An SQLite sink whose windows of keys go by another clock.
#[cfg(test)]
pub(crate) fn sqlite_with_clock(
    path: &std::path::Path,
    name: &str,
    clock: impl Fn() -> std::time::Duration + Send + 'static,
) -> Result<Box<dyn Sink>, SinkError> {
    let sink = SqliteSink::open_with(path, name, (None, REJECTS_MAX), Box::new(clock))?;
    Ok(Box::new(sink))
}

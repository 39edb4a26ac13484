//! What a load needs of a database: the seam between following logs and keeping rows.
//!
//! A sink has one transaction open at most. Between [`Sink::begin`] and [`Sink::commit`] it takes batches and gaps of
//! one log, in order; all of them, and the position behind the last, become visible together or not at all.

mod after;
mod item;
mod key;
mod postgres;
mod refusals;
mod reject;
mod sqlite;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use tollgate_log::{Gap, LogId, Position, RecordBatch, Schema, Sequence};

use crate::audit::STREAM_UNKNOWN;
use crate::error::SinkError;
use after::AfterLoad;
use postgres::PostgresSink;
use sqlite::SqliteSink;

pub(crate) use postgres::connect;
pub use postgres::{PostgresOptions, PostgresUrl, TableName, hide_password};
pub use reject::{ItemRow, ReadItem};
pub(crate) use sqlite::LogCounts;
pub(crate) use tally::Counts;
pub use tally::Tally;

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

/// The streams that a sink takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Taken {
    /// All of them, also those that are declared later.
    #[default]
    All,
    /// Those of these names.
    Only(BTreeSet<String>),
}

impl Taken {
    /// Whether records of a stream go to the sink. Those that nobody knows the stream of go to every sink.
    pub fn takes(&self, stream: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(streams) => streams.contains(stream) || stream == STREAM_UNKNOWN,
        }
    }
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

    /// What else than before is meant by the same name, so that its positions would not be there. None: it is the same.
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

    /// Reads how far each log is loaded, changing nothing. None: the database is not there, or nothing was loaded yet.
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

/// What became of rejects that were tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retried {
    /// They are rows now.
    pub loaded: u64,
    /// Another record had their key by now.
    pub duplicates: u64,
    /// They stay rejects.
    pub kept: u64,
}

impl Retried {
    fn count(&mut self, fate: Fate) {
        *match fate {
            Fate::Loaded => &mut self.loaded,
            Fate::Duplicate => &mut self.duplicates,
            Fate::Kept => &mut self.kept,
        } += 1;
    }
}

/// What became of one of them.
#[derive(Clone, Copy)]
enum Fate {
    Loaded,
    Duplicate,
    Kept,
}

/// The layout of the bookkeeping tables, which the database keeps: whoever finds another leaves it alone.
const BOOKKEEPING_VERSION: i64 = 1;

/// Rejects that are tried again in one transaction.
const RETRIED_AT_ONCE: i64 = 500;

/// A database that rows are loaded into.
///
/// # Keys
/// A row whose schema has a key ([`Schema::key`]) and whose key is not null is loaded only if no other record of the
/// stream holds that key. The sink keeps the keys in a table of its own, `(stream, key)` the primary key, with the log and
/// sequence number of the record that holds it and the tick at which its window ends. That table changes in the
/// transaction of the load, so what every sink has to do is this, in the order of the records:
///
/// - insert the key; where it is there already, take it over if its window ended, or if it is held by this very record
///   (a position was taken back by hand); else the record is a duplicate: counted, neither loaded nor rejected;
/// - a row that the database then refuses gives its key back: a reject holds none, so that a mended retry is loaded. It
///   remembers its key, to ask for it again when it is tried again;
/// - rows without a key are loaded always.
///
/// Two loaders of two logs may meet the same key at once: the database decides. In SQLite one of them has the lock of all
/// writes. In PostgreSQL `INSERT ... ON CONFLICT DO UPDATE ... WHERE ... RETURNING` waits for the other transaction; insert
/// the keys of a chunk in their own order, so that two loaders never wait for each other, and COPY only the rows whose
/// key was returned. Where several sinks share a database the keys are each sink's own.
///
/// Ticks are milliseconds that loaders ran, never wall time: the database keeps the count, a loader goes on from it by its
/// monotonic clock, and stores the larger of the two. Several loaders at once thus do not make it run faster, and while
/// none runs it stands, which keeps keys longer and never shorter. Keys whose window ended are deleted with later loads,
/// a bounded number in each.
///
/// After any error of `begin`, `write`, `gap`, `commit` or those of a fill the caller calls [`Self::rollback`] and reads the position
/// again: whether a commit that failed took place is known by that alone.
pub trait Sink: Send {
    /// Whether the database has seen the sink of this name before.
    ///
    /// # Errors
    /// The database fails.
    fn is_enrolled(&mut self) -> Result<bool, SinkError>;

    /// Notes that the sink is there from now on, and that it begins behind these positions, in one transaction. Does
    /// nothing if it is enrolled.
    ///
    /// # Errors
    /// The database fails.
    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError>;

    /// How far a log is loaded; none if nothing of it is.
    ///
    /// # Errors
    /// The database fails.
    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError>;

    /// Looks whether rows of a stream fit its table, as far as there is one, and changes nothing.
    ///
    /// [`Self::write`] makes the table when its first record comes, and adds the columns that the stream gained. Nothing is
    /// ever dropped or retyped.
    ///
    /// # Errors
    /// `StreamName` and `TypeChanged` stop the sink; others are retried.
    fn look(&mut self, schema: &Schema) -> Result<(), SinkError>;

    /// How many schemas the open transaction has met whose table it had to look at or to make.
    fn tables_met(&self) -> usize;

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

    /// Counts records of a stream that the sink does not take; they are left out of the batch that is written next.
    fn skipped(&mut self, stream: &str, count: u64);

    /// Takes a gap.
    ///
    /// # Errors
    /// The database fails.
    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError>;

    /// Moves the position to `end` and commits. `Ok` means on disk, in the database that is at its place.
    ///
    /// # Errors
    /// `Lost` if the position is not the expected one, `Orphans` if the same load has to be written once more: then nothing is
    /// committed. After other errors it is unknown.
    fn commit(&mut self, end: Position) -> Result<Tally, SinkError>;

    /// The rejects of a log from `first` to `last`, in order, each with its reason.
    ///
    /// # Errors
    /// The database fails.
    fn rejects(
        &mut self,
        log: LogId,
        first: Sequence,
        last: Sequence,
    ) -> Result<Vec<(Sequence, String)>, SinkError>;

    /// The gaps of a log, in order.
    ///
    /// # Errors
    /// The database fails.
    fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError>;

    /// How many records are in gaps, those of all logs, by the reason.
    ///
    /// # Errors
    /// The database fails.
    fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError>;

    /// Gives a gap another reason. False: it is not there any more.
    ///
    /// # Errors
    /// The database fails.
    fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError>;

    /// Begins a transaction for records of `log` that lie in this gap. [`Self::write`] follows, then [`Self::commit_fill`].
    ///
    /// # Errors
    /// The database fails.
    fn begin_fill(&mut self, log: LogId, gap: &Gap) -> Result<(), SinkError>;

    /// Puts what is left of the gap in its place and commits; the position stays. `Ok` means on disk.
    ///
    /// # Errors
    /// `Lost` if the gap is not there any more, `Orphans` if the same load has to be written once more: then nothing is
    /// committed. After other errors it is unknown.
    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError>;

    /// Tries every reject again: a row that the database refused from its stored bytes, an item as the streams of today read
    /// it. What fits becomes a row, or a duplicate where another record has its
    /// key by now, in one transaction with the end of the reject and the counters. What does not fit stays with the reason of today.
    ///
    /// # Errors
    /// The database fails; what was committed before counts.
    fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError>;

    /// Gives up the open transaction, if there is one.
    fn rollback(&mut self);

    /// Whether the database may hold other positions than before the last call: somebody else wrote to it. Asked between loads.
    ///
    /// # Errors
    /// `Moved` if it is not the one any more that was opened.
    fn is_changed(&mut self) -> Result<bool, SinkError>;

    /// Does what may be done between loads, to keep the next ones fast and files bounded, once about so many bytes were
    /// written since the last time.
    ///
    /// # Errors
    /// The database fails; no row depends on it.
    fn tidy(&mut self, bytes: u64) -> Result<(), SinkError>;
}

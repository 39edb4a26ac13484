//! What can go wrong with a sink, at the start and end of a loader, and in an audit.

use std::path::PathBuf;

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use tollgate_log::{LogError, LogId, Sequence};

/// Why a sink did not do what it was asked. Rows refused for their content are no error: they become rejects.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Somebody else holds the lock of the database.
    #[error("database {} is locked by another program", path.display())]
    Locked {
        /// The database.
        path: PathBuf,
    },
    /// The database failed, or is none.
    #[error("cannot {action} in database {}", path.display())]
    Database {
        /// What was tried.
        action: &'static str,
        /// The database.
        path: PathBuf,
        /// Why not.
        source: rusqlite::Error,
    },
    /// The file at the path is not the one that was opened, or its write-ahead log is not; whatever was
    /// committed since may be lost.
    #[error("database {} was removed or replaced while it was open", path.display())]
    Moved {
        /// The database.
        path: PathBuf,
    },
    /// The folder of a database cannot be made.
    #[error("cannot make the folder of database {}", path.display())]
    Folder {
        /// The database.
        path: PathBuf,
        /// Why not.
        source: LogError,
    },
    /// A database that a later version of this program keeps its bookkeeping in.
    #[error(
        "bookkeeping in database {database} is of version {found}, this program knows {known}: use a later one"
    )]
    Bookkeeping {
        /// The database.
        database: String,
        /// The version there.
        found: i64,
        /// The only one that is known.
        known: i64,
    },
    /// What an earlier run left in the write-ahead log could not be put on disk.
    #[error("cannot sync {}", path.display())]
    Sync {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The transaction ended under the loader's feet.
    #[error(
        "a trigger on table {table:?} rolled the load back: use RAISE(ABORT), then the row becomes a reject"
    )]
    RolledBack {
        /// The table.
        table: String,
    },
    /// Another loader moved the position of the log; nothing was committed.
    #[error("another loader moved the position of log {log}")]
    Lost {
        /// The log.
        log: LogId,
    },
    /// Rows lack the parents that they shall have at the commit; nothing was committed. Once more, they are
    /// refused one by one.
    #[error("rows of log {log} lack the parents that foreign keys ask for at the commit")]
    Orphans {
        /// The log.
        log: LogId,
    },
    /// The database library is too old to be trusted with a WAL.
    #[error("SQLite is {found}, needed is {needed} or later")]
    Version {
        /// Its version.
        found: &'static str,
        /// The oldest that is allowed.
        needed: &'static str,
    },
    /// The database cannot keep a write-ahead log.
    #[error("database {} has journal mode {found}, needed is wal", path.display())]
    JournalMode {
        /// The database.
        path: PathBuf,
        /// The mode it stays in.
        found: String,
    },
    /// A stream whose name cannot be that of a table.
    #[error("stream {stream:?} cannot be a table: {reason}")]
    StreamName {
        /// The stream.
        stream: String,
        /// Why not.
        reason: String,
    },
    /// The server refused something, or is not there.
    #[error("cannot {action} in database {server}")]
    Server {
        /// What was tried.
        action: &'static str,
        /// The database, without its password.
        server: String,
        /// What mends it.
        remedy: Remedy,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A setting of the server that rows cannot be trusted to.
    #[error("database {server} has {setting} {found}, needed is {needed}")]
    ServerSetting {
        /// The database.
        server: String,
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: String,
        /// What would do.
        needed: &'static str,
    },
    /// A column of a table that somebody else made, and that no row of the stream fits.
    #[error("column {column:?} of table {table:?} {reason}")]
    ColumnUnfit {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// So many rows are refused that something else than rows must be wrong.
    #[error(
        "database refused {found} rows of one segment for their content, limit {limit}: \
         the one of log {log} that begins with record {segment}; nothing of this load was kept"
    )]
    TooManyRejects {
        /// The log.
        log: LogId,
        /// The first record of the segment.
        segment: Sequence,
        /// How many so far, in all loads.
        found: u64,
        /// `rejects_max`.
        limit: u64,
    },
    /// The file that runs after each load failed; nothing of the load was kept.
    #[error("cannot run {} after a load", file.display())]
    AfterLoad {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file that runs after each load ended the transaction that it runs in.
    #[error("{} ended the transaction of the load that it ran in", file.display())]
    AfterLoadEnded {
        /// The file.
        file: PathBuf,
    },
    /// A column that has another type in the database.
    #[error(
        "column {column:?} of table {table:?} is {found}, the stream has {wanted}: \
         columns are never retyped; rename the one in the table \
         (ALTER TABLE ... RENAME COLUMN ... TO ...), then a new one is made, or name the stream's column otherwise"
    )]
    TypeChanged {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type in the database.
        found: String,
        /// Its type in the stream.
        wanted: &'static str,
    },
}

/// What mends an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Trying again.
    Time,
    /// Somebody who acts.
    Operator,
}

impl SinkError {
    /// Whether time may mend it. What it does not mend stops the sink until somebody acts.
    pub fn is_retriable(&self) -> bool {
        matches!(
            self,
            Self::Locked { .. }
                | Self::Database { .. }
                | Self::Moved { .. }
                | Self::Folder { .. }
                | Self::Sync { .. }
                | Self::RolledBack { .. }
                | Self::Lost { .. }
                | Self::Orphans { .. }
                | Self::Server { remedy: Remedy::Time, .. }
        )
    }

    /// Whether the configuration is wrong, as far as the database shows: all else its surroundings can cause
    /// and mend.
    pub fn is_of_configuration(&self) -> bool {
        matches!(self, Self::TypeChanged { .. } | Self::StreamName { .. })
    }

    /// Whether it is worth waiting for by somebody who wants to be done: the lock of another program, a disk
    /// that is full, a server that is away.
    pub(crate) fn is_waited_for(&self) -> bool {
        match self {
            Self::Locked { .. } | Self::Server { remedy: Remedy::Time, .. } => true,
            Self::Database { source, .. } => is_disk_full(source),
            _ => false,
        }
    }
}

/// Shared memory that does not fit is told as a failed read or write.
fn is_disk_full(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    error.sqlite_error_code() == Some(ErrorCode::DiskFull) || code == Some(SQLITE_IOERR_SHMSIZE)
}

/// Why a loader did not start: there is no thread to be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread of a loader")]
pub struct LoaderStartError(#[source] pub std::io::Error);

/// Why a loader ended before everything was loaded. Nothing is lost: the next run goes on at the position.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// The time was over.
    #[error("sink {name:?} is not done after {waited_ms} ms, last error: {}", last_error.as_deref().unwrap_or("none"))]
    Timeout {
        /// The sink.
        name: String,
        /// How long it was waited for.
        waited_ms: u128,
        /// What held it up, if anything did.
        last_error: Option<String>,
    },
    /// The sink does not answer.
    #[error("sink {name:?} is away, left after {waited_ms} ms, last error: {}", last_error.as_deref().unwrap_or("none"))]
    Away {
        /// The sink.
        name: String,
        /// How long it was waited for.
        waited_ms: u128,
        /// What it said last, if anything.
        last_error: Option<String>,
    },
    /// The sink stopped: somebody has to act.
    #[error("sink {name:?} stopped: {reason}")]
    Stopped {
        /// The sink.
        name: String,
        /// Why.
        reason: String,
    },
}

/// Why an audit has no result.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The segments cannot be read.
    #[error("cannot count what is in the log")]
    Log(#[from] LogError),
    /// The sink cannot be read.
    #[error("cannot count what is in the sink")]
    Sink(#[from] SinkError),
}

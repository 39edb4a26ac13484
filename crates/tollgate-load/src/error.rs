//! Errors of a sink, of the start and end of a loader, and of an audit.

use std::path::PathBuf;

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use tollgate_log::{LogError, LogId, Sequence};

/// Error of a sink. Rows refused for their content are no error, because they become rejects.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Another program holds the lock of the database.
    #[error("database {} is locked by another program", path.display())]
    Locked {
        /// The database.
        path: PathBuf,
    },
    /// The database failed, or the file is no database.
    #[error("cannot {action} in database {}", path.display())]
    Database {
        /// The failed action.
        action: &'static str,
        /// The database.
        path: PathBuf,
        /// Error of SQLite.
        source: rusqlite::Error,
    },
    /// The database or its write-ahead log is no longer the file that was opened. Later commits may be lost.
    #[error("database {} was removed or replaced while it was open", path.display())]
    Moved {
        /// The database.
        path: PathBuf,
    },
    /// The folder of a database cannot be created.
    #[error("cannot create the folder of database {}", path.display())]
    Folder {
        /// The database.
        path: PathBuf,
        /// Error of the folder.
        source: LogError,
    },
    /// A later version of this program made the bookkeeping of the database.
    #[error(
        "bookkeeping in database {database} is of version {found}, this program knows version {known}: \
         use a later program"
    )]
    Bookkeeping {
        /// The database.
        database: String,
        /// Version of the bookkeeping.
        found: i64,
        /// Version that this program knows.
        known: i64,
    },
    /// The write-ahead log that an earlier run left could not be synced.
    #[error("cannot sync {}", path.display())]
    Sync {
        /// File or folder that could not be synced.
        path: PathBuf,
        /// Error of the sync.
        source: std::io::Error,
    },
    /// A trigger ended the transaction of a load.
    #[error(
        "a trigger on table {table:?} rolled the load back: use RAISE(ABORT), which makes the row a reject"
    )]
    RolledBack {
        /// The table.
        table: String,
    },
    /// Another loader moved the position of the log. Nothing was committed.
    #[error("another loader moved the position of log {log}")]
    Lost {
        /// The log.
        log: LogId,
    },
    /// Rows lack the parents that a foreign key checks at the commit. Nothing was committed. The load is
    /// repeated, and each such row is refused.
    #[error("rows of log {log} violate a foreign key at the commit")]
    Orphans {
        /// The log.
        log: LogId,
    },
    /// The SQLite library has a version with a known WAL bug.
    #[error("SQLite has version {found}, needed is {needed} or later")]
    Version {
        /// Version of the library.
        found: &'static str,
        /// Oldest allowed version.
        needed: &'static str,
    },
    /// The database cannot use a write-ahead log.
    #[error("database {} has journal mode {found}, needed is wal", path.display())]
    JournalMode {
        /// The database.
        path: PathBuf,
        /// Journal mode that it stays in.
        found: String,
    },
    /// The name of a stream cannot be the name of a table.
    #[error("stream {stream:?} cannot be a table: {reason}")]
    StreamName {
        /// The stream.
        stream: String,
        /// The reason.
        reason: String,
    },
    /// The server returned an error, or does not answer.
    #[error("cannot {action} in database {server}")]
    Server {
        /// The failed action.
        action: &'static str,
        /// The database, without its password.
        server: String,
        /// What ends the error.
        remedy: Remedy,
        /// Error of the server or the connection.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A setting of the server could lose rows.
    #[error("database {server} has {setting} {found}, needed is {needed}")]
    ServerSetting {
        /// The database.
        server: String,
        /// The setting.
        setting: &'static str,
        /// Value found.
        found: String,
        /// Value needed.
        needed: &'static str,
    },
    /// No row of the stream fits a column of an operator's table.
    #[error("column {column:?} of table {table:?} {reason}")]
    ColumnUnfit {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The reason.
        reason: &'static str,
    },
    /// The database refuses more rows than faulty rows alone would explain.
    #[error(
        "database refused {found} rows of one segment for their content, limit {limit} rows: \
         the segment of log {log} that begins with record {segment}; nothing of this load was committed"
    )]
    TooManyRejects {
        /// The log.
        log: LogId,
        /// The first record of the segment.
        segment: Sequence,
        /// Rows refused so far, in all loads.
        found: u64,
        /// Value of `rejects_max`.
        limit: u64,
    },
    /// The file that runs after each load failed. Nothing of the load was kept.
    #[error("cannot run {} after a load", file.display())]
    AfterLoad {
        /// The file.
        file: PathBuf,
        /// Error of the file or its statements.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file that runs after each load ended its transaction.
    #[error("{} ended the transaction of the load: remove its COMMIT or ROLLBACK", file.display())]
    AfterLoadEnded {
        /// The file.
        file: PathBuf,
    },
    /// A column has another type in the database than in the stream.
    #[error(
        "column {column:?} of table {table:?} is {found}, the stream has {wanted}: \
         a column never changes its type; rename the column of the table \
         (ALTER TABLE ... RENAME COLUMN ... TO ...), so that a new column is created, \
         or rename the column of the stream"
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
    /// A log of an earlier run needs a column that the configuration gives another type. The column is not
    /// made, because it would keep the rows of the configured stream out.
    #[error(
        "column {column:?} of stream {stream:?} is {found} in the log and {declared} in the configuration: \
         name the column of the configuration otherwise, then both are made"
    )]
    TypeDeclared {
        /// The stream.
        stream: String,
        /// The column.
        column: String,
        /// Its type in the configuration.
        declared: &'static str,
        /// Its type in the log.
        found: &'static str,
    },
}

/// What ends an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Another try.
    Time,
    /// An action of the operator.
    Operator,
}

impl SinkError {
    /// Returns whether a later try may succeed. Other errors stop the sink until an operator acts.
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

    /// Returns whether the configuration is wrong, as far as the database shows. All other errors can have
    /// causes outside the configuration.
    pub fn is_of_configuration(&self) -> bool {
        matches!(self, Self::TypeChanged { .. } | Self::TypeDeclared { .. } | Self::StreamName { .. })
    }

    /// Returns whether a command should wait for the end of this error: the lock of another program, a full
    /// disk, a server that is away.
    pub(crate) fn is_waited_for(&self) -> bool {
        match self {
            Self::Locked { .. } | Self::Server { remedy: Remedy::Time, .. } => true,
            Self::Database { source, .. } => is_disk_full(source),
            _ => false,
        }
    }
}

/// Returns whether the disk is full. SQLite reports shared memory that does not fit as a failed read or
/// write.
fn is_disk_full(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    error.sqlite_error_code() == Some(ErrorCode::DiskFull) || code == Some(SQLITE_IOERR_SHMSIZE)
}

/// Error of a loader that could not start, because no thread could be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread of a loader")]
pub struct LoaderStartError(#[source] pub std::io::Error);

/// Why a loader ended before everything was loaded. Nothing is lost: the next run continues at the position.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// The time was over.
    #[error("sink {name:?} has not loaded everything after {waited_ms} ms, last error: {}", last_error.as_deref().unwrap_or("none"))]
    Timeout {
        /// The sink.
        name: String,
        /// How long the caller waited, in milliseconds.
        waited_ms: u128,
        /// Last error of the loader, if any.
        last_error: Option<String>,
    },
    /// The sink does not answer.
    #[error("sink {name:?} does not answer, gave up after {waited_ms} ms, last error: {}", last_error.as_deref().unwrap_or("none"))]
    Away {
        /// The sink.
        name: String,
        /// How long the caller waited, in milliseconds.
        waited_ms: u128,
        /// Last error of the loader, if any.
        last_error: Option<String>,
    },
    /// The sink stopped. An operator has to act.
    #[error("sink {name:?} stopped: {reason}")]
    Stopped {
        /// The sink.
        name: String,
        /// The reason.
        reason: String,
    },
}

/// Why an audit has no result.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The segments cannot be read.
    #[error("cannot count the records of the log")]
    Log(#[from] LogError),
    /// The sink cannot be read.
    #[error("cannot count the rows of the sink")]
    Sink(#[from] SinkError),
}

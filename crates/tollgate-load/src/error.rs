//! Errors of a sink, of the start and end of a loader, and of an audit.

use std::borrow::Cow;
use std::path::PathBuf;

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use tollgate_lake::LakeError;
use tollgate_log::{LogError, LogId, Sequence};
use tollgate_queue::QueueError;

/// Error of a sink. A row that the database refuses for its content is no error, because it becomes a reject.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Another program holds the lock of the database.
    #[error("database {} is locked by another program", path.display())]
    Locked {
        /// Path of the database.
        path: PathBuf,
    },
    /// The system refuses the user of this process the file of the database, or its folder.
    #[error(
        "permission denied: database {}: use the user of the server, or let this user read and write the \
         file and its folder",
        path.display()
    )]
    Denied {
        /// Path of the database.
        path: PathBuf,
    },
    /// The database failed, or the file is no database.
    #[error("cannot {action} in database {}", path.display())]
    Database {
        /// The failed action.
        action: &'static str,
        /// Path of the database.
        path: PathBuf,
        /// Error of SQLite.
        source: rusqlite::Error,
    },
    /// The file of the database or of its write-ahead log is no longer the file that was opened. Later
    /// commits may be lost.
    #[error("database {} was removed or replaced while it was open", path.display())]
    Moved {
        /// Path of the database.
        path: PathBuf,
    },
    /// A folder for a database or for incomplete files cannot be created.
    #[error("cannot create folder {}", path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the folder.
        source: LogError,
    },
    /// A later version of this program created the bookkeeping tables of the database.
    #[error(
        "bookkeeping in database {database} is of version {found}, this program knows version {known}: \
         use a later program"
    )]
    Bookkeeping {
        /// The database: its path, or its address without the password.
        database: String,
        /// Version of the bookkeeping in the database.
        found: i64,
        /// Version that this program knows.
        known: i64,
    },
    /// The write-ahead log of an earlier run could not be synced.
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
        /// Name of the table.
        table: String,
    },
    /// Another loader moved the position of the log. Nothing was committed.
    #[error("another loader moved the position of log {log}")]
    Lost {
        /// The log whose position moved.
        log: LogId,
    },
    /// Rows refer to missing parents by a foreign key that is checked at the commit. Nothing was committed.
    /// The load is repeated, and refuses each of these rows.
    #[error("rows of log {log} violate a foreign key at the commit")]
    Orphans {
        /// The log of the rows.
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
        /// Path of the database.
        path: PathBuf,
        /// Journal mode that the database stays in.
        found: String,
    },
    /// The database cannot use the name of a stream as the name of a table.
    #[error("stream {stream:?} cannot be a table: {reason}")]
    StreamName {
        /// Name of the stream.
        stream: String,
        /// Why the database cannot use the name.
        reason: String,
    },
    /// The server returned an error, or does not answer.
    #[error("cannot {action} in database {server}")]
    Server {
        /// The failed action.
        action: &'static str,
        /// The database, without its password.
        server: String,
        /// Action that can end the error.
        remedy: Remedy,
        /// Error of the server or the connection.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A broker of Kafka returned an error, or does not answer.
    #[error("cannot {action}")]
    Queue {
        /// The failed action.
        action: &'static str,
        /// Error of the broker or its client.
        source: Box<QueueError>,
    },
    /// The bookkeeping in Kafka has an entry that only a later version of this program knows.
    #[error("bookkeeping in Kafka has the unknown entry {key:?}: use a later program")]
    QueueEntry {
        /// Key of the entry.
        key: String,
    },
    /// A row has not the columns of its schema.
    #[error("a row for topic {topic:?} has not its columns: {reason}")]
    RowUnfit {
        /// Name of the topic.
        topic: String,
        /// Why it has not.
        reason: String,
    },
    /// A partition ends before the position of the sink.
    #[error(
        "partition {place} ends at offset {end}, before offset {next} that is loaded: the topic lost records"
    )]
    TopicCut {
        /// The topic and the partition.
        place: String,
        /// Offset after the last record.
        end: u64,
        /// Offset of the next record to load.
        next: u64,
    },
    /// The database has a log by its own loader and by the topics.
    #[error(
        "sink {sink} loads log {log} from its segments, so its rows in topic {topic:?} would be there \
         twice: load the topics into a database of their own"
    )]
    LoadedTwice {
        /// Name of the sink that loads the segments.
        sink: String,
        /// The log.
        log: LogId,
        /// The topic.
        topic: String,
    },
    /// Topics can be loaded into databases only.
    #[error("sink {sink} is no database, so it cannot load topics: name a sink with a database")]
    TopicsNeedDatabase {
        /// Name of the sink.
        sink: String,
    },
    /// The program was built without a client of Kafka.
    #[error("this program was built without the feature kafka: build it with `--features kafka`")]
    NoQueue,
    /// A folder or store of Parquet files failed.
    #[error("cannot {action}")]
    Lake {
        /// The failed action.
        action: &'static str,
        /// Error of the folder or store.
        source: Box<LakeError>,
    },
    /// The program was built without the writer of Parquet.
    #[error("this program was built without the feature lake: build it with `--features lake`")]
    NoLake,
    /// A setting of the server could lose rows.
    #[error("database {server} has {setting} {found}, needed is {needed}")]
    ServerSetting {
        /// Address of the database, without its password.
        server: String,
        /// Name of the setting.
        setting: &'static str,
        /// Value found.
        found: String,
        /// Value needed.
        needed: &'static str,
    },
    /// Because of one column, an operator's table cannot store any row of the stream.
    #[error("column {column:?} of table {table:?} {reason}")]
    ColumnUnfit {
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// Why the column is unfit.
        reason: &'static str,
    },
    /// The database refused more rows than the limit. Their content is probably not the cause.
    #[error(
        "database refused {found} rows of one segment for their content, limit {limit} rows: \
         the segment of log {log} that begins with record {segment}; nothing of this load was committed"
    )]
    TooManyRejects {
        /// The log.
        log: LogId,
        /// The first record of the segment.
        segment: Sequence,
        /// Number of rows refused so far, in all loads of the segment.
        found: u64,
        /// Value of `rejects_max`.
        limit: u64,
    },
    /// The operator's file that runs after each load failed. The load was rolled back.
    #[error("cannot run {} after a load", file.display())]
    AfterLoad {
        /// Path of the file.
        file: PathBuf,
        /// Error of the file or its statements.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The operator's file that runs after each load ended the transaction of the load.
    #[error("{} ended the transaction of the load: remove its COMMIT or ROLLBACK", file.display())]
    AfterLoadEnded {
        /// Path of the file.
        file: PathBuf,
    },
    /// A column has another type in the database than in the stream.
    #[error(
        "column {column:?} of table {table:?} is {found}, the stream has {wanted}: a column never changes its \
         type. Give the column of the stream another name in the configuration. Or stop the server, which \
         loads the records of the old type, then {rename} and start the server, which adds a new column"
    )]
    TypeChanged {
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// Type of the column in the database.
        found: String,
        /// Type of the column in the stream.
        wanted: Cow<'static, str>,
        /// What frees the name of the column.
        rename: String,
    },
    /// A log of an earlier run needs a column to which the configuration gives another type. The sink does
    /// not create the column with the old type, because rows of the configured stream would not fit it.
    #[error(
        "column {column:?} of stream {stream:?} is {found} in the log and {declared} in the configuration: \
         name the column of the configuration otherwise, then both are made"
    )]
    TypeDeclared {
        /// Name of the stream.
        stream: String,
        /// Name of the column.
        column: String,
        /// Type of the column in the configuration.
        declared: Cow<'static, str>,
        /// Type of the column in the log.
        found: Cow<'static, str>,
    },
}

/// Action that can end an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Another try of the loader.
    Time,
    /// The end of another transaction, or of the stop of the server. The call ended without an answer.
    Release,
    /// An action of the operator.
    Operator,
}

impl SinkError {
    /// Returns whether a later try may succeed. Other errors stop the sink until an operator acts.
    pub fn is_retriable(&self) -> bool {
        matches!(
            self,
            Self::Locked { .. }
                | Self::Denied { .. }
                | Self::Database { .. }
                | Self::Moved { .. }
                | Self::Folder { .. }
                | Self::Sync { .. }
                | Self::RolledBack { .. }
                | Self::Lost { .. }
                | Self::Orphans { .. }
                | Self::Server { remedy: Remedy::Time | Remedy::Release, .. }
        ) || self.is_queue_away()
            || self.is_queue_busy()
            || self.is_queue_denied()
            || self.is_queue_repeated()
            || matches!(self, Self::Lake { source, .. } if source.is_retriable())
    }

    /// Returns a function that wraps an error of a folder or store of Parquet files.
    pub(crate) fn lake(action: &'static str) -> impl FnOnce(LakeError) -> Self {
        move |source| Self::Lake { action, source: Box::new(source) }
    }

    /// Returns whether no broker of Kafka answers, or none in time.
    fn is_queue_away(&self) -> bool {
        matches!(self, Self::Queue { source, .. } if matches!(
            **source,
            QueueError::Away { .. } | QueueError::Slow { .. }
        ))
    }

    /// Returns whether a broker of Kafka answered with an error that may pass with time.
    fn is_queue_busy(&self) -> bool {
        matches!(self, Self::Queue { source, .. } if matches!(**source, QueueError::NotNow { .. }))
    }

    /// Returns whether a broker of Kafka denies access. An operator may grant it there.
    fn is_queue_denied(&self) -> bool {
        matches!(self, Self::Queue { source, .. } if matches!(**source, QueueError::Denied { .. }))
    }

    /// Returns whether a transaction of Kafka has to be repeated, unless the topics show its commit.
    pub(crate) fn is_queue_repeated(&self) -> bool {
        matches!(self, Self::Queue { source, .. } if matches!(
            **source,
            QueueError::Unknown { .. } | QueueError::Aborted { .. } | QueueError::Fenced { .. }
        ))
    }

    /// Returns whether a broker needed too long for a load. A smaller load may arrive in time.
    pub(crate) fn is_of_slow_load(&self) -> bool {
        matches!(self, Self::Queue { source, .. } if matches!(
            **source,
            QueueError::Slow { .. } | QueueError::Unknown { .. }
        ))
    }

    /// Returns whether the configuration is wrong, as far as the database shows. All other errors can have
    /// causes outside the configuration.
    pub fn is_of_configuration(&self) -> bool {
        matches!(self, Self::TypeChanged { .. } | Self::TypeDeclared { .. } | Self::StreamName { .. })
    }

    /// Returns whether the call ended without an answer of the database: another program held a lock, or a
    /// timeout passed.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Server { remedy: Remedy::Release, .. })
            || self.is_queue_away()
    }

    /// Returns whether a command should wait until this error ends. Such errors are the lock of another
    /// program, a full disk, and a server that does not answer.
    pub(crate) fn is_waited_for(&self) -> bool {
        match self {
            Self::Locked { .. } | Self::Server { remedy: Remedy::Time | Remedy::Release, .. } => true,
            Self::Database { source, .. } => is_disk_full(source),
            _ => self.is_queue_away() || self.is_queue_busy(),
        }
    }
}

/// Returns whether the disk is full. If the disk has no space for the shared memory, SQLite reports a failed
/// read or write.
fn is_disk_full(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    error.sqlite_error_code() == Some(ErrorCode::DiskFull) || code == Some(SQLITE_IOERR_SHMSIZE)
}

/// Error of a loader that could not start, because no thread could be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread of a loader")]
pub struct LoaderStartError(#[source] pub std::io::Error);

/// Why a loader ended before all records were loaded. No record is lost: the next run continues at the
/// position.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// The loader did not finish within the timeout.
    #[error("sink {name:?} has not loaded everything after {waited_ms} ms, last error: {}", last_error.as_deref().unwrap_or("none"))]
    Timeout {
        /// Name of the sink.
        name: String,
        /// How long the caller waited, in milliseconds.
        waited_ms: u128,
        /// Last error of the loader, if any.
        last_error: Option<String>,
    },
    /// The sink does not answer.
    #[error("sink {name:?} does not answer, gave up after {waited_ms} ms, last error: {}", last_error.as_deref().unwrap_or("none"))]
    Away {
        /// Name of the sink.
        name: String,
        /// How long the caller waited, in milliseconds.
        waited_ms: u128,
        /// Last error of the loader, if any.
        last_error: Option<String>,
    },
    /// The sink stopped, and continues only after an operator acts.
    #[error("sink {name:?} stopped: {reason}")]
    Stopped {
        /// Name of the sink.
        name: String,
        /// Why the sink stopped.
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

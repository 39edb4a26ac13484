//! A query to a database, its answer, and the bounds of both.

use std::path::PathBuf;
use std::time::Duration;

use crate::sink::PostgresUrl;

/// Maximum number of queries in the queue.
pub(super) const QUEUE_MAX: usize = 1024;

/// Options of a database that is queried: its address and the bounds.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Name of the database, for threads and errors.
    pub name: String,
    /// Address of the database.
    pub source: QuerySource,
    /// Maximum number of connections at a time, each with a thread.
    pub connections: usize,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Maximum number of rows of an answer.
    pub rows_max: usize,
    /// Maximum bytes of an answer.
    pub bytes_max: usize,
}

/// Address of a database.
#[derive(Debug, Clone)]
pub enum QuerySource {
    /// Path of an SQLite file.
    Sqlite(PathBuf),
    /// Address of a PostgreSQL server.
    Postgres(Box<PostgresUrl>),
}

/// A value of a query or an answer.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // The names are the types.
pub enum QueryValue {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// One row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryRow {
    /// The values in the order of the columns.
    Values(Vec<QueryValue>),
    /// A JSON object that the database made.
    Json(String),
}

/// Answer of a database.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryAnswer {
    /// Names of the columns of [`QueryRow::Values`].
    pub columns: Vec<String>,
    /// The rows, in order.
    pub rows: Vec<QueryRow>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The database returned this error. The cause may be the query or the database.
    #[error("{0}")]
    Refused(String),
    /// The answer is too long.
    #[error("the answer exceeds a limit: {rows_max} rows, {bytes_max} bytes")]
    TooLong {
        /// Maximum number of rows.
        rows_max: usize,
        /// Maximum bytes.
        bytes_max: usize,
    },
    /// The answer did not arrive within this timeout.
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// The queue is full.
    #[error("{QUEUE_MAX} queries wait for the database, which is the limit")]
    Busy,
}

/// The receiver of an answer.
pub trait Asker: Send {
    /// Returns whether the receiver no longer waits.
    fn is_gone(&self) -> bool;
    /// Passes the answer to the receiver.
    fn deliver(self: Box<Self>, answer: Result<QueryAnswer, QueryError>);
}

/// A connection of one thread.
pub(super) trait Connection {
    fn ask(&mut self, sql: &str, parameters: &[QueryValue]) -> Result<QueryAnswer, QueryError>;

    /// Returns whether the connection can be used again.
    fn is_usable(&self) -> bool;
}

/// Remaining number of rows and bytes of an answer.
pub(super) struct AnswerBudget {
    rows: usize,
    bytes: usize,
    rows_max: usize,
    bytes_max: usize,
}

impl AnswerBudget {
    pub(super) fn new(options: &QueryOptions) -> Self {
        let QueryOptions { rows_max, bytes_max, .. } = *options;
        Self { rows: 0, bytes: 0, rows_max, bytes_max }
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<(), QueryError> {
        (self.rows, self.bytes) = (self.rows + 1, self.bytes.saturating_add(bytes));
        let Self { rows_max, bytes_max, .. } = *self;
        if self.rows > rows_max || self.bytes > bytes_max {
            return Err(QueryError::TooLong { rows_max, bytes_max });
        }
        Ok(())
    }
}

//! A question to a database, its answer, and the bounds of both.

use std::path::PathBuf;
use std::time::Duration;

use crate::sink::PostgresUrl;

/// Questions that may wait.
pub(super) const QUEUE_MAX: usize = 1024;

/// Which database, and within which bounds.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Its name, for threads and errors.
    pub name: String,
    /// Where it is.
    pub source: QuerySource,
    /// Connections at once, each with a thread.
    pub connections: usize,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Rows of an answer.
    pub rows_max: usize,
    /// Bytes of an answer.
    pub bytes_max: usize,
}

/// Where a database is.
#[derive(Debug, Clone)]
pub enum QuerySource {
    /// A file.
    Sqlite(PathBuf),
    /// A server.
    Postgres(Box<PostgresUrl>),
}

/// A value of a question or an answer.
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
    /// By the columns of the answer.
    Values(Vec<QueryValue>),
    /// An object of JSON, as the database made it.
    Json(String),
}

/// What a database answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryAnswer {
    /// The names of the columns of [`QueryRow::Values`].
    pub columns: Vec<String>,
    /// The rows, in their order.
    pub rows: Vec<QueryRow>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The database says so: of the question, or of itself.
    #[error("{0}")]
    Refused(String),
    /// The answer is too long.
    #[error("the answer exceeds limit: {rows_max} rows, {bytes_max} bytes")]
    TooLong {
        /// Rows that are allowed.
        rows_max: usize,
        /// Bytes that are allowed.
        bytes_max: usize,
    },
    /// It took too long.
    #[error("no answer within {}ms", .0.as_millis())]
    Late(Duration),
    /// Too many wait already.
    #[error("{QUEUE_MAX} questions wait already")]
    Busy,
}

/// Who wants an answer.
pub trait Asker: Send {
    /// Whether nobody waits any more.
    fn is_gone(&self) -> bool;
    /// Takes the answer.
    fn deliver(self: Box<Self>, answer: Result<QueryAnswer, QueryError>);
}

/// A connection of one thread.
pub(super) trait Connection {
    fn ask(&mut self, sql: &str, parameters: &[QueryValue]) -> Result<QueryAnswer, QueryError>;

    /// Whether it can be asked again.
    fn is_usable(&self) -> bool;
}

/// What an answer may still take.
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

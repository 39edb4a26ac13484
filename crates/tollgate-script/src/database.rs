//! Databases that scripts read, as plain data. The server provides the [`Database`] that runs queries.

use std::fmt;

use tokio::sync::oneshot;

/// A parameter of a query, or a value of its result.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // The names are the types.
pub enum SqlValue {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// One row of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlRow {
    /// Values in the order of the columns of the result.
    Values(Vec<SqlValue>),
    /// A JSON object.
    Json(String),
}

/// Result of a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SqlAnswer {
    /// Names of the columns of [`SqlRow::Values`].
    pub columns: Vec<String>,
    /// Rows in their order.
    pub rows: Vec<SqlRow>,
}

/// The result of a query, or the reason for its failure.
pub type SqlResult = Result<SqlAnswer, String>;

/// Channel for the result of a query. If the receiver is gone, no call waits for the result any more.
pub type SqlReply = oneshot::Sender<SqlResult>;

/// A database that scripts can read.
pub trait Database: fmt::Debug + Send + Sync {
    /// Returns the name of the database.
    fn name(&self) -> &str;
    /// Starts a query. A thread of the database sends the result to `reply`.
    fn ask(&self, sql: String, parameters: Vec<SqlValue>, reply: SqlReply);
}

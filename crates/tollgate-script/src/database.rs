//! Databases that scripts read, as values. The server brings the [`Database`] that asks one.

use std::fmt;

use tokio::sync::oneshot;

/// A value of a question or of an answer.
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

/// One row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlRow {
    /// By the columns of the answer.
    Values(Vec<SqlValue>),
    /// An object of JSON.
    Json(String),
}

/// What a database answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SqlAnswer {
    /// The names of the columns of [`SqlRow::Values`].
    pub columns: Vec<String>,
    /// The rows, in their order.
    pub rows: Vec<SqlRow>,
}

/// An answer, or why there is none.
pub type SqlResult = Result<SqlAnswer, String>;

/// Where an answer is wanted; nobody waits any more once its other end is gone.
pub type SqlReply = oneshot::Sender<SqlResult>;

/// A database that can be read.
pub trait Database: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;
    /// Asks a question, and has the reply sent from wherever it is known.
    fn ask(&self, sql: String, parameters: Vec<SqlValue>, reply: SqlReply);
}

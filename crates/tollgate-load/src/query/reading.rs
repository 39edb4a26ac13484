//! One statement that an operator runs on PostgreSQL. The server refuses a statement that writes, because the
//! transaction is read-only. The rows are read one by one, so an answer of any size needs little memory.

use std::ops::ControlFlow;

use futures_util::{TryStreamExt, pin_mut};
use tokio::runtime;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::question::QueryError;
use crate::sink::{PostgresOptions, connect};

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadColumn {
    /// Name of the column.
    pub name: String,
    /// How the text of a value is meant.
    pub kind: ReadKind,
}

/// How the text of a value is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadKind {
    /// An integer, or a number with binary fraction.
    Number,
    /// `t` or `f`.
    Bool,
    /// Any other type, in the form of the server.
    Text,
}

/// Receives the answer of a statement.
pub trait ReadAnswer {
    /// Receives the columns, before the rows.
    ///
    /// # Errors
    /// The output failed. The statement ends.
    fn columns(&mut self, columns: &[ReadColumn]) -> std::io::Result<()>;

    /// Receives a row, with `None` for null. `Break` ends the statement.
    ///
    /// # Errors
    /// The output failed. The statement ends.
    fn row(&mut self, values: &[Option<&str>]) -> std::io::Result<ControlFlow<()>>;
}

/// Why a statement has no complete answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The database refused the statement, or did not answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The statement returns no rows.
    #[error("the statement returns no rows, allowed is a statement that returns rows")]
    NoRows,
    /// The receiver failed.
    #[error(transparent)]
    Output(#[from] std::io::Error),
}

/// Runs one statement on the database of a sink, and passes its rows on. Tables without a schema are first
/// looked up in the schema of the sink's tables.
///
/// # Errors
/// The server does not answer, or refuses the statement: it writes, has parameters, or is more than one.
pub fn read_postgres(
    options: &PostgresOptions,
    sql: &str,
    answer: &mut dyn ReadAnswer,
) -> Result<(), ReadError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connecting = tokio::time::timeout(options.connect_timeout, connect(&options.server)).await;
        let client = connecting
            .map_err(|_| QueryError::Late(options.connect_timeout))?
            .map_err(|error| QueryError::Refused(format!("cannot connect to {}: {error}", options.server)))?;
        read(&client, options, sql, answer).await
    })
}

async fn read(
    client: &Client,
    options: &PostgresOptions,
    sql: &str,
    answer: &mut dyn ReadAnswer,
) -> Result<(), ReadError> {
    let (timeout_ms, schema) = (options.statement_timeout.as_millis(), options.quoted_table_schema());
    let begin = format!(
        "BEGIN READ ONLY; SET LOCAL statement_timeout = {timeout_ms}; SET LOCAL search_path = {schema}, public"
    );
    client.batch_execute(&begin).await?;
    // The server prepares one statement only, so a second one cannot end the transaction.
    let statement = client.prepare(sql).await?;
    if statement.columns().is_empty() {
        return Err(ReadError::NoRows);
    }
    let column = |column: &tokio_postgres::Column| ReadColumn {
        name: column.name().to_owned(),
        kind: kind_of(column.type_()),
    };
    answer.columns(&statement.columns().iter().map(column).collect::<Vec<_>>())?;
    let rows = client.simple_query_raw(sql).await?;
    pin_mut!(rows);
    while let Some(message) = rows.try_next().await? {
        let SimpleQueryMessage::Row(row) = message else { continue };
        let values: Vec<_> = (0..row.len()).map(|index| row.get(index)).collect();
        if answer.row(&values)?.is_break() {
            break;
        }
    }
    Ok(())
}

fn kind_of(kind: &Type) -> ReadKind {
    match *kind {
        Type::INT2 | Type::INT4 | Type::INT8 | Type::FLOAT4 | Type::FLOAT8 => ReadKind::Number,
        Type::BOOL => ReadKind::Bool,
        _ => ReadKind::Text,
    }
}

impl From<tokio_postgres::Error> for ReadError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Query(QueryError::Refused(match error.as_db_error() {
            Some(server) => format!("{} (SQLSTATE {})", server.message(), server.code().code()),
            None => tollgate_log::join_chain(&error),
        }))
    }
}

//! Queries to PostgreSQL. Each query runs in its own read-only transaction. The transaction is rolled back,
//! so that the query leaves no change in the session.
//!
//! The query becomes a subquery, and the server encodes its rows as JSON. So the answer has the same form for
//! all column types.

use std::error::Error;
use std::time::Duration;

use futures_util::{TryStreamExt, pin_mut};
use tokio::runtime::{self, Runtime};
use tokio_postgres::Client;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

use super::question::{
    AnswerBudget, Connection, QueryAnswer, QueryError, QueryOptions, QueryRow, QueryValue,
};
use crate::sink::{PostgresUrl, connect};

/// How much longer than the timeout the client waits for an answer. The server itself ends a query at its
/// timeout.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

pub(super) struct Server {
    runtime: Runtime,
    client: Client,
    options: QueryOptions,
    health: Health,
}

#[derive(PartialEq, Eq)]
enum Health {
    Good,
    /// The server has not answered the last query yet.
    Unknown,
}

impl Server {
    pub(super) fn open(url: &PostgresUrl, options: &QueryOptions) -> Result<Self, QueryError> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| QueryError::Refused(error.to_string()))?;
        let client = runtime.block_on(async {
            match tokio::time::timeout(options.timeout, connect(url)).await {
                Ok(client) => client.map_err(QueryError::Refused),
                Err(_) => Err(QueryError::Late(options.timeout)),
            }
        })?;
        Ok(Self { runtime, client, options: options.clone(), health: Health::Good })
    }
}

impl Connection for Server {
    fn ask(&mut self, sql: &str, parameters: &[QueryValue]) -> Result<QueryAnswer, QueryError> {
        let Self { runtime, client, options, health } = self;
        let bound = options.timeout + ANSWER_GRACE;
        let asked = runtime
            .block_on(async { tokio::time::timeout(bound, ask(client, options, sql, parameters)).await });
        asked.unwrap_or_else(|_| {
            *health = Health::Unknown;
            Err(QueryError::Late(options.timeout))
        })
    }

    fn is_usable(&self) -> bool {
        self.health == Health::Good && !self.client.is_closed()
    }
}

async fn ask(
    client: &Client,
    options: &QueryOptions,
    sql: &str,
    parameters: &[QueryValue],
) -> Result<QueryAnswer, QueryError> {
    let timeout_ms = options.timeout.as_millis();
    let begin = format!("BEGIN READ ONLY; SET LOCAL statement_timeout = {timeout_ms}");
    client.batch_execute(&begin).await.map_err(|error| refused(&error, options))?;
    let answer = rows(client, options, sql, parameters).await;
    client.batch_execute("ROLLBACK").await.map_err(|error| refused(&error, options))?;
    answer
}

async fn rows(
    client: &Client,
    options: &QueryOptions,
    sql: &str,
    parameters: &[QueryValue],
) -> Result<QueryAnswer, QueryError> {
    let failed = |error: tokio_postgres::Error| refused(&error, options);
    let sql = sql.trim_end().trim_end_matches(';');
    let limit = options.rows_max.saturating_add(1);
    let statement =
        format!("SELECT row_to_json(tollgate_row)::text FROM (\n{sql}\n) tollgate_row LIMIT {limit}");
    let statement = client.prepare(&statement).await.map_err(failed)?;
    let (wanted, given) = (statement.params().len(), parameters.len());
    if wanted != given {
        return Err(QueryError::Refused(format!(
            "the query has {wanted} parameters, but {given} were given"
        )));
    }
    let parameters: Vec<_> = parameters.iter().map(Bound).collect();
    let found = client.query_raw(&statement, parameters).await.map_err(failed)?;
    pin_mut!(found);
    let (mut answer, mut room) = (QueryAnswer::default(), AnswerBudget::new(options));
    while let Some(row) = found.try_next().await.map_err(failed)? {
        let json: String = row.try_get(0).map_err(failed)?;
        room.take(json.len())?;
        answer.rows.push(QueryRow::Json(json));
    }
    Ok(answer)
}

/// A parameter that is sent as text. The server determines its type.
#[derive(Debug)]
struct Bound<'a>(&'a QueryValue);

impl ToSql for Bound<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let text = match self.0 {
            QueryValue::Null => return Ok(IsNull::Yes),
            QueryValue::Bool(value) => value.to_string(),
            QueryValue::Int(value) => value.to_string(),
            QueryValue::Float(value) => value.to_string(),
            QueryValue::Text(value) => value.clone(),
            QueryValue::Bytes(value) => {
                value.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
            }
        };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    tokio_postgres::types::to_sql_checked!();
}

fn refused(error: &tokio_postgres::Error, options: &QueryOptions) -> QueryError {
    match error.as_db_error() {
        Some(server) if server.code().code() == "57014" => QueryError::Late(options.timeout),
        Some(server) => {
            QueryError::Refused(format!("{} (SQLSTATE {})", server.message(), server.code().code()))
        }
        None => QueryError::Refused(error.to_string()),
    }
}

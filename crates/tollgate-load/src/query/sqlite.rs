//! Queries to an SQLite file. The file is opened read-only, and opened again if another file is at its path.
//!
//! If another program writes the file, a query waits, but no longer than the timeout of an answer.

use std::path::Path;
use std::time::Instant;

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{ErrorCode, OpenFlags, Statement, ToSql};

use super::question::{
    AnswerBudget, Connection, QueryAnswer, QueryError, QueryOptions, QueryRow, QueryValue,
};
use crate::sqlite_files::SqliteFiles;

/// Number of steps of SQLite's virtual machine between two checks of the clock.
const STEPS: i32 = 10_000;
/// Minimum of SQLite's limit for the bytes of a value. SQLite needs this limit to read its own schema, even
/// if `bytes_max` is lower.
const LENGTH_MIN: i32 = 64 << 10;

pub(super) struct File {
    connection: rusqlite::Connection,
    files: SqliteFiles,
    options: QueryOptions,
}

impl File {
    pub(super) fn open(path: &Path, options: &QueryOptions) -> Result<Self, QueryError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = rusqlite::Connection::open_with_flags(path, flags).map_err(refused)?;
        connection.busy_timeout(options.timeout).map_err(refused)?;
        // No value may be larger than an answer. This limit also bounds the memory of values that SQL
        // functions make.
        let bytes_max = i32::try_from(options.bytes_max).unwrap_or(i32::MAX);
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, bytes_max.max(LENGTH_MIN)).map_err(refused)?;
        // The first read makes SQLite open all of its files.
        connection.pragma_query_value(None, "schema_version", |_| Ok(())).map_err(refused)?;
        let files = SqliteFiles::of(path);
        connection.authorizer(Some(|context: AuthContext<'_>| judge(context.action))).map_err(refused)?;
        Ok(Self { connection, files, options: options.clone() })
    }

    fn rows(&self, sql: &str, parameters: &[QueryValue]) -> Result<QueryAnswer, QueryError> {
        let mut statement =
            self.connection.prepare_cached(sql).map_err(|error| match error.sqlite_error_code() {
                Some(ErrorCode::AuthorizationForStatementDenied) => no_query(),
                _ => refused(error),
            })?;
        if !statement.readonly() || statement.column_count() == 0 {
            return Err(no_query());
        }
        bind(&mut statement, parameters)?;
        let columns: Vec<_> = statement.column_names().map(str::to_owned).collect();
        let mut answer = QueryAnswer { columns, rows: Vec::new() };
        let mut room = AnswerBudget::new(&self.options);
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(refused)? {
            let values =
                (0..answer.columns.len()).map(|index| row.get_ref(index).map(value).map_err(refused));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            room.take(values.iter().map(bytes_of).sum())?;
            answer.rows.push(QueryRow::Values(values));
        }
        Ok(answer)
    }
}

/// Allows a statement only to read. SQLite counts ATTACH and PRAGMA as read-only too. Both are denied here,
/// because they would open another file, or change state that all connections of the process share.
fn judge(action: AuthAction<'_>) -> Authorization {
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } if !function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

fn no_query() -> QueryError {
    QueryError::Refused("the statement is not a query: allowed is a statement that only reads".to_owned())
}

impl Connection for File {
    fn ask(&mut self, sql: &str, parameters: &[QueryValue]) -> Result<QueryAnswer, QueryError> {
        let timeout = self.options.timeout;
        let deadline = Instant::now() + timeout;
        let is_over = move || Instant::now() > deadline;
        self.connection.progress_handler(STEPS, Some(is_over)).map_err(refused)?;
        let answer = self.rows(sql, parameters);
        // The handler has the deadline of this query, so it is removed after the query.
        let _ = self.connection.progress_handler(0, None::<fn() -> bool>);
        match answer {
            Err(QueryError::Refused(_)) if is_over() => Err(QueryError::Late(timeout)),
            answer => answer,
        }
    }

    fn is_usable(&self) -> bool {
        self.files.are_in_place(&self.connection)
    }
}

/// Binds the parameters. `$2` means the second parameter at any place in the statement. The second `?` of a
/// statement also means the second parameter.
fn bind(statement: &mut Statement<'_>, parameters: &[QueryValue]) -> Result<(), QueryError> {
    let mut most = 0;
    for at in 1..=statement.parameter_count() {
        let named = statement.parameter_name(at).and_then(|name| name.get(1..)?.parse().ok());
        let place: usize = named.unwrap_or(at);
        most = most.max(place);
        let Some(parameter) = place.checked_sub(1).and_then(|place| parameters.get(place)) else { continue };
        statement.raw_bind_parameter(at, Bound(parameter)).map_err(refused)?;
    }
    if most == parameters.len() {
        return Ok(());
    }
    let given = parameters.len();
    Err(QueryError::Refused(format!("the query has {most} parameters, but {given} were given")))
}

struct Bound<'a>(&'a QueryValue);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            QueryValue::Null => ToSqlOutput::Owned(Value::Null),
            QueryValue::Bool(value) => ToSqlOutput::Owned(Value::Integer(i64::from(*value))),
            QueryValue::Int(value) => ToSqlOutput::Owned(Value::Integer(*value)),
            QueryValue::Float(value) => ToSqlOutput::Owned(Value::Real(*value)),
            QueryValue::Text(value) => ToSqlOutput::Borrowed(ValueRef::Text(value.as_bytes())),
            QueryValue::Bytes(value) => ToSqlOutput::Borrowed(ValueRef::Blob(value)),
        })
    }
}

fn value(value: ValueRef<'_>) -> QueryValue {
    match value {
        ValueRef::Null => QueryValue::Null,
        ValueRef::Integer(value) => QueryValue::Int(value),
        ValueRef::Real(value) => QueryValue::Float(value),
        ValueRef::Text(value) => match std::str::from_utf8(value) {
            Ok(text) => QueryValue::Text(text.to_owned()),
            Err(_) => QueryValue::Bytes(value.to_vec()),
        },
        ValueRef::Blob(value) => QueryValue::Bytes(value.to_vec()),
    }
}

fn bytes_of(value: &QueryValue) -> usize {
    match value {
        QueryValue::Text(text) => text.len(),
        QueryValue::Bytes(bytes) => bytes.len(),
        _ => size_of::<i64>(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn refused(error: rusqlite::Error) -> QueryError {
    QueryError::Refused(error.to_string())
}

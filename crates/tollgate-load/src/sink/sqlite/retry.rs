//! Retries rejects. A reject that now fits its table becomes a row, in the transaction that deletes the
//! reject. If another record now has the key of the reject, the reject is a duplicate.
//!
//! A column that the item lacks gets the default of the table.

use rusqlite::ffi::SQLITE_ERROR;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use tollgate_log::{ColumnType, Sequence, Value};
use tollgate_value::timestamp_text;

use super::bind::stored_text;
use super::insert::{RowError, or_nothing};
use super::keys::{Claimant, SqliteKeys};
use super::parents::Parents;
use super::table::quoted;
use crate::sink::item::{parse, with_value};
use crate::sink::key::KeptKey;
use crate::sink::reject::{self, Fate, RETRIED_AT_ONCE, ReadItem, Retried, StoredReject};

type Reject = reject::Reject<String>;

/// Why a retry ended before the last reject.
#[derive(Debug)]
pub(super) enum RetryError {
    Database(rusqlite::Error),
    /// A trigger of this table rolled the transaction back, and with it the earlier rejects of the
    /// transaction.
    RolledBack(String),
}

impl From<rusqlite::Error> for RetryError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Tries each reject of a sink once, [`RETRIED_AT_ONCE`] in one transaction.
pub(super) fn retry(
    connection: &Connection,
    sink: &str,
    keys: &mut SqliteKeys,
    read: &ReadItem<'_>,
) -> Result<Retried, RetryError> {
    let mut retried = Retried::default();
    let mut after = (String::new(), 0);
    loop {
        let transaction =
            rusqlite::Transaction::new_unchecked(connection, rusqlite::TransactionBehavior::Immediate)?;
        let rejects = next_rejects(&transaction, sink, &after)?;
        let Some(last) = rejects.last() else { return Ok(retried) };
        after = (last.log.clone(), last.sequence);
        for reject in rejects {
            let reject = &reject.read(read);
            retried.count(try_again(&transaction, sink, keys, reject)?);
        }
        keys.store(&transaction)?;
        transaction.commit()?;
    }
}

fn try_again(
    connection: &Connection,
    sink: &str,
    keys: &mut SqliteKeys,
    reject: &Reject,
) -> Result<Fate, RetryError> {
    let sequence = Sequence(reject.sequence.cast_unsigned());
    let of = Claimant { log_text: &reject.log, sequence, stream: &reject.stream };
    let key = reject.key.as_ref().map(KeptKey::key);
    if let Some(key) = key
        && !keys.claim(connection, key, of)?
    {
        settle(connection, sink, reject, "duplicates")?;
        return Ok(Fate::Duplicate);
    }
    match insert(connection, reject) {
        Ok(()) => {
            settle(connection, sink, reject, "loaded")?;
            Ok(Fate::Loaded)
        }
        Err(RowError::Refused(_)) if connection.is_autocommit() => {
            Err(RetryError::RolledBack(reject.stream.clone()))
        }
        Err(RowError::Refused(reason)) => {
            key.map_or(Ok(()), |key| SqliteKeys::give_back(connection, key, of))?;
            keep(connection, sink, reject, &reason)?;
            Ok(Fate::Kept)
        }
        Err(RowError::Database(error)) => Err(error.into()),
    }
}

fn next_rejects(
    connection: &Connection,
    sink: &str,
    (log, sequence): &(String, i64),
) -> Result<Vec<StoredReject<String>>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "SELECT log, sequence, stream, reason, item, key, key_window_ms, refused_by FROM tollgate_rejects \
         WHERE sink = ?1 AND (log, sequence) > (?2, ?3) ORDER BY log, sequence LIMIT ?4",
    )?;
    let rows = statement.query_map(params![sink, log, sequence, RETRIED_AT_ONCE], |row| {
        Ok(StoredReject {
            log: row.get(0)?,
            sequence: row.get(1)?,
            stream: row.get(2)?,
            reason: row.get(3)?,
            item: row.get(4)?,
            key: KeptKey::read(row.get(5)?, row.get(6)?),
            refused_by: row.get(7)?,
        })
    })?;
    rows.collect()
}

/// Deletes the reject, and adds one to the counter with the given name.
fn settle(
    connection: &Connection,
    sink: &str,
    reject: &Reject,
    counter: &str,
) -> Result<(), rusqlite::Error> {
    let Reject { log, sequence, stream, .. } = reject;
    connection
        .prepare_cached("DELETE FROM tollgate_rejects WHERE sink = ?1 AND log = ?2 AND sequence = ?3")?
        .execute(params![sink, log, sequence])?;
    connection
        .prepare_cached(&format!(
            "UPDATE tollgate_counts SET {counter} = {counter} + 1, rejected = rejected - 1 \
             WHERE sink = ?1 AND log = ?2 AND stream = ?3"
        ))?
        .execute(params![sink, log, stream])?;
    Ok(())
}

fn keep(connection: &Connection, sink: &str, reject: &Reject, reason: &str) -> Result<(), rusqlite::Error> {
    if reject.reason != reason {
        connection
            .prepare_cached(
                "UPDATE tollgate_rejects SET reason = ?4 WHERE sink = ?1 AND log = ?2 AND sequence = ?3",
            )?
            .execute(params![sink, reject.log, reject.sequence, reason])?;
    }
    Ok(())
}

fn insert(connection: &Connection, reject: &Reject) -> Result<(), RowError> {
    let item = reject.item.as_deref().map_err(|reason| RowError::Refused(reason.clone()))?;
    let item = parse(item).map_err(RowError::Refused)?;
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, value) in &item {
        let (name, kind) = column(connection, &reject.stream, name)?
            .ok_or_else(|| RowError::Refused(format!("record has unknown fields: {name:?}")))?;
        let unfit = || format!("column {name:?} takes {}, found {value}", kind.name());
        let value = with_value((&name, kind), value, sql_value).map_err(RowError::Refused)?;
        let value = value.ok_or_else(|| RowError::Refused(unfit()))?;
        names.push(quoted(&name));
        values.push(value);
    }
    let table = quoted(&reject.stream);
    let statement = match names.len() {
        0 => format!("INSERT OR ABORT INTO {table} DEFAULT VALUES"),
        count => {
            let places = vec!["?"; count].join(", ");
            format!("INSERT OR ABORT INTO {table} ({}) VALUES ({places})", names.join(", "))
        }
    };
    let mut prepared = connection.prepare_cached(&statement).map_err(of_table)?;
    or_nothing(connection, Parents::AtRow, || {
        let inserted = prepared.execute(params_from_iter(values));
        inserted.map(drop).map_err(|error| RowError::of(error, connection, &statement))
    })
}

/// Classifies an error of a statement. A changed table is no error of the database, so that rejects of other
/// tables are still tried.
fn of_table(error: rusqlite::Error) -> RowError {
    match error.sqlite_error().map(|found| found.extended_code) {
        Some(SQLITE_ERROR) => RowError::Refused(error.to_string()),
        _ => RowError::Database(error),
    }
}

/// Returns the column with that name. The comparison ignores case.
fn column(
    connection: &Connection,
    stream: &str,
    name: &str,
) -> Result<Option<(String, ColumnType)>, RowError> {
    let found: Option<(String, String)> = connection
        .prepare_cached("SELECT name, type FROM tollgate_columns WHERE stream = ?1 AND name = ?2")
        .and_then(|mut columns| {
            columns.query_row([stream, name], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .map_err(RowError::Database)?;
    Ok(found.and_then(|(name, kind)| Some((name, ColumnType::from_name(&kind)?))))
}

/// Returns a value as the table stores it. Returns `None` if SQLite has no form for it.
fn sql_value(value: &Value<'_>) -> Option<Sql> {
    Some(match value {
        Value::Null => Sql::Null,
        Value::Bool(value) => Sql::Integer((*value).into()),
        Value::Int(value) => Sql::Integer(*value),
        Value::Float(value) => Sql::Real(*value),
        Value::Text(value) | Value::Json(value) => Sql::Text((*value).to_owned()),
        Value::Bytes(value) => Sql::Blob(value.to_vec()),
        Value::Timestamp(us) => Sql::Text(String::from_utf8_lossy(&timestamp_text(*us)?).into_owned()),
        Value::Uuid(value) => Sql::Text(uuid::Uuid::from_bytes(*value).hyphenated().to_string()),
        Value::Inet(value) => Sql::Text(value.to_string()),
        value @ (Value::Decimal(_) | Value::Date(_) | Value::Time(_) | Value::Array(_)) => {
            Sql::Text(stored_text(value)?)
        }
    })
}

//! The origins of a log: the last record of each other log whose records it has.

use std::collections::BTreeMap;

use tollgate_log::{LogId, Sequence};
use uuid::Uuid;

use super::error::Failure;
use super::names::{table, uuid_of};
use super::options::PostgresOptions;
use super::session::Session;

/// Reads the origins of a log.
pub(super) fn read(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    log: LogId,
) -> Result<BTreeMap<LogId, Sequence>, Failure> {
    let origins = table(options, "origins");
    let question = format!("SELECT origin, last FROM {origins} WHERE sink = $1 AND log = $2");
    let rows = session.query(&question, &[&sink, &uuid_of(log)])?;
    let origin = |row: &tokio_postgres::Row| {
        let (origin, last): (Uuid, i64) = (row.get(0), row.get(1));
        (LogId::from_bytes(origin.into_bytes()), Sequence(last.cast_unsigned()))
    };
    Ok(rows.iter().map(origin).collect())
}

/// Notes the last record of an origin.
pub(super) fn write(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    log: LogId,
    (origin, last): (LogId, Sequence),
) -> Result<(), Failure> {
    let upsert = format!(
        "INSERT INTO {} (sink, log, origin, last) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (sink, log, origin) DO UPDATE SET last = excluded.last",
        table(options, "origins")
    );
    session.execute(&upsert, &[&sink, &uuid_of(log), &uuid_of(origin), &last.0.cast_signed()]).map(drop)
}

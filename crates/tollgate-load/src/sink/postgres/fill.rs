//! Fills gaps. One transaction loads the records that were found, and shrinks or deletes the gap.

use std::collections::BTreeMap;

use tollgate_log::{Gap, LogId, Sequence};

use super::error::Failure;
use super::names::{table, uuid_of};
use super::options::PostgresOptions;
use super::session::Session;

/// Returns the gaps of a log, in order.
pub(super) fn gaps(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    log: LogId,
) -> Result<Vec<Gap>, Failure> {
    let gaps = table(options, "gaps");
    let question =
        format!("SELECT first, last, reason FROM {gaps} WHERE sink = $1 AND log = $2 ORDER BY first");
    let rows = session.query(&question, &[&sink, &uuid_of(log)])?;
    let gap = |row: &tokio_postgres::Row| {
        let [first, last] = [0, 1].map(|column| Sequence(row.get::<_, i64>(column).cast_unsigned()));
        Gap { first, last, reason: row.get(2) }
    };
    Ok(rows.iter().map(gap).collect())
}

/// Returns the number of records in all gaps of a sink, by reason. A sum that does not fit becomes the
/// largest integer.
pub(super) fn records(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
) -> Result<BTreeMap<String, u64>, Failure> {
    let gaps = table(options, "gaps");
    let question = format!(
        "SELECT reason, least(sum(greatest(last::numeric - first + 1, 0)), {})::bigint FROM {gaps} \
         WHERE sink = $1 GROUP BY reason",
        i64::MAX
    );
    let rows = session.query(&question, &[&sink])?;
    Ok(rows.iter().map(|row| (row.get(0), row.get::<_, i64>(1).cast_unsigned())).collect())
}

/// Gives a gap another reason. Returns false if the gap no longer exists.
pub(super) fn rename(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    log: LogId,
    (gap, reason): (&Gap, &str),
) -> Result<bool, Failure> {
    let update = format!(
        "UPDATE {} SET reason = $5 WHERE sink = $1 AND log = $2 AND first = $3 AND last = $4",
        table(options, "gaps")
    );
    let (first, last) = (gap.first.0.cast_signed(), gap.last.0.cast_signed());
    Ok(session.execute(&update, &[&sink, &uuid_of(log), &first, &last, &reason])? == 1)
}

/// Locks a gap until the end of the transaction. Returns false if the gap no longer exists.
pub(super) fn lock(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    log: LogId,
    gap: &Gap,
) -> Result<bool, Failure> {
    let gaps = table(options, "gaps");
    let question =
        format!("SELECT 1 FROM {gaps} WHERE sink = $1 AND log = $2 AND first = $3 AND last = $4 FOR UPDATE");
    let (first, last) = (gap.first.0.cast_signed(), gap.last.0.cast_signed());
    Ok(session.query(&question, &[&sink, &uuid_of(log), &first, &last])?.len() == 1)
}

/// Replaces a gap by its remaining gaps. Returns the setting `synchronous_commit` of the session, or `None`
/// if the gap no longer exists.
pub(super) fn replace(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    log: LogId,
    (gap, left): (&Gap, &[Gap]),
) -> Result<Option<String>, Failure> {
    let (gaps, log) = (table(options, "gaps"), uuid_of(log));
    let delete = format!(
        "DELETE FROM {gaps} WHERE sink = $1 AND log = $2 AND first = $3 AND last = $4 \
         RETURNING since::text, current_setting('synchronous_commit')"
    );
    let (first, last) = (gap.first.0.cast_signed(), gap.last.0.cast_signed());
    let rows = session.query(&delete, &[&sink, &log, &first, &last])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let insert = format!(
        "INSERT INTO {gaps} (sink, log, first, last, reason, since) \
         VALUES ($1, $2, $3, $4, $5, $6::text::timestamptz)"
    );
    for Gap { first, last, reason } in left {
        let (first, last) = (first.0.cast_signed(), last.0.cast_signed());
        let since: String = row.get(0);
        session.execute(&insert, &[&sink, &log, &first, &last, reason, &since])?;
    }
    Ok(Some(row.get(1)))
}

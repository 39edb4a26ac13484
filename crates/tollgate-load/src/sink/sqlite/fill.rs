//! Fills gaps. One transaction loads the records that were found, and shrinks or deletes the gap.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_log::{Gap, LogId, Sequence};

/// Returns the gaps of a log, in order.
pub(super) fn gaps(connection: &Connection, sink: &str, log: LogId) -> Result<Vec<Gap>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "SELECT first, last, reason FROM tollgate_gaps WHERE sink = ?1 AND log = ?2 ORDER BY first",
    )?;
    let gap = |row: &Row<'_>| {
        let (first, last): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (first, last) = (Sequence(first.cast_unsigned()), Sequence(last.cast_unsigned()));
        Ok(Gap { first, last, reason: row.get(2)? })
    };
    statement.query_map(params![sink, log.to_string()], gap)?.collect()
}

/// Returns the number of records in all gaps of a sink, by reason. A sum that does not fit becomes the
/// largest integer.
pub(super) fn records(connection: &Connection, sink: &str) -> Result<BTreeMap<String, u64>, rusqlite::Error> {
    let question = "SELECT reason, CAST(total(max(last - first + 1, 0)) AS INTEGER) FROM tollgate_gaps \
         WHERE sink = ?1 GROUP BY reason";
    let mut statement = connection.prepare_cached(question)?;
    let count = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()));
    statement.query_map([sink], count)?.collect()
}

/// Gives a gap another reason. Returns false if the gap no longer exists.
pub(super) fn rename(
    connection: &Connection,
    sink: &str,
    log: LogId,
    gap: &Gap,
    reason: &str,
) -> Result<bool, rusqlite::Error> {
    let (first, last) = (gap.first.0.cast_signed(), gap.last.0.cast_signed());
    let renamed = connection.execute(
        "UPDATE tollgate_gaps SET reason = ?5 WHERE sink = ?1 AND log = ?2 AND first = ?3 AND last = ?4",
        params![sink, log.to_string(), first, last, reason],
    )?;
    Ok(renamed == 1)
}

/// Replaces a gap by its remaining gaps. Returns false if the gap no longer exists.
pub(super) fn replace(
    connection: &Connection,
    sink: &str,
    log: &str,
    gap: &Gap,
    left: &[Gap],
) -> Result<bool, rusqlite::Error> {
    let (first, last) = (gap.first.0.cast_signed(), gap.last.0.cast_signed());
    let since: Option<String> = connection
        .query_row(
            "DELETE FROM tollgate_gaps WHERE sink = ?1 AND log = ?2 AND first = ?3 AND last = ?4 \
             RETURNING since",
            params![sink, log, first, last],
            |row| row.get(0),
        )
        .optional()?;
    let Some(since) = since else { return Ok(false) };
    for Gap { first, last, reason } in left {
        connection.execute(
            "INSERT INTO tollgate_gaps (sink, log, first, last, reason, since) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![sink, log, first.0.cast_signed(), last.0.cast_signed(), reason, since],
        )?;
    }
    Ok(true)
}

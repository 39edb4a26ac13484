//! Reads the rejects of a log.

use rusqlite::{Connection, params};
use tollgate_log::{LogId, Sequence};

/// Returns the rejects of a log between two records, both included, each with its reason.
pub(super) fn between(
    connection: &Connection,
    sink: &str,
    log: LogId,
    (first, last): (Sequence, Sequence),
) -> Result<Vec<(Sequence, String)>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, reason FROM tollgate_rejects \
         WHERE sink = ?1 AND log = ?2 AND sequence BETWEEN ?3 AND ?4 ORDER BY sequence",
    )?;
    let (first, last) = (first.0.cast_signed(), last.0.cast_signed());
    let rows = statement.query_map(params![sink, log.to_string(), first, last], |row| {
        Ok((Sequence(row.get::<_, i64>(0)?.cast_unsigned()), row.get(1)?))
    })?;
    rows.collect()
}

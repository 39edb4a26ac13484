//! The origins of a log: the last record of each other log whose records it has.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use tollgate_log::{LogId, Sequence};

/// Reads the origins of a log.
pub(super) fn read(
    connection: &Connection,
    sink: &str,
    log: LogId,
) -> Result<BTreeMap<LogId, Sequence>, rusqlite::Error> {
    let mut origins = BTreeMap::new();
    let mut statement = connection
        .prepare_cached("SELECT origin, last FROM tollgate_origins WHERE sink = ?1 AND log = ?2")?;
    let mut rows = statement.query(params![sink, log.to_string()])?;
    while let Some(row) = rows.next()? {
        let (text, last): (String, i64) = (row.get(0)?, row.get(1)?);
        if let Ok(origin) = text.parse() {
            origins.insert(origin, Sequence(last.cast_unsigned()));
        }
    }
    Ok(origins)
}

/// Notes the last record of an origin.
pub(super) fn write(
    connection: &Connection,
    sink: &str,
    log_text: &str,
    (origin, last): (LogId, Sequence),
) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO tollgate_origins (sink, log, origin, last) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (sink, log, origin) DO UPDATE SET last = excluded.last",
    )?;
    statement.execute(params![sink, log_text, origin.to_string(), last.0.cast_signed()]).map(drop)
}

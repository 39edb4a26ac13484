//! Reads positions for checks, without a lock and without a change.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension};
use tollgate_log::{LogId, Position, Sequence};

use super::bookkeeping::open_to_read;
use super::connection::failed;
use crate::error::SinkError;

/// Reads the positions of a sink in all logs. Returns `None` if the database is missing, or has no
/// bookkeeping.
pub(crate) fn read_positions(
    path: &Path,
    sink: &str,
) -> Result<Option<BTreeMap<LogId, Position>>, SinkError> {
    let Some(connection) = open_to_read(path)? else { return Ok(None) };
    read(&connection, sink).map_err(failed("read the positions", path))
}

fn read(connection: &Connection, sink: &str) -> Result<Option<BTreeMap<LogId, Position>>, rusqlite::Error> {
    let bookkeeping = "SELECT 1 FROM sqlite_schema WHERE name = 'tollgate_positions'";
    if connection.query_row(bookkeeping, [], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    let mut positions = BTreeMap::new();
    let mut statement =
        connection.prepare("SELECT log, last, chain FROM tollgate_positions WHERE sink = ?1")?;
    let mut rows = statement.query([sink])?;
    while let Some(row) = rows.next()? {
        let (text, last, chain): (String, i64, Option<u32>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if let Ok(log) = text.parse() {
            positions.insert(log, Position { last: Sequence(last.cast_unsigned()), chain });
        }
    }
    Ok(Some(positions))
}

/// Returns a sink with a position of a log.
pub(super) fn sink_of(connection: &Connection, log: LogId) -> Result<Option<String>, rusqlite::Error> {
    let question = "SELECT sink FROM tollgate_positions WHERE log = ?1 ORDER BY sink LIMIT 1";
    connection.prepare_cached(question)?.query_row([log.to_string()], |row| row.get(0)).optional()
}

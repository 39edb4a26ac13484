//! Counters. An audit reads them without a lock and without a change. The transaction of a load reads and
//! updates the counts of refused rows.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_log::{Position, Sequence};

use super::bookkeeping::open_to_read;
use super::connection::failed;
use super::fill::gaps;
use crate::error::SinkError;
use crate::sink::accounts::{LogCounts, StreamCounts};
use crate::sink::refusals::Refusals;

/// Reads the bookkeeping of a sink about all logs, in one snapshot. Returns no logs if the database is
/// missing or has no bookkeeping.
pub(crate) fn read_counts(path: &Path, sink: &str) -> Result<Vec<LogCounts>, SinkError> {
    let Some(connection) = open_to_read(path)? else { return Ok(Vec::new()) };
    read(&connection, sink).map_err(failed("read the counters", path))
}

fn read(connection: &Connection, sink: &str) -> Result<Vec<LogCounts>, rusqlite::Error> {
    let snapshot = connection.unchecked_transaction()?;
    let bookkeeping = "SELECT 1 FROM sqlite_schema WHERE name = 'tollgate_counts'";
    if snapshot.query_row(bookkeeping, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Vec::new());
    }
    let mut logs = BTreeMap::new();
    // A reader adds no column to a database of an earlier version.
    let node = if snapshot.column_exists(None, "tollgate_positions", "node")? { "node" } else { "NULL" };
    let mut positions = snapshot.prepare(&format!(
        "SELECT log, start, last, chain, {node} FROM tollgate_positions WHERE sink = ?1"
    ))?;
    let mut rows = positions.query([sink])?;
    while let Some(row) = rows.next()? {
        let (text, start, last): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let Ok(log) = text.parse() else { continue };
        let (start, last) = (Sequence(start.cast_unsigned()), Sequence(last.cast_unsigned()));
        let position = Position { last, chain: row.get(3)? };
        let (node, streams) = (row.get(4)?, BTreeMap::new());
        let gaps = gaps(&snapshot, sink, log)?;
        logs.insert(text, LogCounts { log, start, position, node, streams, gaps });
    }
    let columns = "log, stream, loaded, rejected, duplicates, skipped";
    let mut counts = snapshot.prepare(&format!("SELECT {columns} FROM tollgate_counts WHERE sink = ?1"))?;
    let mut rows = counts.query([sink])?;
    while let Some(row) = rows.next()? {
        let number = |column| row.get(column).map(i64::cast_unsigned);
        if let Some(log) = logs.get_mut(&row.get::<_, String>(0)?) {
            let count = StreamCounts {
                loaded: number(2)?,
                rejected: number(3)?,
                duplicates: number(4)?,
                skipped: number(5)?,
            };
            log.streams.insert(row.get(1)?, count);
        }
    }
    Ok(logs.into_values().collect())
}

/// Returns the number of rows of a segment that the database refused in earlier loads.
pub(super) fn read_refusals(
    connection: &Connection,
    sink: &str,
    log: &str,
    segment: Sequence,
) -> Result<u64, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT refused FROM tollgate_refusals WHERE sink = ?1 AND log = ?2 AND segment = ?3",
        )?
        .query_row(params![sink, log, segment.0.cast_signed()], |row| row.get(0))
        .optional()
        .map(|refused: Option<i64>| refused.unwrap_or_default().cast_unsigned())
}

/// Adds the counts of the refused rows of a load.
pub(super) fn add_refusals(
    connection: &Connection,
    sink: &str,
    log: &str,
    refusals: &Refusals,
) -> Result<(), rusqlite::Error> {
    for (segment, refused) in refusals.new_ones() {
        connection
            .prepare_cached(
                "INSERT INTO tollgate_refusals (sink, log, segment, refused) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (sink, log, segment) DO UPDATE SET refused = refused + excluded.refused",
            )?
            .execute(params![sink, log, segment.0.cast_signed(), refused.cast_signed()])?;
    }
    Ok(())
}

//! Tables that are missing, although rows were loaded into them.

use std::collections::BTreeMap;

use rusqlite::Connection;
use tollgate_log::Schema;

use super::table::{existing_columns, quoted};
use crate::sink::declared::DeclaredStreams;
use crate::sink::tally::LostTable;

/// Returns the table of a stream as lost, if this sink loaded rows into it. Call this if there is no table.
pub(super) fn lost_table(
    connection: &Connection,
    sink: &str,
    stream: &str,
) -> Result<Option<LostTable>, rusqlite::Error> {
    let question =
        "SELECT CAST(total(loaded) AS INTEGER) FROM tollgate_counts WHERE sink = ?1 AND stream = ?2";
    let rows: i64 = connection.prepare_cached(question)?.query_row([sink, stream], |row| row.get(0))?;
    Ok((rows > 0).then(|| LostTable { table: quoted(stream), rows: rows.cast_unsigned() }))
}

/// Returns the lost tables of the configured streams.
pub(super) fn lost_tables(
    connection: &Connection,
    sink: &str,
    declared: &DeclaredStreams,
) -> Result<BTreeMap<String, LostTable>, rusqlite::Error> {
    let mut lost = BTreeMap::new();
    for stream in declared.iter().map(Schema::stream) {
        if existing_columns(connection, stream)?.is_empty()
            && let Some(table) = lost_table(connection, sink, stream)?
        {
            lost.insert(stream.to_owned(), table);
        }
    }
    Ok(lost)
}

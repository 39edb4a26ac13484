//! Tables that are missing, although rows were loaded into them.

use std::collections::BTreeMap;

use super::error::Failure;
use super::names::table as bookkeeping;
use super::options::PostgresOptions;
use super::session::Session;
use crate::sink::declared::DeclaredStreams;
use crate::sink::tally::LostTable;

/// Returns the table of a stream as lost, if this sink loaded rows into it. Call this if there is no table.
pub(super) fn lost_table(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    stream: &str,
) -> Result<Option<LostTable>, Failure> {
    let counts = bookkeeping(options, "counts");
    let question = format!(
        "SELECT least(coalesce(sum(loaded), 0), {})::bigint FROM {counts} WHERE sink = $1 AND stream = $2",
        i64::MAX
    );
    let rows = session.query(&question, &[&sink, &stream])?;
    let rows = rows.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned());
    Ok((rows > 0).then(|| LostTable { table: options.table_of(stream).quoted(), rows }))
}

/// Returns the lost tables of the configured streams. If no table is missing, this is one query.
pub(super) fn lost_tables(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    declared: &DeclaredStreams,
) -> Result<BTreeMap<String, LostTable>, Failure> {
    let streams: Vec<_> = declared.iter().map(|schema| schema.stream().to_owned()).collect();
    let tables: Vec<_> = streams.iter().map(|stream| options.table_of(stream).quoted()).collect();
    let question = "SELECT stream FROM unnest($1::text[], $2::text[]) AS t(stream, name) \
                    WHERE to_regclass(name) IS NULL";
    let missing = session.query(question, &[&streams, &tables])?;
    let mut lost = BTreeMap::new();
    for stream in missing.iter().map(|row| row.get::<_, String>(0)) {
        if let Some(table) = lost_table(session, options, sink, &stream)? {
            lost.insert(stream, table);
        }
    }
    Ok(lost)
}

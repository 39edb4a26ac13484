//! Reads the bookkeeping of a Parquet sink, without a change.

use std::collections::BTreeMap;

use tollgate_lake::{Ledger, LedgerLog};
use tollgate_log::{LogId, Position, Schema};

use super::options::ParquetOptions;
use super::place::open_ledger;
use crate::error::SinkError;
use crate::sink::accounts::{LogCounts, StreamCounts};

/// Names that a column of a stream cannot have: files have columns of these names, or the partition has.
const RESERVED: [&str; 4] = ["_key", "_log", "_seq", "day"];

/// Reads the position of each log. `None`: the sink has not begun.
pub(in crate::sink) fn read_positions(
    options: &ParquetOptions,
    sink: &str,
) -> Result<Option<BTreeMap<LogId, Position>>, SinkError> {
    let failed = || SinkError::lake("read the positions");
    let mut ledger = open_ledger(options, sink)?;
    let mut positions = BTreeMap::new();
    for log in ledger.logs().map_err(failed())? {
        let position = ledger.position(log).map_err(failed())?;
        positions.extend(position.map(|position| (log, position)));
    }
    Ok((!positions.is_empty()).then_some(positions))
}

/// Reads the positions and counts of all logs.
pub(in crate::sink) fn read_counts(
    options: &ParquetOptions,
    sink: &str,
) -> Result<Vec<LogCounts>, SinkError> {
    let failed = || SinkError::lake("read the counts");
    let mut ledger = open_ledger(options, sink)?;
    let mut counts = Vec::new();
    for log in ledger.logs().map_err(failed())? {
        let found = ledger.log(log).map_err(failed())?;
        counts.extend(found.map(|found| counts_of(log, found)));
    }
    Ok(counts)
}

fn counts_of(log: LogId, found: LedgerLog) -> LogCounts {
    let streams = found.counts.into_iter().map(|(stream, counts)| {
        let counts = StreamCounts {
            loaded: counts.loaded,
            rejected: counts.rejected,
            duplicates: 0,
            skipped: counts.skipped,
        };
        (stream, counts)
    });
    LogCounts {
        log,
        start: found.start,
        position: found.position,
        node: found.node,
        streams: streams.collect(),
        gaps: found.gaps,
    }
}

/// Checks whether files can have the columns of these streams.
pub(in crate::sink) fn check<'s>(
    options: &ParquetOptions,
    sink: &str,
    schemas: impl Iterator<Item = &'s Schema>,
) -> Result<(), SinkError> {
    let ledger = open_ledger(options, sink)?;
    schemas.into_iter().try_for_each(|schema| {
        check_names(schema)?;
        check_types(&ledger, options, sink, schema)
    })
}

/// Checks the names of the columns of a stream.
pub(super) fn check_names(schema: &Schema) -> Result<(), SinkError> {
    let is_reserved = |name: &str| RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name));
    match schema.table_columns().find(|column| is_reserved(&column.name)) {
        Some(column) => Err(SinkError::ColumnUnfit {
            table: schema.stream().to_owned(),
            column: column.name.clone(),
            reason: "has a name that files of Parquet use for the key, the log, the number or the day of the \
                     record: rename the column",
        }),
        None => Ok(()),
    }
}

/// Checks the types of the columns that earlier files have.
pub(super) fn check_types(
    ledger: &Ledger,
    options: &ParquetOptions,
    sink: &str,
    schema: &Schema,
) -> Result<(), SinkError> {
    let failed = || SinkError::lake("read the types of columns");
    for column in schema.table_columns() {
        let found = ledger.known_type(schema.stream(), &column.name).map_err(failed())?;
        if let Some(found) = found.filter(|found| *found != column.kind.name()) {
            return Err(type_changed(
                options,
                sink,
                schema.stream(),
                &column.name,
                found,
                column.kind.name(),
            ));
        }
    }
    Ok(())
}

pub(super) fn type_changed(
    options: &ParquetOptions,
    sink: &str,
    stream: &str,
    column: &str,
    found: String,
    wanted: std::borrow::Cow<'static, str>,
) -> SinkError {
    let place = options.place.to_string();
    SinkError::TypeChanged {
        table: stream.to_owned(),
        column: column.to_owned(),
        found,
        wanted,
        rename: format!(
            "mv {place}/{stream} {place}/{stream}_old; rm -r {place}/_tollgate/{sink}/columns/{stream}"
        ),
    }
}

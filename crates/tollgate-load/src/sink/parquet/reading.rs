//! Reads the bookkeeping of a Parquet sink, without a change.

use std::collections::BTreeMap;

use tollgate_lake::{Ledger, LedgerLog, NotedType, OWN_FOLDER, RESERVED_IN_FILES, RESERVED_IN_TABLES};
use tollgate_log::{Column, LogId, Position, Schema};

use super::options::{LakePlace, ParquetOptions};
use super::place::open_ledger;
use crate::error::SinkError;
use crate::sink::accounts::{LogCounts, StreamCounts};

const FILES_HAVE_COLUMN: &str = "has a name that files of Parquet use for the key, the log, the number or \
                                 the day of the record: rename the column";
const TABLES_HAVE_COLUMN: &str = "has a name that tables of Iceberg use for the key, the log, the number, \
                                  the time or the partition of the record: rename the column";

/// What a sink of files makes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sink) enum MadeOf {
    /// A folder of files.
    Files,
    /// A table of Iceberg.
    Table,
}

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
    (made, free_column): (MadeOf, &FreeColumn<'_>),
) -> Result<(), SinkError> {
    let ledger = open_ledger(options, sink)?;
    schemas.into_iter().try_for_each(|schema| {
        check_names(schema, made)?;
        check_types(&ledger, free_column, schema).map(drop)
    })
}

/// Returns how to free the name of a column of a stream. The arguments are the stream, the column, and the
/// name of the note of its type.
pub(in crate::sink) type FreeColumn<'a> = dyn Fn(&str, &str, &str) -> String + 'a;

/// Returns how to free the names of the columns of a stream in files.
pub(in crate::sink) fn free_column(options: &ParquetOptions, sink: &str, stream: &str) -> String {
    let place = &options.place;
    let columns = format!("{place}/_tollgate/{sink}/columns/{stream}");
    match place {
        LakePlace::Folder(_) => format!("run `mv {place}/{stream} {place}/{stream}_old; rm -r {columns}`"),
        LakePlace::Objects(_) => format!(
            "move the objects below `{place}/{stream}/` to `{place}/{stream}_old/`, remove those below \
             `{columns}/`,"
        ),
    }
}

/// Checks the names of a stream and of its columns. Engines ignore the case of a name, so the check does too.
pub(in crate::sink) fn check_names(schema: &Schema, made: MadeOf) -> Result<(), SinkError> {
    if schema.stream().eq_ignore_ascii_case(OWN_FOLDER) {
        let reason =
            format!("the folder {OWN_FOLDER} has the plans and commits of the sink, rename the stream");
        return Err(SinkError::StreamName { stream: schema.stream().to_owned(), reason });
    }
    let (more, reason) = match made {
        MadeOf::Files => (&[][..], FILES_HAVE_COLUMN),
        MadeOf::Table => (&RESERVED_IN_TABLES[..], TABLES_HAVE_COLUMN),
    };
    let is_reserved =
        |name: &str| RESERVED_IN_FILES.iter().chain(more).any(|reserved| reserved.eq_ignore_ascii_case(name));
    match schema.table_columns().find(|column| is_reserved(&column.name)) {
        Some(column) => Err(SinkError::ColumnUnfit {
            table: schema.stream().to_owned(),
            column: column.name.clone(),
            reason,
        }),
        None => Ok(()),
    }
}

/// Checks the types of the columns that earlier files have. Returns the columns that they lack.
pub(super) fn check_types<'s>(
    ledger: &Ledger,
    free_column: &FreeColumn<'_>,
    schema: &'s Schema,
) -> Result<Vec<&'s Column>, SinkError> {
    let failed = || SinkError::lake("read the types of columns");
    let mut missing = Vec::new();
    for column in schema.table_columns() {
        match ledger.known_type(schema.stream(), &column.name).map_err(failed())? {
            None => missing.push(column),
            Some(found) if found.kind == column.kind.name() => {}
            Some(found) => return Err(type_changed(free_column, schema.stream(), column, found)),
        }
    }
    Ok(missing)
}

/// Returns the error of a column that has another type in earlier files.
pub(super) fn type_changed(
    free_column: &FreeColumn<'_>,
    stream: &str,
    column: &Column,
    found: NotedType,
) -> SinkError {
    SinkError::TypeChanged {
        table: stream.to_owned(),
        column: column.name.clone(),
        found: found.kind,
        wanted: column.kind.name(),
        rename: free_column(stream, &column.name, &found.note),
    }
}

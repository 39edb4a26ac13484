//! The bookkeeping tables. The tables have a column for the name of the sink, because several sinks may share
//! a database. Sequence numbers are positive 64-bit integers.
//!
//! The table `columns` stores the Tollgate type of each column that a sink fills. The values of a reject are
//! read by these types.

use std::collections::BTreeMap;

use tollgate_log::{Gap, LogId, Position, Sequence};
use uuid::Uuid;

use super::error::{Failure, at};
use super::names::{table, uuid_of};
use super::options::{PostgresOptions, quoted};
use super::session::Session;
use super::table::{exists, lock_ddl};
use crate::error::SinkError;
use crate::sink::accounts::{BOOKKEEPING_VERSION, LogCounts, StreamCounts};

/// Name of the table whose only row has the version of the layout of all these tables.
const META: &str = "meta";
/// Name of the table of leases.
pub(super) const LEASES: &str = "leases";

const TABLES: [(&str, &str); 12] = [
    (META, "version bigint NOT NULL"),
    ("sinks", "sink text PRIMARY KEY, since timestamptz NOT NULL DEFAULT now()"),
    (
        "positions",
        "sink text, log uuid, start bigint NOT NULL, last bigint NOT NULL, chain bigint, \
         loaded_at timestamptz NOT NULL DEFAULT now(), node text, PRIMARY KEY (sink, log)",
    ),
    (
        "counts",
        "sink text, log uuid, stream text, loaded bigint NOT NULL, rejected bigint NOT NULL, \
         duplicates bigint NOT NULL, skipped bigint NOT NULL, PRIMARY KEY (sink, log, stream)",
    ),
    (
        "rejects",
        "sink text, log uuid, sequence bigint, stream text NOT NULL, reason text NOT NULL, item bytea NOT NULL, \
         text text NOT NULL, loaded_at timestamptz NOT NULL DEFAULT now(), key bytea, key_window_ms bigint, refused_by text, \
         PRIMARY KEY (sink, log, sequence)",
    ),
    (
        "refusals",
        "sink text, log uuid, segment bigint, refused bigint NOT NULL, PRIMARY KEY (sink, log, segment)",
    ),
    (
        "gaps",
        "sink text, log uuid, first bigint, last bigint NOT NULL, reason text NOT NULL, \
         since timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (sink, log, first)",
    ),
    ("origins", "sink text, log uuid, origin uuid, last bigint NOT NULL, PRIMARY KEY (sink, log, origin)"),
    (
        "keys",
        "sink text, stream text, key bytea, log uuid NOT NULL, sequence bigint NOT NULL, \
         expires bigint NOT NULL, PRIMARY KEY (sink, stream, key)",
    ),
    ("ticks", "sink text PRIMARY KEY, ms bigint NOT NULL"),
    ("columns", "sink text, stream text, name text, type text NOT NULL, PRIMARY KEY (sink, stream, name)"),
    (
        LEASES,
        "sink text, store text, name text, holder text NOT NULL, until timestamptz NOT NULL, \
         PRIMARY KEY (sink, store, name)",
    ),
];

/// Newer columns of each table, with their types. A program without them reads and writes the tables as
/// before, so the version stays.
const GAINED: [(&str, &[(&str, &str)]); 2] = [
    ("rejects", &[("key", "bytea"), ("key_window_ms", "bigint"), ("refused_by", "text")]),
    ("positions", &[("node", "text")]),
];

/// Creates missing tables and columns. If none is missing, the role needs no right to create any.
///
/// # Errors
/// `Bookkeeping` if a later version of this program created the tables. The tables are then not changed.
pub(super) fn make(session: &mut Session, options: &PostgresOptions) -> Result<(), SinkError> {
    let failed = || at("create the bookkeeping tables", options);
    check_version(session, options)?;
    let mut missing = Vec::new();
    for (name, columns) in TABLES {
        let table = table(options, name);
        if !exists(session, &table).map_err(failed())? {
            missing.push(format!("CREATE TABLE IF NOT EXISTS {table} ({columns});"));
            if name == META {
                missing.push(format!("INSERT INTO {table} (version) SELECT {BOOKKEEPING_VERSION} WHERE NOT EXISTS (SELECT 1 FROM {table});"));
            }
            if name == "keys" {
                missing.push(format!("CREATE INDEX IF NOT EXISTS keys_by_end ON {table} (sink, expires);"));
            }
        }
    }
    for (name, columns) in GAINED {
        let table = table(options, name);
        if lacks_columns(session, &table, columns).map_err(failed())? {
            let added = columns.iter().map(|(name, kind)| format!("ADD COLUMN IF NOT EXISTS {name} {kind}"));
            missing.push(format!("ALTER TABLE {table} {};", added.collect::<Vec<_>>().join(", ")));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    session.run("BEGIN").map_err(failed())?;
    lock_ddl(session).map_err(failed())?;
    let schema = "SELECT to_regnamespace($1) IS NOT NULL";
    let found = session.query(schema, &[&quoted(&options.schema)]).map_err(failed())?;
    if !found.first().is_some_and(|row| row.get(0)) {
        session.run(&format!("CREATE SCHEMA {}", quoted(&options.schema))).map_err(failed())?;
    }
    session.run(&format!("{} COMMIT", missing.concat())).map_err(failed())
}

/// Returns whether an existing table lacks one of these columns.
fn lacks_columns(session: &mut Session, table: &str, columns: &[(&str, &str)]) -> Result<bool, Failure> {
    let question = "SELECT to_regclass($1) IS NOT NULL AND (SELECT count(*) FROM pg_attribute \
         WHERE attrelid = to_regclass($1) AND attname = ANY ($2) AND NOT attisdropped) < $3";
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
    let count = columns.len() as i64;
    Ok(session.query(question, &[&table, &names, &count])?.first().is_some_and(|row| row.get(0)))
}

/// Checks the version of the tables. Tables without a version have the first version.
pub(super) fn check_version(session: &mut Session, options: &PostgresOptions) -> Result<(), SinkError> {
    let failed = || at("read the version of the bookkeeping", options);
    let meta = table(options, META);
    if !exists(session, &meta).map_err(failed())? {
        return Ok(());
    }
    let rows = session.query(&format!("SELECT max(version) FROM {meta}"), &[]).map_err(failed())?;
    match rows.first().and_then(|row| row.get::<_, Option<i64>>(0)) {
        Some(found) if found != BOOKKEEPING_VERSION => {
            let (database, known) = (options.server.to_string(), BOOKKEEPING_VERSION);
            Err(SinkError::Bookkeeping { database, found, known })
        }
        _ => Ok(()),
    }
}

/// Connects to read the tables.
fn open_to_read(options: &PostgresOptions) -> Result<Session, SinkError> {
    let mut session = Session::open(options)?;
    check_version(&mut session, options)?;
    Ok(session)
}

pub(super) fn position_of(row: &tokio_postgres::Row, at: usize) -> Position {
    let (last, chain): (i64, Option<i64>) = (row.get(at), row.get(at + 1));
    let chain = chain.and_then(|chain| u32::try_from(chain).ok());
    Position { last: Sequence(last.cast_unsigned()), chain }
}

/// Returns a sink with a position of a log.
pub(super) fn sink_of(
    session: &mut Session,
    options: &PostgresOptions,
    log: LogId,
) -> Result<Option<String>, Failure> {
    let positions = table(options, "positions");
    let question = format!("SELECT sink FROM {positions} WHERE log = $1 ORDER BY sink LIMIT 1");
    Ok(session.query(&question, &[&uuid_of(log)])?.first().map(|row| row.get(0)))
}

/// Reads the positions of a sink in all logs. Returns `None` if no record was loaded yet.
pub(crate) fn read_positions(
    options: &PostgresOptions,
    sink: &str,
) -> Result<Option<BTreeMap<LogId, Position>>, SinkError> {
    let mut session = open_to_read(options)?;
    let table = table(options, "positions");
    let read = |session: &mut Session| -> Result<_, Failure> {
        if !exists(session, &table)? {
            return Ok(None);
        }
        let rows =
            session.query(&format!("SELECT log, last, chain FROM {table} WHERE sink = $1"), &[&sink])?;
        Ok(Some(rows.iter().map(|row| (log_of(row), position_of(row, 1))).collect()))
    };
    read(&mut session).map_err(at("read the positions", options))
}

/// Notes that a sink begins after these positions. Does nothing if another loader has enrolled the sink
/// already.
pub(super) fn enroll(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    ends: &BTreeMap<LogId, Position>,
) -> Result<(), Failure> {
    session.run("BEGIN")?;
    let sinks = table(options, "sinks");
    let insert = format!("INSERT INTO {sinks} (sink) VALUES ($1) ON CONFLICT (sink) DO NOTHING");
    if session.execute(&insert, &[&sink])? == 1 {
        let insert = format!(
            "INSERT INTO {} (sink, log, start, last, chain) VALUES ($1, $2, $3, $3, $4) \
             ON CONFLICT (sink, log) DO NOTHING",
            table(options, "positions")
        );
        for (log, end) in ends {
            let (last, chain) = (end.last.0.cast_signed(), end.chain.map(i64::from));
            session.execute(&insert, &[&sink, &uuid_of(*log), &last, &chain])?;
        }
    }
    session.run("COMMIT")
}

fn log_of(row: &tokio_postgres::Row) -> LogId {
    LogId::from_bytes(row.get::<_, Uuid>(0).into_bytes())
}

/// Reads the bookkeeping of a sink about all logs, in one snapshot. Returns no logs if the tables do not
/// exist.
pub(crate) fn read_counts(options: &PostgresOptions, sink: &str) -> Result<Vec<LogCounts>, SinkError> {
    let mut session = open_to_read(options)?;
    let failed = || at("read the counters", options);
    let (positions, counts) = (table(options, "positions"), table(options, "counts"));
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").map_err(failed())?;
    if !exists(&mut session, &counts).map_err(failed())? {
        return Ok(Vec::new());
    }
    // A reader adds no column to a database of an earlier version.
    let positions = format!(
        "SELECT log, start, last, chain, to_jsonb(positions) ->> 'node' FROM {positions} AS positions \
         WHERE sink = $1"
    );
    let positions = session.query(&positions, &[&sink]).map_err(failed())?;
    let mut logs: BTreeMap<_, _> = positions.iter().map(|row| (log_of(row), counts_of(row))).collect();
    let columns = "log, stream, loaded, rejected, duplicates, skipped";
    let counts = format!("SELECT {columns} FROM {counts} WHERE sink = $1");
    for row in session.query(&counts, &[&sink]).map_err(failed())? {
        if let Some(log) = logs.get_mut(&log_of(&row)) {
            let [loaded, rejected, duplicates, skipped] =
                [2, 3, 4, 5].map(|column| row.get::<_, i64>(column).cast_unsigned());
            let count = StreamCounts { loaded, rejected, duplicates, skipped };
            log.streams.insert(row.get(1), count);
        }
    }
    let gaps = format!(
        "SELECT log, first, last, reason FROM {} WHERE sink = $1 ORDER BY log, first",
        table(options, "gaps")
    );
    for row in session.query(&gaps, &[&sink]).map_err(failed())? {
        if let Some(log) = logs.get_mut(&log_of(&row)) {
            let [first, last] = [1, 2].map(|column| Sequence(row.get::<_, i64>(column).cast_unsigned()));
            log.gaps.push(Gap { first, last, reason: row.get(3) });
        }
    }
    Ok(logs.into_values().collect())
}

fn counts_of(row: &tokio_postgres::Row) -> LogCounts {
    let start = Sequence(row.get::<_, i64>(1).cast_unsigned());
    let (position, node, streams) = (position_of(row, 2), row.get(4), BTreeMap::new());
    LogCounts { log: log_of(row), start, position, node, streams, gaps: Vec::new() }
}

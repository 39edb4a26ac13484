//! Reading positions and counters for an audit, without a lock and without a trace.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};
use tollgate_log::{LogId, Sequence};

use super::{LOCK_WAIT, failed};
use crate::error::SinkError;

/// What a sink says about one log.
#[derive(Debug, Clone)]
pub(crate) struct LogCounts {
    pub(crate) log: LogId,
    /// The record before the first that the sink was given.
    pub(crate) start: Sequence,
    pub(crate) last: Sequence,
    pub(crate) streams: BTreeMap<String, StreamCounts>,
}

/// What a sink has of one stream of one log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StreamCounts {
    pub(crate) loaded: u64,
    pub(crate) rejected: u64,
    pub(crate) duplicates: u64,
    /// Records that were passed while the sink did not take the stream.
    pub(crate) skipped: u64,
}

impl StreamCounts {
    /// What became of records that the sink takes.
    pub(crate) fn told(&self) -> u64 {
        self.loaded + self.rejected + self.duplicates
    }
}

/// Reads what a sink says of all logs, in one snapshot. A database that is missing, or holds no bookkeeping, has loaded nothing.
pub(crate) fn read_counts(path: &Path, sink: &str) -> Result<Vec<LogCounts>, SinkError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed("open a connection", path))?;
    connection.busy_timeout(20 * LOCK_WAIT).map_err(failed("set up a connection", path))?;
    read(&connection, sink).map_err(failed("read the counters", path))
}

fn read(connection: &Connection, sink: &str) -> Result<Vec<LogCounts>, rusqlite::Error> {
    let snapshot = connection.unchecked_transaction()?;
    let bookkeeping = "SELECT 1 FROM sqlite_schema WHERE name = 'tollgate_counts'";
    if snapshot.query_row(bookkeeping, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Vec::new());
    }
    let mut logs = BTreeMap::new();
    let mut positions =
        snapshot.prepare("SELECT log, start, last FROM tollgate_positions WHERE sink = ?1")?;
    let mut rows = positions.query([sink])?;
    while let Some(row) = rows.next()? {
        let (text, start, last): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let Ok(log) = text.parse() else { continue };
        let (start, last) = (Sequence(start.cast_unsigned()), Sequence(last.cast_unsigned()));
        logs.insert(text, LogCounts { log, start, last, streams: BTreeMap::new() });
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

//! Logs of visits for the tests with real sinks.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_load::ItemRow;
use tollgate_log::{
    AppendedRecords, Appender, Column, ColumnOrigin, ColumnType, DiskStorage, Level, Log, LogId, LogOptions,
    OpenError, RowEncoder, Schema, SchemaId, Value,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
/// Size of the segments of most logs.
pub(crate) const SEGMENT_BYTES: u64 = 16 << 10;

pub(crate) fn column(name: &str, kind: ColumnType) -> Column {
    Column { name: name.to_owned(), kind, origin: ColumnOrigin::Stored }
}

/// Makes the schema of a stream with a number and a path.
pub(crate) fn visits() -> Schema {
    Schema::new("visits", vec![column("n", ColumnType::Int), column("path", ColumnType::Text)]).unwrap()
}

/// Function to read items of rejects, for tests without items that a client sent. Fails if it is called.
pub(crate) fn unread(stream: &str, _: &[u8]) -> Result<ItemRow, String> {
    Err(format!("an item of {stream} is read"))
}

pub(crate) fn open(dir: &Path, segment_bytes_max: u64, schemas: &[Schema]) -> Log {
    let options = LogOptions { segment_bytes_max, ..LogOptions::new(dir) };
    let mut log = None;
    eventually("the log is free", || {
        log = match Log::open(Arc::new(DiskStorage), options.clone(), schemas.to_vec(), |_| {}) {
            // Another test may be starting a program. Between fork and exec, the new process still holds
            // the lock of the previous log.
            Err(OpenError::Locked(_)) => None,
            opened => Some(opened.unwrap().0),
        };
        log.is_some()
    });
    log.unwrap()
}

/// Writes a whole log with segments of this size, and seals it.
pub(crate) fn write<R>(
    dir: &Path,
    segment_bytes_max: u64,
    schemas: &[Schema],
    fill: impl FnOnce(&mut Appender) -> R,
) -> LogId {
    let log = open(dir, segment_bytes_max, schemas);
    let mut appender = log.appender(|| {});
    fill(&mut appender);
    drop(appender);
    let id = log.id();
    log.close().unwrap();
    id
}

/// Writes a whole log of visits with segments of this size, and seals it.
pub(crate) fn write_visits(dir: &Path, segment_bytes_max: u64, numbers: Range<i64>) -> LogId {
    write(dir, segment_bytes_max, &[visits()], |appender| {
        for n in numbers {
            let appended = visit(appender, n);
            // A segment is closed only between writes, and one write takes all waiting batches. So the
            // test waits for a write after every 20 records.
            if n % 20 == 0 {
                eventually("it is written", || appender.reached(appended, Level::Written).is_some());
            }
        }
    })
}

/// Appends one visit in its own batch.
pub(crate) fn visit(appender: &mut Appender, n: i64) -> AppendedRecords {
    let path = format!("/path/{n:06}");
    row(appender, &[Value::Int(n), Value::Text(&path)])
}

/// Appends one row of the first stream in its own batch.
pub(crate) fn row(appender: &mut Appender, values: &[Value<'_>]) -> AppendedRecords {
    let appended = add(appender, SchemaId(0), values);
    hand_over(appender);
    appended
}

/// Appends one row to the present batch.
pub(crate) fn add(appender: &mut Appender, schema: SchemaId, values: &[Value<'_>]) -> AppendedRecords {
    let fill = |row: &mut RowEncoder<'_>| values.iter().try_for_each(|value| row.push(*value));
    let (appended, result) =
        appender.append(Level::Synced, |transaction| transaction.row(schema, fill)).unwrap();
    result.unwrap();
    appended.unwrap()
}

/// Ends the present batch.
pub(crate) fn hand_over(appender: &mut Appender) {
    eventually("the writer takes a batch", || appender.hand_over());
}

pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

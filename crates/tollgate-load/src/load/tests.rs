//! Tests with real logs and databases: each record of a log is in the database exactly once, whatever fails
//! in between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;
use tollgate_log::{
    AppendedRecords, Appender, Column, ColumnOrigin, ColumnType, DiskStorage, Gap, Level, Log, LogEvent,
    LogId, LogOptions, Position, RecordBatch, Schema, SchemaId, Sequence, Value, segments,
};

use super::*;
use crate::audit::{AuditRow, audit};
use crate::error::{FinishError, SinkError};
use crate::sink::{ItemRow, STREAM_UNKNOWN, Sink, SinkKind, StreamTallies, Taken, Tally};

mod account;
mod after_load;
mod awaited;
mod damage;
mod ending;
mod isolation;
mod keys;
mod kills;
mod lag;
mod live;
mod mending;
mod refusals;
mod replaced;
mod restored;
mod retention;
mod sinks;
mod standing;
mod tables;
mod values;

const PATIENCE: Duration = Duration::from_secs(300);

fn column(name: &str, kind: ColumnType) -> Column {
    Column { name: name.to_owned(), kind, origin: ColumnOrigin::Stored }
}

fn visits() -> Schema {
    let number = Column { name: "seq".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Sequence };
    Schema::new("visits", vec![column("n", ColumnType::Int), column("path", ColumnType::Text), number])
        .unwrap()
}

/// Returns the options of the sink for a configuration with these streams.
fn declared(sink: SinkOptions, streams: impl IntoIterator<Item = Schema>) -> SinkOptions {
    SinkOptions { declared: streams.into_iter().collect(), ..sink }
}

/// Function to read items of rejects, for tests without items that a client sent. Fails if it is called.
fn unread(stream: &str, _: &[u8]) -> Result<ItemRow, String> {
    Err(format!("an item of {stream} is read"))
}

/// A folder of logs with a database.
struct Site {
    folder: TempDir,
    storage: Arc<dyn Storage>,
    after_load: Option<PathBuf>,
    rejects_max: u64,
    /// Whether the database is in its own folder, which does not exist yet.
    is_deep: bool,
}

impl Site {
    fn new() -> Self {
        let (folder, storage) = (TempDir::new().unwrap(), Arc::new(DiskStorage));
        Self { folder, storage, after_load: None, rejects_max: 1_000, is_deep: false }
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join(if self.is_deep { "deep/app.db" } else { "app.db" })
    }

    fn sink(&self) -> SinkOptions {
        let (after_load, rejects_max) = (self.after_load.clone(), self.rejects_max);
        let kind = SinkKind::Sqlite { path: self.database() };
        SinkOptions { after_load, rejects_max, ..SinkOptions::new("main", kind) }
    }

    fn options(&self) -> LoadOptions {
        let mut options = LoadOptions::new(self.dir(), self.sink());
        options.tuning.backoff_min = Duration::from_millis(2);
        // A busy disk may need long to open a database.
        options.tuning.away_wait_max = PATIENCE;
        options.tuning.commit_wait_max = PATIENCE;
        options
    }

    fn open_log(&self, schemas: Vec<Schema>, segment_bytes_max: u64) -> Log {
        let options = LogOptions { segment_bytes_max, ..LogOptions::new(&self.dir()) };
        self.open_log_with(options, schemas)
    }

    fn open_log_with(&self, options: LogOptions, schemas: Vec<Schema>) -> Log {
        let on_event = |event: &LogEvent| assert!(!matches!(event, LogEvent::Failed(_)), "{event:?}");
        Log::open(self.storage.clone(), options, schemas, on_event).unwrap().0
    }

    /// Writes a whole log, and seals it.
    fn write<R>(
        &self,
        schemas: Vec<Schema>,
        segment_bytes_max: u64,
        fill: impl FnOnce(&mut Appender) -> R,
    ) -> LogId {
        let log = self.open_log(schemas, segment_bytes_max);
        let mut appender = log.appender(|| {});
        fill(&mut appender);
        drop(appender);
        let id = log.id();
        log.close().unwrap();
        id
    }

    fn write_visits(&self, numbers: std::ops::Range<i64>) -> LogId {
        self.write(vec![visits()], 4 << 10, |appender| {
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

    fn start(&self) -> Loader {
        Loader::start(self.options(), self.storage.clone(), None).unwrap()
    }

    fn load(&self) -> LoadStatus {
        self.start().finish(PATIENCE).unwrap()
    }

    fn audit(&self) -> Vec<AuditRow> {
        let rows = audit(&DiskStorage, &self.dir(), &self.sink()).unwrap().rows;
        for row in &rows {
            let told = row.loaded + row.rejected + row.duplicates;
            assert_eq!(row.ingested, row.pending + told + row.given_up + row.missing, "{row:?}");
        }
        rows
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(self.database()).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection
    }

    fn ask<T: rusqlite::types::FromSql>(&self, question: &str) -> T {
        self.connect()
            .query_row(question, [], |row| row.get(0))
            .unwrap_or_else(|error| panic!("{question}: {error}"))
    }

    fn numbers(&self) -> Vec<i64> {
        let connection = self.connect();
        let mut statement = connection.prepare("SELECT n FROM visits ORDER BY n").unwrap();
        let numbers = statement.query_map([], |row| row.get(0)).unwrap();
        numbers.map(Result::unwrap).collect()
    }
}

/// Appends one row in its own batch.
fn visit(appender: &mut Appender, n: i64) -> AppendedRecords {
    let path = format!("/path/{n:06}");
    row(appender, &[Value::Int(n), Value::Text(&path)])
}

fn row(appender: &mut Appender, values: &[Value<'_>]) -> AppendedRecords {
    let fill = |row: &mut tollgate_log::RowEncoder<'_>| values.iter().try_for_each(|value| row.push(*value));
    let (appended, result) =
        appender.append(Level::Synced, |transaction| transaction.row(SchemaId(0), fill)).unwrap();
    result.unwrap();
    hand_over(appender);
    appended.unwrap()
}

fn hand_over(appender: &mut Appender) {
    eventually("the writer takes a batch", || appender.hand_over());
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the retainer of a log has begun and ended a pass after this call. The current pass does not
/// count, because it may have begun before the call.
fn wait_for_retainer(log: &Log) {
    let watch = log.watch();
    let before = watch.status().retain_passes;
    eventually("two passes ended", || watch.status().retain_passes >= before + 2);
}

fn only_row(rows: &[AuditRow]) -> &AuditRow {
    assert_eq!(rows.len(), 1, "{rows:?}");
    &rows[0]
}

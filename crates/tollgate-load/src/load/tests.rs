//! Real logs, real databases: what is written to a log is in the database exactly once, whatever happens in between.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;
use tollgate_log::{
    Appender, Column, ColumnOrigin, ColumnType, DiskStorage, Gap, Level, Log, LogEvent, LogOptions, Position,
    RecordBatch, Schema, SchemaId, Ticket, Value, segments,
};

use super::*;
use crate::audit::{AuditRow, STREAM_UNKNOWN, audit};
use crate::sink::{SinkKind, Tally};

mod keys;
mod mending;
mod retention;
mod sinks;

const PATIENCE: Duration = Duration::from_secs(20);

fn column(name: &str, kind: ColumnType) -> Column {
    Column { name: name.to_owned(), kind, origin: ColumnOrigin::Stored }
}

fn visits() -> Schema {
    let number = Column { name: "seq".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Sequence };
    Schema::new("visits", vec![column("n", ColumnType::Int), column("path", ColumnType::Text), number])
        .unwrap()
}

/// A folder of logs and a database beside it.
struct Site {
    folder: TempDir,
    storage: Arc<dyn Storage>,
    after_load: Option<PathBuf>,
    rejects_max: u64,
}

impl Site {
    fn new() -> Self {
        let (folder, storage) = (TempDir::new().unwrap(), Arc::new(DiskStorage));
        Self { folder, storage, after_load: None, rejects_max: 1_000 }
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("app.db")
    }

    fn sink(&self) -> SinkOptions {
        let (after_load, rejects_max) = (self.after_load.clone(), self.rejects_max);
        let kind = SinkKind::Sqlite { path: self.database() };
        SinkOptions { after_load, rejects_max, ..SinkOptions::new("main", kind) }
    }

    fn options(&self) -> LoadOptions {
        let mut options = LoadOptions::new(self.dir(), self.sink());
        options.tuning.backoff_min = Duration::from_millis(2);
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

    /// Writes a log to its end and seals it.
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
                let ticket = visit(appender, n);
                // A segment is closed between writes only, and one write takes what waits.
                if n % 20 == 0 {
                    eventually("it is written", || appender.reached(ticket, Level::Written).is_some());
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
        let rows = audit(&DiskStorage, &self.dir(), &self.sink()).unwrap();
        for row in &rows {
            let told = row.loaded + row.rejected + row.duplicates;
            assert_eq!(row.ingested, row.pending + told + row.missing, "{row:?}");
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

/// One row in a batch of its own.
fn visit(appender: &mut Appender, n: i64) -> Ticket {
    let path = format!("/path/{n:06}");
    row(appender, &[Value::Int(n), Value::Text(&path)])
}

fn row(appender: &mut Appender, values: &[Value<'_>]) -> Ticket {
    let fill = |row: &mut tollgate_log::RowEncoder<'_>| values.iter().try_for_each(|value| row.push(*value));
    let (ticket, result) =
        appender.append(Level::Synced, |transaction| transaction.row(SchemaId(0), fill)).unwrap();
    result.unwrap();
    hand_over(appender);
    ticket.unwrap()
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

fn only_row(rows: &[AuditRow]) -> &AuditRow {
    assert_eq!(rows.len(), 1, "{rows:?}");
    &rows[0]
}

/// Where a sink is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    Begin,
    Write,
    BeforeCommit,
    AfterCommit,
}

const KILLS: [Kill; 4] = [Kill::Begin, Kill::Write, Kill::BeforeCommit, Kill::AfterCommit];

/// Fails or panics when it comes past certain points.
struct KillSink {
    inner: Box<dyn Sink>,
    plan: Arc<Plan>,
}

struct Plan {
    /// After so many calls of the place: fail (false) or panic (true).
    kills: Vec<(Kill, usize, bool)>,
    calls: [AtomicUsize; 4],
    happened: AtomicUsize,
}

impl Plan {
    fn pass(&self, place: Kill) -> Result<(), SinkError> {
        let call = self.calls[place as usize].fetch_add(1, Ordering::SeqCst);
        let Some((_, _, is_panic)) = self.kills.iter().find(|(at, count, _)| (*at, *count) == (place, call))
        else {
            return Ok(());
        };
        self.happened.fetch_add(1, Ordering::SeqCst);
        assert!(!is_panic, "planned panic at {place:?}");
        Err(SinkError::Database {
            action: "obey the plan",
            path: PathBuf::new(),
            source: rusqlite::Error::InvalidQuery,
        })
    }
}

impl Sink for KillSink {
    fn is_enrolled(&mut self) -> Result<bool, SinkError> {
        self.inner.is_enrolled()
    }

    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError> {
        self.inner.enroll(ends)
    }

    fn skipped(&mut self, stream: &str, count: u64) {
        self.inner.skipped(stream, count);
    }

    fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError> {
        self.inner.gaps(log)
    }

    fn begin_fill(&mut self, log: LogId, gap: &Gap) -> Result<(), SinkError> {
        self.inner.begin_fill(log, gap)
    }

    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError> {
        self.inner.commit_fill(left)
    }

    fn retry_rejects(&mut self) -> Result<crate::sink::Retried, SinkError> {
        self.inner.retry_rejects()
    }

    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError> {
        self.inner.position(log)
    }

    fn ensure(&mut self, schema: &Schema) -> Result<(), SinkError> {
        self.inner.ensure(schema)
    }

    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError> {
        self.plan.pass(Kill::Begin)?;
        self.inner.begin(log, expected)
    }

    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError> {
        self.inner.write(batch)?;
        self.plan.pass(Kill::Write)
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        self.inner.gap(gap)
    }

    fn commit(&mut self, end: Position) -> Result<Tally, SinkError> {
        self.plan.pass(Kill::BeforeCommit)?;
        let tally = self.inner.commit(end)?;
        self.plan.pass(Kill::AfterCommit)?;
        Ok(tally)
    }

    fn rollback(&mut self) {
        self.inner.rollback();
    }

    fn tidy(&mut self, bytes: u64) -> Result<(), SinkError> {
        self.inner.tidy(bytes)
    }
}

fn load_with_kills(site: &Site, chunk_rows_max: u64, kills: Vec<(Kill, usize, bool)>) -> (LoadStatus, usize) {
    let plan = Arc::new(Plan { kills, calls: Default::default(), happened: AtomicUsize::new(0) });
    let mut options = site.options();
    options.tuning.chunk_rows_max = chunk_rows_max;
    let (sink, shared) = (site.sink(), plan.clone());
    let open = Box::new(move || {
        let inner = sink.open()?;
        Ok(Box::new(KillSink { inner, plan: shared.clone() }) as Box<dyn Sink>)
    });
    let loader = Loader::start_with(options, site.storage.clone(), None, open).unwrap();
    let status = loader.finish(PATIENCE).unwrap();
    (status, plan.happened.load(Ordering::SeqCst))
}

#[test]
fn a_dead_log_is_loaded_once_however_often_the_loader_runs() {
    let site = Site::new();
    site.write_visits(0..500);
    let status = site.load();
    assert_eq!((status.rows, status.rejects, status.missing), (500, 0, 0));
    assert_eq!(site.load().rows, 0);
    assert_eq!(site.numbers(), (0..500).collect::<Vec<_>>());
    assert_eq!(site.ask::<i64>("SELECT count(*) FROM visits WHERE seq = n + 1"), 500);
    let rows = site.audit();
    let row = only_row(&rows);
    assert_eq!((row.ingested, row.loaded, row.pending), (500, 500, 0));
}

#[test]
fn a_failure_at_any_point_costs_no_row_and_doubles_none() {
    for kill in KILLS {
        for is_panic in [false, true] {
            let site = Site::new();
            site.write_visits(0..40);
            let (_, happened) = load_with_kills(&site, 10, vec![(kill, 1, is_panic)]);
            assert_eq!(happened, 1);
            assert_eq!(site.numbers(), (0..40).collect::<Vec<_>>(), "{kill:?}, panic {is_panic}");
            assert_eq!(only_row(&site.audit()).loaded, 40);
        }
    }
}

#[test]
fn a_panic_is_counted_and_told() {
    let site = Site::new();
    site.write_visits(0..10);
    let (status, _) = load_with_kills(&site, 10, vec![(Kill::Write, 3, true)]);
    assert_eq!(status.restarts, 1);
    assert_eq!(status.last_error.as_deref(), Some("the loader panicked"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_row_of_failures_keeps_exactly_once(
        kills in prop::collection::vec((0..4usize, 0..12usize, any::<bool>()), 0..6),
        chunk_rows_max in 1..30u64,
    ) {
        let site = Site::new();
        site.write_visits(0..60);
        site.write_visits(60..90);
        let kills = kills.into_iter().map(|(kill, count, is_panic)| (KILLS[kill], count, is_panic)).collect();
        load_with_kills(&site, chunk_rows_max, kills);
        prop_assert_eq!(site.numbers(), (0..90).collect::<Vec<_>>());
    }

    #[test]
    fn a_loader_dropped_at_any_moment_is_no_harm(pauses_us in prop::collection::vec(0..4000u64, 1..5)) {
        let site = Site::new();
        site.write_visits(0..300);
        for pause_us in pauses_us {
            let mut options = site.options();
            options.tuning.chunk_rows_max = 7;
            let loader = Loader::start(options, site.storage.clone(), None).unwrap();
            // The moment is the point of the test, no condition is waited for.
            thread::sleep(Duration::from_micros(pause_us));
            drop(loader);
        }
        site.load();
        prop_assert_eq!(site.numbers(), (0..300).collect::<Vec<_>>());
    }
}

#[test]
fn two_loaders_on_one_log_load_each_row_once() {
    let site = Site::new();
    site.write_visits(0..2000);
    let mut options = site.options();
    options.tuning.chunk_rows_max = 5;
    let loaders: Vec<_> =
        (0..2).map(|_| Loader::start(options.clone(), site.storage.clone(), None).unwrap()).collect();
    let rows: u64 = loaders.into_iter().map(|loader| loader.finish(PATIENCE).unwrap().rows).sum();
    assert_eq!(rows, 2000);
    assert_eq!(site.numbers(), (0..2000).collect::<Vec<_>>());
    assert_eq!(only_row(&site.audit()).loaded, 2000);
}

#[test]
fn a_sink_that_lost_the_position_commits_nothing() {
    let site = Site::new();
    let log = site.write_visits(0..3);
    let mut cursor = tollgate_log::Cursor::new(site.storage.clone(), &site.dir(), log, None);
    let mut sink = site.sink().open().unwrap();
    sink.begin(log, None).unwrap();
    let Ok(tollgate_log::CursorStep::Batch(batch)) = cursor.step(None) else { panic!("no batch") };
    sink.write(&batch).unwrap();
    let end = batch.end();
    sink.commit(end).unwrap();
    assert!(matches!(sink.begin(log, None), Err(SinkError::Lost { .. })));
    sink.rollback();
    assert_eq!(sink.position(log).unwrap(), Some(end));
}

#[test]
fn a_row_that_the_database_refuses_becomes_a_reject_and_its_neighbours_load() {
    let site = Site::new();
    site.connect()
        .execute_batch("CREATE TABLE visits (n INTEGER CHECK (n <> 5) UNIQUE ON CONFLICT ROLLBACK, path TEXT, seq INTEGER)")
        .unwrap();
    site.write(vec![visits()], 4 << 10, |appender| {
        for n in (0..10).chain([7, 3]) {
            visit(appender, n);
        }
    });
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (9, 3));
    assert_eq!(site.numbers(), [0, 1, 2, 3, 4, 6, 7, 8, 9]);
    let reject = "SELECT reason || ' ' || CAST(item AS TEXT) FROM tollgate_rejects WHERE sequence = 6";
    let text: String = site.ask(reject);
    assert!(text.starts_with("CHECK constraint failed"), "{text}");
    assert!(text.ends_with(r#"{"n":5,"path":"/path/000005","seq":6}"#), "{text}");
    assert_eq!(site.ask::<String>("SELECT group_concat(sequence) FROM tollgate_rejects"), "6,11,12");
    let rows = site.audit();
    assert_eq!((only_row(&rows).loaded, only_row(&rows).rejected, only_row(&rows).missing), (9, 3, 0));
}

#[test]
fn rejects_made_at_ingest_arrive_with_reason_and_item() {
    let site = Site::new();
    site.write(vec![visits()], 4 << 10, |appender| {
        visit(appender, 1);
        let reject = |transaction: &mut tollgate_log::Transaction<'_>| {
            transaction.reject(SchemaId(0), "column \"n\" takes int", b"{\"n\":\"x\xff\0\"}");
        };
        appender.append(Level::Synced, reject).unwrap();
        hand_over(appender);
        visit(appender, 2);
    });
    assert_eq!(site.load().rejects, 1);
    assert_eq!(
        site.ask::<String>("SELECT reason FROM tollgate_rejects WHERE sequence = 2"),
        "column \"n\" takes int"
    );
    assert_eq!(site.ask::<Vec<u8>>("SELECT item FROM tollgate_rejects"), b"{\"n\":\"x\xff\0\"}");
    assert_eq!(site.ask::<String>("SELECT text FROM tollgate_rejects"), "{\"n\":\"x\u{fffd}\u{fffd}\"}");
    let rows = site.audit();
    let row = only_row(&rows);
    assert_eq!((row.ingested, row.loaded, row.rejected, row.stream.as_str()), (3, 2, 1, "visits"));
}

fn flip_byte_of(path: &Path, needle: &str) -> bool {
    let mut bytes = std::fs::read(path).unwrap();
    let Some(at) = bytes.windows(needle.len()).position(|window| window == needle.as_bytes()) else {
        return false;
    };
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
    true
}

#[test]
fn damage_in_a_sealed_segment_is_a_gap_and_the_rest_is_loaded() {
    let site = Site::new();
    let log = site.write_visits(0..300);
    let paths = segments(&*site.storage, &site.dir(), log).unwrap();
    assert!(paths.len() > 2);
    assert!(paths.iter().any(|(_, path)| flip_byte_of(path, "/path/000123")));
    let status = site.load();
    let missing = status.missing;
    assert!(missing >= 1);
    assert_eq!(status.rows + missing, 300);
    assert!(!site.numbers().contains(&123));
    assert_eq!(site.ask::<i64>("SELECT sum(last - first + 1) FROM tollgate_gaps").cast_unsigned(), missing);
    assert!(site.ask::<String>("SELECT reason FROM tollgate_gaps").contains("checksum"));
    let rows = site.audit();
    let row = only_row(&rows);
    assert_eq!((row.ingested, row.loaded, row.missing), (300, status.rows, missing));
}

#[test]
fn a_segment_that_is_gone_in_the_middle_is_missing_of_an_unknown_stream() {
    let site = Site::new();
    let log = site.write_visits(0..300);
    let paths = segments(&*site.storage, &site.dir(), log).unwrap();
    let lost = paths[2].0.first.0 - paths[1].0.first.0;
    std::fs::remove_file(&paths[1].1).unwrap();
    let status = site.load();
    assert_eq!((status.rows, status.missing), (300 - lost, lost));
    let rows = site.audit();
    let unknown = rows.iter().find(|row| row.stream == STREAM_UNKNOWN).unwrap();
    assert_eq!((unknown.ingested, unknown.missing), (lost, lost));
}

#[test]
fn segments_deleted_after_loading_are_no_loss() {
    let site = Site::new();
    let log = site.write_visits(0..300);
    site.load();
    for (_, path) in segments(&*site.storage, &site.dir(), log).unwrap().iter().take(2) {
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(site.load().missing, 0);
    let rows = site.audit();
    assert_eq!((only_row(&rows).ingested, only_row(&rows).loaded, only_row(&rows).missing), (300, 300, 0));
}

#[test]
fn the_audit_counts_what_is_not_loaded_yet_as_pending() {
    let site = Site::new();
    site.write_visits(0..300);
    let rows = site.audit();
    assert_eq!((only_row(&rows).ingested, only_row(&rows).pending), (300, 300));
    site.load();
    // As if the loader had stopped in the middle of a segment.
    let set = "UPDATE tollgate_positions SET last = 100; UPDATE tollgate_counts SET loaded = 100";
    site.connect().execute_batch(set).unwrap();
    let rows = site.audit();
    let row = only_row(&rows);
    assert_eq!((row.ingested, row.pending, row.loaded, row.missing), (300, 200, 100, 0));
    // A row that the sink lost is found out.
    site.connect().execute_batch("UPDATE tollgate_counts SET loaded = 99").unwrap();
    assert_eq!(only_row(&site.audit()).missing, 1);
}

#[test]
fn the_audit_counts_a_stream_that_changed_in_the_middle_of_a_segment_as_one() {
    let site = Site::new();
    let mut columns = visits().columns().to_vec();
    let took = Column { name: "took".to_owned(), kind: ColumnType::Float, origin: ColumnOrigin::Stored };
    columns.insert(2, took);
    let wide = Schema::new("visits", columns).unwrap();
    site.write(vec![visits(), wide], 1 << 20, |appender| {
        for n in 0..10 {
            visit(appender, n);
        }
        for n in 10..30 {
            let values = [Value::Int(n), Value::Text("/wide"), Value::Float(0.5)];
            let fill = |transaction: &mut tollgate_log::Transaction<'_>| {
                transaction.row(SchemaId(1), |row| values.iter().try_for_each(|value| row.push(*value)))
            };
            appender.append(Level::Synced, fill).unwrap().1.unwrap();
            hand_over(appender);
        }
    });
    site.load();
    for position in [30, 15, 5] {
        let set = format!(
            "UPDATE tollgate_positions SET last = {position}; UPDATE tollgate_counts SET loaded = {position}"
        );
        site.connect().execute_batch(&set).unwrap();
        let rows = site.audit();
        let row = only_row(&rows);
        assert_eq!((row.ingested, row.loaded, row.missing), (30, position, 0), "{row:?}");
    }
}

#[test]
fn a_log_that_is_not_the_one_that_was_read_is_stopped_and_others_load() {
    let site = Site::new();
    let first = site.write_visits(0..10);
    site.load();
    site.connect().execute_batch("UPDATE tollgate_positions SET last = 4, chain = 12345").unwrap();
    site.write_visits(10..20);
    let status = site.load();
    assert_eq!(status.rows, 10);
    assert_eq!(status.stopped_logs.keys().collect::<Vec<_>>(), [&first]);
    assert!(status.stopped_logs[&first].contains("chain"), "{:?}", status.stopped_logs);
    assert_eq!(site.numbers(), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_column_that_a_stream_gained_is_added() {
    let site = Site::new();
    site.write_visits(0..2);
    site.load();
    let mut columns = visits().columns().to_vec();
    columns.push(column("agent \"x\"", ColumnType::Text));
    site.write(vec![Schema::new("visits", columns).unwrap()], 4 << 10, |appender| {
        row(appender, &[Value::Int(2), Value::Text(""), Value::Null, Value::Text("curl")]);
    });
    assert_eq!(site.load().rows, 1);
    assert_eq!(site.ask::<String>("SELECT \"agent \"\"x\"\"\" FROM visits WHERE n = 2"), "curl");
    assert_eq!(site.ask::<i64>("SELECT count(*) FROM visits WHERE \"agent \"\"x\"\"\" IS NULL"), 2);
}

#[test]
fn a_column_that_a_stream_gains_in_the_middle_of_a_log_is_added_while_it_is_loaded() {
    let site = Site::new();
    let log = site.open_log(vec![visits()], 1 << 20);
    let follower = log.sink_followers(1).remove(0);
    let loader = Loader::start(site.options(), site.storage.clone(), Some(follower)).unwrap();
    let mut appender = log.appender(|| {});
    visit(&mut appender, 1);
    eventually("the first is loaded", || loader.status().rows == 1);
    let taller =
        Schema::new("visits", vec![column("n", ColumnType::Int), column("height", ColumnType::Float)]);
    let other = Schema::new("others", vec![column("n", ColumnType::Int)]);
    let numbers = log.declare(vec![taller.unwrap(), other.unwrap()]).unwrap();
    appender
        .append(Level::Synced, |transaction| {
            let values = [Value::Int(2), Value::Float(1.5)];
            transaction
                .row(numbers[0], |row| values.into_iter().try_for_each(|value| row.push(value)))
                .unwrap();
            transaction.row(numbers[1], |row| row.push(Value::Int(3))).unwrap();
        })
        .unwrap();
    hand_over(&mut appender);
    visit(&mut appender, 4);
    eventually("all are loaded", || loader.status().rows == 4);
    drop(appender);
    log.close().unwrap();
    loader.finish(PATIENCE).unwrap();
    assert_eq!(site.numbers(), [1, 2, 4]);
    assert_eq!(site.ask::<String>("SELECT group_concat(ifnull(height, '-'), ' ') FROM visits"), "- 1.5 -");
    assert_eq!(site.ask::<i64>("SELECT n FROM others"), 3);
}

fn stop_reason(site: &Site) -> String {
    match site.start().finish(PATIENCE) {
        Err(FinishError::Stopped { reason, .. }) => reason,
        other => panic!("not stopped: {other:?}"),
    }
}

#[test]
fn a_changed_type_is_refused_before_anything_is_loaded() {
    let site = Site::new();
    site.write_visits(0..2);
    site.load();
    let columns = vec![column("n", ColumnType::Int), column("PATH", ColumnType::Timestamp)];
    site.write(vec![Schema::new("visits", columns).unwrap()], 4 << 10, |appender| {
        row(appender, &[Value::Int(2), Value::Timestamp(0)]);
    });
    let reason = stop_reason(&site);
    assert!(
        reason.contains("column \"PATH\" of table \"visits\" is text, the stream has timestamp"),
        "{reason}"
    );
    assert_eq!(site.numbers(), [0, 1]);
    site.connect().execute_batch("ALTER TABLE visits RENAME COLUMN path TO path_old").unwrap();
    assert_eq!(site.load().rows, 1);
    assert_eq!(site.ask::<String>("SELECT path FROM visits WHERE n = 2"), "1970-01-01T00:00:00.000000Z");
}

#[test]
fn streams_named_like_bookkeeping_or_like_another_but_for_case_are_refused() {
    for (name, expected) in [("tollgate_x", "kept for bookkeeping"), ("SQLite_x", "kept for bookkeeping")] {
        let site = Site::new();
        let schema = Schema::new(name, vec![column("n", ColumnType::Int)]).unwrap();
        site.write(vec![schema], 4 << 10, |appender| row(appender, &[Value::Int(1)]));
        let reason = stop_reason(&site);
        assert!(reason.contains(expected), "{reason}");
    }
    let site = Site::new();
    let other = Schema::new("Visits", vec![column("n", ColumnType::Int)]).unwrap();
    site.write(vec![visits(), other], 4 << 10, |appender| visit(appender, 1));
    assert!(stop_reason(&site).contains("by case alone"));
}

fn everything() -> Schema {
    let columns = ColumnType::ALL.iter().map(|kind| column(kind.name(), *kind)).collect();
    Schema::new("everything", columns).unwrap()
}

#[test]
fn all_types_arrive_with_their_extremes() {
    let site = Site::new();
    let id = *b"\x01\x92\xab\xcd\xef\x01\x70\x00\x80\x00\x00\x00\x00\x00\x00\xff";
    let rows: [[Value<'_>; 9]; 3] = [
        [
            Value::Bool(true),
            Value::Int(i64::MIN),
            Value::Float(f64::INFINITY),
            Value::Text(""),
            Value::Bytes(b"\0\xff"),
            Value::Timestamp(1_795_255_200_123_456),
            Value::Json("{\"a\":1}"),
            Value::Uuid(id),
            Value::Inet("192.0.2.1".parse().unwrap()),
        ],
        [
            Value::Bool(false),
            Value::Int(i64::MAX),
            Value::Float(f64::NAN),
            Value::Text("0123"),
            Value::Bytes(b""),
            Value::Timestamp(-1),
            Value::Json("1e3"),
            Value::Uuid([0; 16]),
            Value::Inet("2001:db8::1".parse().unwrap()),
        ],
        [Value::Null; 9],
    ];
    site.write(vec![everything()], 4 << 10, |appender| {
        for values in &rows {
            row(appender, values);
        }
    });
    assert_eq!(site.load().rows, 3);
    let shown = |n: i64| {
        let columns = ColumnType::ALL.map(|kind| format!("quote(\"{}\")", kind.name())).join(" || ' ' || ");
        site.ask::<String>(&format!("SELECT {columns} FROM everything WHERE rowid = {n}"))
    };
    assert_eq!(
        shown(1),
        "1 -9223372036854775808 9.0e+999 '' X'00FF' '2026-11-21T10:00:00.123456Z' '{\"a\":1}' \
         '0192abcd-ef01-7000-8000-0000000000ff' '192.0.2.1'"
    );
    assert_eq!(
        shown(2),
        "0 9223372036854775807 NULL '0123' X'' '1969-12-31T23:59:59.999999Z' '1e3' \
         '00000000-0000-0000-0000-000000000000' '2001:db8::1'"
    );
    assert_eq!(shown(3), ["NULL"; 9].join(" "));
    assert_eq!(site.ask::<String>("SELECT strftime('%H:%M', timestamp) FROM everything"), "10:00");
}

#[test]
fn a_timestamp_that_has_no_text_is_a_reject() {
    let site = Site::new();
    let mut values = [Value::Null; 9];
    values[5] = Value::Timestamp(i64::MAX);
    site.write(vec![everything()], 4 << 10, |appender| row(appender, &values));
    assert_eq!((site.load().rejects, site.ask::<i64>("SELECT count(*) FROM everything")), (1, 0));
    assert!(site.ask::<String>("SELECT reason FROM tollgate_rejects").contains("years 0000 to 9999"));
}

#[test]
fn a_database_that_somebody_else_locks_is_waited_for() {
    let site = Site::new();
    site.write_visits(0..5);
    let blocker = site.connect();
    blocker.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE mine (x); BEGIN IMMEDIATE").unwrap();
    let loader = site.start();
    eventually("the loader tells of the lock", || {
        let status = loader.status();
        status.state == LoadState::Retrying
            && status.last_error.is_some_and(|error| error.contains("is locked"))
    });
    assert_eq!(loader.status().rows, 0);
    blocker.execute_batch("COMMIT").unwrap();
    assert_eq!(loader.finish(PATIENCE).unwrap().rows, 5);
    assert_eq!(site.numbers(), [0, 1, 2, 3, 4]);
    assert_eq!(site.ask::<i64>("SELECT count(*) FROM tollgate_rejects"), 0);
}

#[test]
fn a_reader_does_not_disturb() {
    let site = Site::new();
    site.write_visits(0..5);
    site.load();
    let reader =
        Connection::open_with_flags(site.database(), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count = |reader: &Connection| {
        reader.query_row("SELECT count(*) FROM visits", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(count(&reader), 5);
    site.write_visits(5..9);
    assert_eq!(site.load().rows, 4);
    assert_eq!(count(&reader), 5);
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&reader), 9);
}

#[test]
fn a_file_that_is_no_database_is_told_at_start() {
    let site = Site::new();
    std::fs::write(site.database(), "not a database, but long enough to be looked at: ".repeat(100)).unwrap();
    let error = Loader::start(site.options(), site.storage.clone(), None).err().unwrap();
    let text = crate::error::join_chain(&error);
    assert!(text.contains("app.db") && text.contains("not a database"), "{text}");
}

#[test]
fn a_finish_that_has_no_time_says_so_and_the_next_run_goes_on() {
    let site = Site::new();
    site.write_visits(0..5);
    let blocker = site.connect();
    blocker.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE mine (x); BEGIN IMMEDIATE").unwrap();
    let error = site.start().finish(Duration::from_millis(20)).err().unwrap();
    assert!(matches!(error, FinishError::Timeout { .. }), "{error}");
    blocker.execute_batch("COMMIT").unwrap();
    // The loader that was given up may still have its turn: whichever it is, each row comes once.
    site.load();
    assert_eq!(site.numbers(), (0..5).collect::<Vec<_>>());
}

#[test]
fn a_row_of_a_live_log_is_visible_within_a_second() {
    let site = Site::new();
    let log = site.open_log(vec![visits()], 64 << 20);
    let loader = Loader::start(site.options(), site.storage.clone(), Some(log.follower())).unwrap();
    let mut appender = log.appender(|| {});
    for n in 0..5 {
        let began = Instant::now();
        visit(&mut appender, n);
        eventually("the row is there", || loader.status().rows > n.cast_unsigned());
        assert!(site.numbers().contains(&n));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    eventually("nothing is left", || loader.status().state == LoadState::CaughtUp);
    assert_eq!(only_row(&site.audit()).pending, 0);
    drop(appender);
    log.close().unwrap();
    loader.finish(PATIENCE).unwrap();
}

#[test]
fn what_a_live_log_got_before_it_closed_is_loaded_at_finish_in_few_commits() {
    let site = Site::new();
    let log = site.open_log(vec![visits()], 16 << 10);
    let loader = Loader::start(site.options(), site.storage.clone(), Some(log.follower())).unwrap();
    let mut appender = log.appender(|| {});
    for n in 0..3000 {
        visit(&mut appender, n);
    }
    drop(appender);
    log.close().unwrap();
    let status = loader.finish(PATIENCE).unwrap();
    assert_eq!(site.numbers(), (0..3000).collect::<Vec<_>>());
    assert!(status.commits < 300, "{} commits", status.commits);
}

#[test]
fn an_open_segment_of_another_process_is_left_alone() {
    let site = Site::new();
    let log = site.open_log(vec![visits()], 64 << 20);
    let mut appender = log.appender(|| {});
    visit(&mut appender, 1);
    eventually("it is synced", || log.follower().watermark().synced.0 == 1);
    assert_eq!(site.load().rows, 0);
    drop(appender);
    log.close().unwrap();
    assert_eq!(site.load().rows, 1);
}

#[test]
fn a_file_runs_in_the_transaction_of_each_load_and_knows_what_is_new() {
    let mut site = Site::new();
    let log = site.write_visits(0..30);
    let file = site.folder.path().join("after.sql");
    let text = "CREATE TABLE IF NOT EXISTS totals (log, first, last, n);
        INSERT INTO totals SELECT log, first, last, (SELECT count(*) FROM visits) FROM tollgate_load;";
    std::fs::write(&file, text).unwrap();
    site.after_load = Some(file);
    site.load();
    let total: String = site.ask("SELECT log || ' ' || first || ' ' || last || ' ' || n FROM totals");
    assert_eq!(total, format!("{log} 1 30 30"));
}

#[test]
fn a_file_that_fails_or_ends_the_transaction_loses_nothing_and_doubles_nothing() {
    for text in ["SELECT nonsense", "ROLLBACK", "ROLLBACK; BEGIN", "COMMIT", "COMMIT; BEGIN"] {
        let mut site = Site::new();
        site.write_visits(0..30);
        let file = site.folder.path().join("after.sql");
        std::fs::write(&file, text).unwrap();
        site.after_load = Some(file.clone());
        let result = site.start().finish(PATIENCE);
        if text != "COMMIT; BEGIN" {
            let reason = result.unwrap_err().to_string();
            assert!(reason.contains("after.sql"), "{reason}");
        }
        std::fs::write(&file, "").unwrap();
        site.load();
        assert_eq!(site.numbers(), (0..30).collect::<Vec<_>>(), "{text}");
        assert_eq!(only_row(&site.audit()).loaded, 30, "{text}");
    }
}

#[test]
fn too_many_rows_that_the_database_refuses_stop_the_sink() {
    let mut site = Site::new();
    site.connect()
        .execute_batch("CREATE TABLE visits (n INTEGER CHECK (n > 4), path TEXT, seq INTEGER)")
        .unwrap();
    site.write_visits(0..30);
    site.rejects_max = 4;
    let reason = site.start().finish(PATIENCE).unwrap_err().to_string();
    assert!(reason.contains("refused 5 rows of one load for their content, limit 4"), "{reason}");
    site.rejects_max = 5;
    assert_eq!(site.load().rejects, 5);
}

//! Tests of a sink that fails or panics at any point, or races with another sink: each row is loaded once.

use tollgate_queue::QueueError;

use super::*;
use crate::sink::ReadItem;

/// The call of a sink that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kill {
    Begin,
    Write,
    BeforeCommit,
    AfterCommit,
}

pub(super) const KILLS: [Kill; 4] = [Kill::Begin, Kill::Write, Kill::BeforeCommit, Kill::AfterCommit];

/// A sink that fails or panics at planned calls.
struct KillSink {
    inner: Box<dyn Sink>,
    plan: Arc<Plan>,
    /// Bytes of the open load.
    bytes: u64,
}

pub(super) struct Plan {
    /// Each entry has the call, the number of such calls before it, and whether the sink fails (false) or
    /// panics (true).
    kills: Vec<(Kill, usize, bool)>,
    calls: [AtomicUsize; 4],
    happened: AtomicUsize,
    /// Bytes above which a fill of a gap is too slow, as with a quota of a broker.
    fill_bytes_max: u64,
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
    fn extent(&self) -> crate::sink::LoadExtent {
        self.inner.extent()
    }

    fn planned(
        &mut self,
        log: LogId,
        expected: Option<Position>,
        taken: &Taken,
    ) -> Result<Option<crate::sink::PlannedLoad>, SinkError> {
        self.inner.planned(log, expected, taken)
    }

    fn is_enrolled(&mut self) -> Result<bool, SinkError> {
        self.inner.is_enrolled()
    }

    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError> {
        self.inner.enroll(ends)
    }

    fn skipped(&mut self, stream: &str, count: u64) {
        self.inner.skipped(stream, count);
    }

    fn rejects(
        &mut self,
        log: LogId,
        first: Sequence,
        last: Sequence,
    ) -> Result<Vec<(Sequence, String)>, SinkError> {
        self.inner.rejects(log, first, last)
    }

    fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError> {
        self.inner.gaps(log)
    }

    fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError> {
        self.inner.gap_records()
    }

    fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError> {
        self.inner.rename_gap(log, gap, reason)
    }

    fn begin_fill(&mut self, log: LogId, gap: &Gap, taken: &Taken) -> Result<Taken, SinkError> {
        self.bytes = 0;
        self.inner.begin_fill(log, gap, taken)
    }

    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError> {
        if self.bytes > self.plan.fill_bytes_max {
            self.plan.happened.fetch_add(1, Ordering::SeqCst);
            let source = QueueError::Slow { brokers: String::new(), reason: String::new() };
            return Err(SinkError::Queue { action: "obey the plan", source: Box::new(source) });
        }
        self.inner.commit_fill(left)
    }

    fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<crate::sink::Retried, SinkError> {
        self.inner.retry_rejects(read)
    }

    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError> {
        self.inner.position(log)
    }

    fn look(&mut self, schema: &Schema) -> Result<(), SinkError> {
        self.inner.look(schema)
    }

    fn lost_tables(&mut self) -> Result<BTreeMap<String, crate::sink::LostTable>, SinkError> {
        self.inner.lost_tables()
    }

    fn tables_met(&self) -> usize {
        self.inner.tables_met()
    }

    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError> {
        self.plan.pass(Kill::Begin)?;
        self.inner.begin(log, expected)
    }

    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError> {
        self.bytes += batch.bytes() as u64;
        self.inner.write(batch)?;
        self.plan.pass(Kill::Write)
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        self.inner.gap(gap)
    }

    fn commit(&mut self, end: Position) -> Result<StreamTallies, SinkError> {
        self.plan.pass(Kill::BeforeCommit)?;
        let tally = self.inner.commit(end)?;
        self.plan.pass(Kill::AfterCommit)?;
        Ok(tally)
    }

    fn rollback(&mut self) {
        self.inner.rollback();
    }

    fn is_changed(&mut self) -> Result<bool, SinkError> {
        self.inner.is_changed()
    }

    fn tidy(&mut self, bytes: u64) -> Result<(), SinkError> {
        self.inner.tidy(bytes)
    }
}

/// Returns a plan with these kills, and a function that opens a sink that follows the plan.
pub(super) fn killed_sink(kills: Vec<(Kill, usize, bool)>) -> (Arc<Plan>, OpenSink) {
    planned_sink(kills, u64::MAX)
}

fn planned_sink(kills: Vec<(Kill, usize, bool)>, fill_bytes_max: u64) -> (Arc<Plan>, OpenSink) {
    let (calls, happened) = (Default::default(), AtomicUsize::new(0));
    let plan = Arc::new(Plan { kills, calls, happened, fill_bytes_max });
    let shared = plan.clone();
    let open = Box::new(move |sink: &SinkOptions| {
        let inner = sink.open()?;
        Ok(Box::new(KillSink { inner, plan: shared.clone(), bytes: 0 }) as Box<dyn Sink>)
    });
    (plan, open)
}

/// Loads with a sink that is too slow for a fill of more than `fill_bytes_max`. Returns the status, and the
/// number of fills that were too slow.
pub(super) fn load_with_slow_fills(site: &Site, fill_bytes_max: u64) -> (LoadStatus, usize) {
    let (plan, open) = planned_sink(Vec::new(), fill_bytes_max);
    let loader = Loader::start_with(site.options(), site.storage.clone(), None, open).unwrap();
    let status = loader.finish(PATIENCE).unwrap();
    (status, plan.happened.load(Ordering::SeqCst))
}

pub(super) fn load_with_kills(
    site: &Site,
    chunk_rows_max: u64,
    kills: Vec<(Kill, usize, bool)>,
) -> (LoadStatus, usize) {
    let (plan, open) = killed_sink(kills);
    let mut options = site.options();
    options.tuning.chunk_rows_max = chunk_rows_max;
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
            // This test varies the time of the end, so it waits for no condition.
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

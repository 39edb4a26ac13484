//! After any series of ingests, shipments, loads, losses and given up gaps, the accounts of both machines
//! add up, and agree with a plain model.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tempfile::TempDir;
use tollgate_load::{LoadOptions, LoadState, Loader, RefusedLogs, SinkAccount, SinkKind, SinkOptions, skip};
use tollgate_log::{
    Column, ColumnOrigin, ColumnType, DiskStorage, Level, Log, LogId, LogOptions, OpenError,
    SEGMENT_HEADER_BYTES, Schema, SchemaId, SegmentName, SegmentState, Sequence, Storage, Value, read_footer,
    segments,
};
use tollgate_ship::{
    FetchOptions, FetchState, FetchTuning, Fetcher, FolderStore, NodeName, ObjectName, Pacer, StoreRetain,
    ship_once,
};

use super::counts::{Count, RecordCounts};
use super::finding::AuditKind;
use super::report::SideAudit;
use super::stored::AuditedStore;
use super::{database, web};

const PATIENCE: Duration = Duration::from_secs(300);
const NODE: &str = "web 1";
const SINK: &str = "main";

/// A change of the site. A number selects one of the segments.
#[derive(Debug, Clone)]
enum Step {
    /// A run of the server records rows of two streams.
    Ingest(u8),
    Ship,
    Load,
    /// The store loses an object.
    Lose(u8),
    /// An object in the store is damaged.
    Damage(u8),
    /// The web machine loses a segment.
    LoseLocal(u8),
    /// An operator gives up the records that a loader waits for.
    GiveUp,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1_u8..40).prop_map(Step::Ingest),
        4 => Just(Step::Ship),
        4 => Just(Step::Load),
        2 => any::<u8>().prop_map(Step::Lose),
        1 => any::<u8>().prop_map(Step::Damage),
        1 => any::<u8>().prop_map(Step::LoseLocal),
        2 => Just(Step::GiveUp),
    ];
    prop::collection::vec(step, 1..14)
}

/// A segment of the model.
#[derive(Debug, Clone, Copy)]
struct Segment {
    first: u64,
    last: u64,
    is_local: bool,
    is_stored: bool,
    is_damaged: bool,
}

/// A web machine, a folder as the store, and a database machine.
struct Site {
    folder: TempDir,
    storage: Arc<dyn Storage>,
    logs: BTreeMap<LogId, Vec<Segment>>,
}

impl Site {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["log", "store", "audit", "empty"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, storage: Arc::new(DiskStorage), logs: BTreeMap::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn node(&self) -> NodeName {
        NodeName::encode(NODE).unwrap()
    }

    fn store(&self) -> FolderStore {
        FolderStore::new(self.path("store"), Arc::new(Pacer::new(None)))
    }

    fn sink(&self) -> SinkOptions {
        SinkOptions::new(SINK, SinkKind::Sqlite { path: self.path("rows.sqlite") })
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Ingest(rows) => self.ingest(i64::from(*rows)),
            Step::Ship => self.ship(),
            Step::Load => self.load(),
            Step::Lose(at) => self.lose(*at),
            Step::Damage(at) => self.damage(*at),
            Step::LoseLocal(at) => self.lose_local(*at),
            Step::GiveUp => self.give_up(),
        }
    }

    fn ingest(&mut self, rows: i64) {
        let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
        let schema = |stream: &str| Schema::new(stream, vec![column.clone()]).unwrap();
        let dir = self.path("log");
        let options =
            LogOptions { segment_bytes_max: 1 << 9, node: NODE.to_owned(), ..LogOptions::new(&dir) };
        let schemas = vec![schema("even"), schema("odd")];
        let mut opened = None;
        // A process that another test starts has a copy of the lock until it executes its program.
        eventually("the lock is free", || {
            match Log::open(Arc::new(DiskStorage), options.clone(), schemas.clone(), |_| {}) {
                Err(OpenError::Locked(_)) => {}
                result => opened = Some(result.unwrap().0),
            }
            opened.is_some()
        });
        let log = opened.unwrap();
        let mut appender = log.appender(|| {});
        for n in 0..rows {
            let id = SchemaId(u16::try_from(n % 2).unwrap());
            let row = |rows: &mut tollgate_log::Transaction<'_>| rows.row(id, |row| row.push(Value::Int(n)));
            let (appended, result) = appender.append(Level::Synced, row).unwrap();
            result.unwrap();
            eventually("the writer takes a batch", || appender.hand_over());
            let appended = appended.unwrap();
            eventually("it is written", || appender.reached(appended, Level::Written).is_some());
        }
        drop(appender);
        let id = log.id();
        log.close().unwrap();
        let found = segments(&DiskStorage, &dir, id).unwrap().into_iter().map(|(name, path)| {
            let last = read_footer(&DiskStorage, &path).unwrap().unwrap().last.0;
            let (first, is_local) = (name.first.0, true);
            Segment { first, last, is_local, is_stored: false, is_damaged: false }
        });
        self.logs.insert(id, found.collect());
    }

    fn ship(&mut self) {
        ship_once(&DiskStorage, &self.path("log"), &self.node(), &self.store(), false, |_| {}).unwrap();
        for segment in self.logs.values_mut().flatten() {
            segment.is_stored |= segment.is_local;
        }
    }

    /// Loads all that can be loaded.
    fn load(&self) {
        let tuning = FetchTuning {
            poll: Duration::from_millis(2),
            list: Duration::ZERO,
            gap_patience: Duration::from_secs(1_000),
            backoff_min: Duration::from_millis(1),
            ..FetchTuning::default()
        };
        let options = FetchOptions {
            spool: self.path("spool"),
            spool_bytes_max: u64::MAX,
            segment_bytes_max: 1 << 20,
            retain: StoreRetain { age: None, sinks: None },
            tuning,
        };
        let sink = self.sink();
        let read =
            Box::new(move || Ok(BTreeMap::from([(SINK.to_owned(), sink.positions()?.unwrap_or_default())])));
        let fetcher = Fetcher::start(options, self.storage.clone(), Arc::new(self.store()), read).unwrap();
        let mut options = LoadOptions::new(self.path("spool"), self.sink());
        options.refused = RefusedLogs::Wait;
        options.tuning.poll = Duration::from_millis(2);
        let loader = Loader::start_beside(options, self.storage.clone(), None).unwrap();
        eventually("all that can be loaded is loaded", || {
            let (fetch, load) = (fetcher.watch().status(), loader.status());
            assert!(!load.is_unusable && load.stopped_logs.is_empty(), "{load:?}");
            let is_loaded = fetch.logs.values().all(|log| log.loaded >= log.fetched);
            fetch.state == FetchState::CaughtUp && is_loaded && load.state == LoadState::CaughtUp
        });
        // The fetcher writes the positions to the store when it ends.
        drop(loader);
    }

    /// Returns the segments for which a condition is true, as places in the model.
    fn places(&self, is_so: impl Fn(&Segment) -> bool) -> Vec<(LogId, usize)> {
        let of = |(log, segments): (&LogId, &Vec<Segment>)| {
            let places = (0..segments.len()).filter(|at| is_so(&segments[*at]));
            places.map(|at| (*log, at)).collect::<Vec<_>>()
        };
        self.logs.iter().flat_map(of).collect()
    }

    fn object(&self, log: LogId, first: u64) -> PathBuf {
        let name = ObjectName::Segment { node: self.node(), log, first: Sequence(first) };
        self.path("store").join(name.to_string())
    }

    fn lose(&mut self, at: u8) {
        let stored = self.places(|segment| segment.is_stored);
        let Some((log, at)) = stored.get(usize::from(at) % stored.len().max(1)) else { return };
        let segment = &mut self.logs.get_mut(log).unwrap()[*at];
        (segment.is_stored, segment.is_damaged) = (false, false);
        let first = segment.first;
        fs::remove_file(self.object(*log, first)).unwrap();
    }

    fn damage(&mut self, at: u8) {
        let stored = self.places(|segment| segment.is_stored && !segment.is_damaged);
        let Some((log, at)) = stored.get(usize::from(at) % stored.len().max(1)) else { return };
        self.logs.get_mut(log).unwrap()[*at].is_damaged = true;
        let path = self.object(*log, self.logs[log][*at].first);
        let mut bytes = fs::read(&path).unwrap();
        // The header is intact, so the machine is known. The footer is intact, so the last record is known.
        bytes[SEGMENT_HEADER_BYTES + 8] ^= 1;
        fs::write(&path, bytes).unwrap();
    }

    /// The last segment of a log stays, because no other machine knows how long the log is.
    fn lose_local(&mut self, at: u8) {
        let lasts: BTreeSet<_> =
            self.logs.values().filter_map(|log| log.last().map(|last| last.last)).collect();
        let local = self.places(|segment| segment.is_local && !lasts.contains(&segment.last));
        let Some((log, at)) = local.get(usize::from(at) % local.len().max(1)) else { return };
        let segment = &mut self.logs.get_mut(log).unwrap()[*at];
        segment.is_local = false;
        let name = SegmentName { first: Sequence(segment.first), state: SegmentState::Sealed };
        fs::remove_file(name.path(&self.path("log").join(log.to_string()))).unwrap();
    }

    /// Gives up the first missing records of the first log that waits for records.
    fn give_up(&self) {
        let account = SinkAccount::read(&self.sink()).unwrap();
        let found = self.database();
        let next = |log| account.position(log).map_or(Sequence::FIRST, |position| position.last.after(1));
        let waits = found.findings.iter().find_map(|finding| {
            let (log, first, last) = (finding.log?, finding.first?, finding.last?);
            let is_lost = matches!(finding.kind, AuditKind::Hole | AuditKind::Damaged);
            (is_lost && first == next(log)).then_some((log, first, last))
        });
        let Some((log, first, last)) = waits else { return };
        skip(&self.storage, &self.path("empty"), &self.sink(), log, (first, last)).unwrap();
    }

    fn with_store<T>(&self, audit: impl FnOnce(&AuditedStore<'_>) -> anyhow::Result<T>) -> T {
        let (store, dir, storage) = (self.store(), self.path("audit"), self.storage.clone());
        let name = "store".to_owned();
        audit(&AuditedStore { name, store: &store, storage, dir: &dir, bytes_max: 1 << 20 }).unwrap()
    }

    fn database(&self) -> SideAudit {
        self.with_store(|store| database::audit(store, &self.sink()))
    }

    fn web(&self) -> web::WebAudit {
        self.with_store(|store| web::audit(store, &self.path("log"), &self.node()))
    }

    /// Returns the last record of each log that the sink has passed, as it answered in the store.
    fn answered(&self, log: LogId) -> u64 {
        let store = self.store();
        let positions = tollgate_ship::positions_of(&store, log).unwrap();
        positions.get(SINK).map_or(0, |position| position.last.0)
    }

    /// Returns the counts that the web machine has to find.
    fn expected_of_web(&self) -> RecordCounts {
        let mut counts = RecordCounts::default();
        for (log, segments) in &self.logs {
            let position = self.answered(*log);
            for segment in segments {
                let count = match segment {
                    // The machine compares the identity of an object, and does not read the bytes.
                    Segment { is_local: true, is_stored: true, .. } => Count::Shipped,
                    Segment { is_stored: true, is_damaged: false, .. } => Count::Shipped,
                    Segment { is_local: true, .. } => Count::Unshipped,
                    _ => Count::Missing,
                };
                counts[Count::Answered] +=
                    Sequence(segment.first).count_to(Sequence(segment.last.min(position)));
                let begin = Sequence(segment.first.max(position + 1));
                counts[count] += begin.count_to(Sequence(segment.last));
            }
        }
        counts[Count::Ingested] = counts.accounted();
        counts
    }

    /// Returns the counts that the database machine has to find: those after its positions.
    fn expected_after(&self, position: impl Fn(LogId) -> u64) -> RecordCounts {
        let mut counts = RecordCounts::default();
        for (log, segments) in &self.logs {
            let (position, mut lost, mut is_broken) = (position(*log), 0, false);
            for segment in segments {
                let records = Sequence(segment.first.max(position + 1)).count_to(Sequence(segment.last));
                if segment.is_stored {
                    // A lost segment is known to be lost once the store has a later one.
                    counts[Count::Missing] += std::mem::take(&mut lost);
                }
                match segment {
                    Segment { is_stored: true, is_damaged: true, .. } => {
                        counts[Count::Missing] += records;
                        is_broken |= records > 0;
                    }
                    Segment { is_stored: true, .. } if is_broken => counts[Count::Shipped] += records,
                    Segment { is_stored: true, .. } => counts[Count::Pending] += records,
                    _ => {
                        lost += records;
                        is_broken |= records > 0;
                    }
                }
            }
        }
        counts
    }

    fn check(&self) {
        for (sink, found) in self.web() {
            assert!(found.closes(), "{sink:?} {found:?}");
            assert_eq!(found.sum(), self.expected_of_web(), "{sink:?} {found:?}");
        }
        let found = self.database();
        let account = SinkAccount::read(&self.sink()).unwrap();
        let position = |log| account.position(log).map_or(0, |position| position.last.0);
        let (sum, after) = (found.sum(), self.expected_after(position));
        assert!(found.closes(), "{found:?}");
        for count in [Count::Pending, Count::Shipped, Count::Missing] {
            assert_eq!(sum[count], after[count], "{count:?} {found:?}");
        }
        // A loader fills a gap if the store has its segment again, so the database says what is given up.
        let given_up = account.gaps().iter().map(|gap| gap.first.count_to(gap.last)).sum::<u64>();
        assert_eq!((sum[Count::GivenUp], sum[Count::Loaded]), (given_up, self.rows()), "{found:?}");
        assert!(
            fs::read_dir(self.path("audit"))
                .unwrap()
                .all(|log| { fs::read_dir(log.unwrap().path()).unwrap().next().is_none() })
        );
    }

    fn rows(&self) -> u64 {
        let path = self.path("rows.sqlite");
        if !path.exists() {
            return 0;
        }
        let connection = rusqlite::Connection::open(path).unwrap();
        let count = |table: &str| {
            let is_there = connection.table_exists(None, table).unwrap();
            let question = format!("SELECT count(*) FROM {table}");
            if is_there {
                connection.query_row(&question, [], |row| row.get::<_, i64>(0)).unwrap()
            } else {
                0
            }
        };
        u64::try_from(count("even") + count("odd")).unwrap()
    }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the number of series: `TOLLGATE_AUDIT_CASES`, or few.
fn cases() -> u32 {
    std::env::var("TOLLGATE_AUDIT_CASES").map_or(24, |cases| cases.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn the_accounts_of_both_machines_add_up_after_each_step(steps in steps()) {
        let mut site = Site::new();
        for step in &steps {
            site.run(step);
            site.check();
        }
    }
}

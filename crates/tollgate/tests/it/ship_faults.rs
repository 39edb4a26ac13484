//! A store that misbehaves in every known way, between a machine that ships and a machine that loads. No
//! record is lost or doubled, and no step waits for a person.
//!
//! All choices of a run follow from its seed. `make ship-crash` makes many more runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tollgate_load::{LoadOptions, Loader, RefusedLogs, SinkKind, SinkOptions};
use tollgate_log::{
    Column, ColumnOrigin, ColumnType, DiskStorage, Level, Log, LogEvent, LogId, LogOptions, OpenError,
    Schema, SchemaId, Sequence, Value, read_footer, segments,
};
use tollgate_ship::{
    Created, DeleteRule, FetchOptions, FetchTuning, Fetcher, LISTED_MAX, NodeName, ObjectHead,
    SegmentIdentity, ShipOptions, ShipTuning, ShippedLogs, Shipper, Store, StoreError, StoreRetain,
};

use crate::crash::{Random, seed};
use crate::program::eventually;

/// Number of runs, unless `TOLLGATE_SHIP_RUNS` sets it.
const RUNS: u64 = 300;
/// Maximum number of calls that may be faulty. After them the store no longer misbehaves.
const FAULTY_CALLS_MAX: u64 = 400;

#[derive(Clone)]
struct Object {
    bytes: Vec<u8>,
    identity: Option<SegmentIdentity>,
}

struct State {
    objects: BTreeMap<String, Object>,
    random: Random,
    /// Number of further calls that may be faulty.
    faulty_calls: u64,
    /// Whether creating an object with an existing name replaces the object, as in some stores.
    ignores_conditions: bool,
    /// Number of faults of each kind.
    faults: BTreeMap<&'static str, u64>,
}

/// A store in memory that misbehaves.
#[derive(Clone)]
struct FaultyStore(Arc<Mutex<State>>);

/// The fault of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The call fails and has no effect.
    Refused,
    /// The call has its effect, and then fails.
    ResponseLost,
    /// A fault that only this kind of call can have.
    Special,
}

impl FaultyStore {
    fn new(mut random: Random) -> Self {
        let (faulty_calls, ignores_conditions) = (random.below(FAULTY_CALLS_MAX), random.below(4) == 0);
        let (objects, faults) = (BTreeMap::new(), BTreeMap::new());
        Self(Arc::new(Mutex::new(State { objects, random, faulty_calls, ignores_conditions, faults })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Draws the fault of the next call.
    fn draw(state: &mut State) -> Fault {
        if state.faulty_calls == 0 {
            return Fault::None;
        }
        state.faulty_calls -= 1;
        match state.random.below(8) {
            0 => Fault::Refused,
            1 => Fault::ResponseLost,
            2 => Fault::Special,
            _ => Fault::None,
        }
    }

    fn put(&self, name: &str, object: Object, is_create: bool) -> Result<Created, StoreError> {
        let mut state = self.lock();
        let fault = Self::draw(&mut state);
        if fault == Fault::Refused {
            return Err(failed(&mut state, "a write is refused", name));
        }
        // S3 answers 409 while another write runs.
        if fault == Fault::Special && is_create {
            count(&mut state, "a name that has no object is taken");
            return Ok(Created::Exists);
        }
        if is_create && state.objects.contains_key(name) && !state.ignores_conditions {
            return Ok(Created::Exists);
        }
        state.objects.insert(name.to_owned(), object);
        match fault {
            Fault::ResponseLost => Err(failed(&mut state, "the response of a write is lost", name)),
            _ => Ok(Created::Stored),
        }
    }

    fn get(&self, name: &str) -> Result<Option<Object>, StoreError> {
        let mut state = self.lock();
        match Self::draw(&mut state) {
            Fault::Refused | Fault::ResponseLost => Err(failed(&mut state, "a read fails", name)),
            Fault::Special => {
                count(&mut state, "an object is not found");
                Ok(None)
            }
            Fault::None => Ok(state.objects.get(name).cloned()),
        }
    }

    /// Damages or deletes an object that is stored.
    fn damage(&self) {
        let mut state = self.lock();
        let names: Vec<_> = state.objects.keys().filter(|name| name.ends_with(".seg")).cloned().collect();
        if names.is_empty() {
            return;
        }
        let at = state.random.below(names.len() as u64) as usize;
        if state.random.below(2) == 0 {
            state.objects.remove(&names[at]);
            count(&mut state, "an object is lost");
        } else {
            let bit = state.random.below(1 << 20);
            let object = state.objects.get_mut(&names[at]).unwrap();
            let place = bit as usize % (object.bytes.len() * 8);
            object.bytes[place / 8] ^= 1 << (place % 8);
            count(&mut state, "a bit flips at rest");
        }
    }
}

fn count(state: &mut State, fault: &'static str) {
    *state.faults.entry(fault).or_default() += 1;
}

fn failed(state: &mut State, fault: &'static str, name: &str) -> StoreError {
    count(state, fault);
    StoreError::call("reach", name)(std::io::Error::other(fault))
}

impl Store for FaultyStore {
    fn create(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<Created, StoreError> {
        let bytes = fs::read(file).map_err(StoreError::file("read", file))?;
        self.put(name, Object { bytes, identity: Some(identity.clone()) }, true)
    }

    fn replace(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<(), StoreError> {
        let bytes = fs::read(file).map_err(StoreError::file("read", file))?;
        self.put(name, Object { bytes, identity: Some(identity.clone()) }, false).map(drop_created)
    }

    fn put_text(&self, name: &str, text: &str) -> Result<(), StoreError> {
        self.put(name, Object { bytes: text.as_bytes().to_vec(), identity: None }, false).map(drop_created)
    }

    fn head(&self, name: &str) -> Result<Option<ObjectHead>, StoreError> {
        let found = self.get(name)?;
        Ok(found.map(|object| ObjectHead {
            bytes: object.bytes.len() as u64,
            modified_ms: 0,
            identity: object.identity,
        }))
    }

    fn text(&self, name: &str, _: u64) -> Result<Option<String>, StoreError> {
        Ok(self.get(name)?.map(|object| String::from_utf8_lossy(&object.bytes).into_owned()))
    }

    fn fetch(&self, name: &str, file: &Path, _: u64) -> Result<Option<u64>, StoreError> {
        let Some(mut object) = self.get(name)? else { return Ok(None) };
        let mut state = self.lock();
        match Self::draw(&mut state) {
            Fault::None => {}
            // The part that arrived before the fault stays in the file.
            Fault::Refused => {
                let half = &object.bytes[..object.bytes.len() / 2];
                fs::write(file, half).map_err(StoreError::file("write", file))?;
                return Err(failed(&mut state, "a body ends early with an error", name));
            }
            Fault::ResponseLost => {
                let length = state.random.below(object.bytes.len() as u64);
                object.bytes.truncate(length as usize);
                count(&mut state, "a body ends early without an error");
            }
            Fault::Special => {
                let at = state.random.below(object.bytes.len() as u64 * 8) as usize;
                object.bytes[at / 8] ^= 1 << (at % 8);
                count(&mut state, "a bit flips on the way");
            }
        }
        fs::write(file, &object.bytes).map_err(StoreError::file("write", file))?;
        Ok(Some(object.bytes.len() as u64))
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let mut state = self.lock();
        let fault = Self::draw(&mut state);
        if fault == Fault::Refused {
            return Err(failed(&mut state, "a delete is refused", name));
        }
        state.objects.remove(name);
        match fault {
            Fault::ResponseLost => Err(failed(&mut state, "the response of a delete is lost", name)),
            _ => Ok(()),
        }
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let mut state = self.lock();
        let fault = Self::draw(&mut state);
        let names = state.objects.keys().filter(|name| name.starts_with(prefix));
        let mut names: Vec<_> =
            names.filter(|name| after.is_none_or(|after| name.as_str() > after)).cloned().collect();
        names.truncate(LISTED_MAX);
        match fault {
            Fault::Refused | Fault::ResponseLost => Err(failed(&mut state, "a list fails", prefix)),
            Fault::Special => {
                // A list may lack a new name, and may have a deleted name.
                count(&mut state, "a list is stale");
                names.pop();
                names.push(format!("{prefix}stray"));
                Ok(names)
            }
            Fault::None => Ok(names),
        }
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let mut state = self.lock();
        if Self::draw(&mut state) != Fault::None {
            return Err(failed(&mut state, "a list of folders fails", prefix));
        }
        let rests = state.objects.keys().filter_map(|name| name.strip_prefix(prefix));
        let mut folders: Vec<_> = rests.filter_map(|rest| Some(rest.split_once('/')?.0.to_owned())).collect();
        folders.dedup();
        Ok(folders)
    }
}

fn drop_created(_: Created) {}

/// The last record of each log that the shipping machine may delete.
#[derive(Clone, Default)]
struct Confirmed(Arc<Mutex<BTreeMap<LogId, Sequence>>>);

impl ShippedLogs for Confirmed {
    fn live(&self) -> Option<LogId> {
        None
    }

    fn confirm(&self, log: LogId, last: Sequence) {
        self.0.lock().unwrap().insert(log, last);
    }

    fn is_room_tight(&self) -> bool {
        false
    }
}

/// One run: a machine with logs, a store, and a machine with a database.
struct Run {
    folder: TempDir,
    store: FaultyStore,
    random: Random,
    confirmed: Confirmed,
    rows: u64,
    /// Whether segments are deleted from the store as soon as the sink has them.
    deletes_loaded: bool,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let store = FaultyStore::new(Random(random.below(u64::MAX)));
        let (folder, confirmed) = (TempDir::new().unwrap(), Confirmed::default());
        let deletes_loaded = random.below(2) == 0;
        let mut run = Self { folder, store, random, confirmed, rows: 0, deletes_loaded };
        for _ in 0..=run.random.below(2) {
            run.write_log();
        }
        run
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a log in several segments. Its rows continue the numbers of the previous log.
    fn write_log(&mut self) {
        let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
        let schema = Schema::new("a", vec![column]).unwrap();
        let dir = self.path("log");
        let options = LogOptions { segment_bytes_max: 1, node: "web".to_owned(), ..LogOptions::new(&dir) };
        let on_event = |event: &LogEvent| assert!(!matches!(event, LogEvent::Failed(_)), "{event:?}");
        // A process that another test starts has a copy of the lock until it executes its program.
        let log = eventually("the lock is free", || {
            match Log::open(Arc::new(DiskStorage), options.clone(), vec![schema.clone()], on_event) {
                Err(OpenError::Locked(_)) => None,
                opened => Some(opened.unwrap().0),
            }
        });
        let mut appender = log.appender(|| {});
        for _ in 0..=self.random.below(4) {
            let count = 1 + self.random.below(5);
            let first = self.rows;
            self.rows += count;
            let (appended, result) = appender
                .append(Level::Synced, |rows| {
                    (first..first + count).try_for_each(|n| {
                        rows.row(SchemaId(0), |row| row.push(Value::Int(n.try_into().unwrap())))
                    })
                })
                .unwrap();
            result.unwrap();
            eventually("the writer takes a batch", || appender.hand_over().then_some(()));
            let appended = appended.unwrap();
            eventually("it is written", || appender.reached(appended, Level::Written).map(drop));
        }
        drop(appender);
        log.close().unwrap();
    }

    fn start_shipper(&self) -> Shipper {
        let ms = Duration::from_millis;
        let tuning = ShipTuning {
            look: ms(1),
            poll: ms(2),
            heartbeat: ms(20),
            backoff_min: ms(1),
            backoff_max: ms(4),
            object_bytes_max: u64::MAX,
        };
        let options = ShipOptions {
            name: "main".to_owned(),
            dir: self.path("log"),
            node: NodeName::encode("web").unwrap(),
            delete: DeleteRule::Loaded { sinks: vec!["main".to_owned()] },
            tuning,
        };
        let (store, logs) = (Box::new(self.store.clone()), Box::new(self.confirmed.clone()));
        Shipper::start(options, Arc::new(DiskStorage), store, logs).unwrap()
    }

    fn start_fetcher(&self) -> Fetcher {
        let ms = Duration::from_millis;
        let tuning = FetchTuning {
            poll: ms(1),
            list: ms(1),
            gap_patience: ms(3),
            answer: ms(2),
            retain: ms(3),
            backoff_min: ms(1),
            backoff_max: ms(4),
        };
        let options = FetchOptions {
            spool: self.path("spool"),
            spool_bytes_max: u64::MAX,
            segment_bytes_max: 1 << 20,
            // A store from which a segment is deleted as soon as the sink has it.
            retain: StoreRetain { age: self.deletes_loaded.then_some(Duration::ZERO), sinks: None },
            tuning,
        };
        let sink = self.sink();
        let positions = Box::new(move || {
            Ok([(sink.name.clone(), sink.positions()?.unwrap_or_default())].into_iter().collect())
        });
        Fetcher::start(options, Arc::new(DiskStorage), Arc::new(self.store.clone()), positions).unwrap()
    }

    fn start_loader(&self) -> Loader {
        let mut options = LoadOptions::new(self.path("spool"), self.sink());
        options.refused = RefusedLogs::Wait;
        options.tuning.poll = Duration::from_millis(1);
        options.tuning.backoff_min = Duration::from_millis(1);
        Loader::start_beside(options, Arc::new(DiskStorage), None).unwrap()
    }

    fn sink(&self) -> SinkOptions {
        SinkOptions::new("main", SinkKind::Sqlite { path: self.path("app.db") })
    }

    /// Returns the numbers in the database, sorted.
    fn loaded(&self) -> Vec<u64> {
        let Ok(database) = Connection::open(self.path("app.db")) else { return Vec::new() };
        database.busy_timeout(Duration::from_secs(300)).unwrap();
        let Ok(mut ask) = database.prepare("SELECT n FROM a ORDER BY n") else { return Vec::new() };
        let rows = ask.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        rows.map(|n| n.unwrap().try_into().unwrap()).collect()
    }

    /// Returns the last record of each log.
    fn ends(&self) -> BTreeMap<LogId, Sequence> {
        let logs = tollgate_log::log_ids(&DiskStorage, &self.path("log")).unwrap();
        let end = |log: LogId| {
            let paths = segments(&DiskStorage, &self.path("log"), log).unwrap();
            let (_, path) = paths.last().unwrap();
            (log, read_footer(&DiskStorage, path).unwrap().unwrap().last)
        };
        logs.into_iter().map(end).collect()
    }

    fn run(&mut self) {
        let (mut shipper, mut fetcher) = (self.start_shipper(), self.start_fetcher());
        let mut loader = self.start_loader();
        for _ in 0..self.random.below(6) {
            match self.random.below(4) {
                0 => {
                    drop(shipper);
                    shipper = self.start_shipper();
                }
                // A new fetcher empties the folder. A loader that read it meanwhile could take a later
                // segment for the beginning of a log. So the program starts its loaders after the fetcher.
                1 => {
                    drop((loader, fetcher));
                    fetcher = self.start_fetcher();
                    loader = self.start_loader();
                }
                2 => {
                    drop(loader);
                    loader = self.start_loader();
                }
                _ => self.store.damage(),
            }
            std::thread::sleep(Duration::from_micros(self.random.below(3_000)));
        }
        let expected: Vec<_> = (0..self.rows).collect();
        eventually("all is loaded", || (self.loaded().len() >= expected.len()).then_some(()));
        assert!(self.loaded() == expected, "{:?}", self.loaded());
        let ends = self.ends();
        eventually("all may be deleted", || (*self.confirmed.0.lock().unwrap() == ends).then_some(()));
        drop((shipper, fetcher, loader));
        assert!(self.loaded() == expected, "{:?}", self.loaded());
        let database = Connection::open(self.path("app.db")).unwrap();
        let count = |table: &str| {
            database
                .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        assert_eq!((count("tollgate_rejects"), count("tollgate_gaps")), (0, 0));
    }
}

#[test]
fn a_store_that_misbehaves_in_every_way_costs_no_record_and_doubles_none() {
    let runs = std::env::var("TOLLGATE_SHIP_RUNS").map_or(RUNS, |runs| runs.parse().unwrap());
    let mut random = Random(seed());
    let mut faults = BTreeMap::<_, u64>::new();
    for at in 0..runs {
        let seed = random.below(u64::MAX);
        println!("run {at}, seed {seed}");
        let mut run = Run::new(seed);
        run.run();
        for (fault, count) in &run.store.lock().faults {
            *faults.entry(*fault).or_default() += count;
        }
    }
    println!("{faults:#?}");
    assert!(runs < RUNS || faults.len() >= 13, "every kind of fault occurred: {faults:#?}");
}

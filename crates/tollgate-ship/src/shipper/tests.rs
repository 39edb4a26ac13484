//! Tests with real logs and folders. Each sealed segment is in the store byte for byte, and no record is
//! confirmed before that.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tollgate_log::DiskStorage;

use super::*;
use crate::answer::{EndAnswer, PositionAnswer, WantAnswer};
use crate::folder::FolderStore;
use crate::name::NodeName;
use crate::options::{DeleteRule, ShipTuning};
use crate::pace::Pacer;
use crate::store::{Created, ObjectHead};
use crate::testing::{PATIENCE, eventually, files, write_log};

/// Stand-in for the log, with the confirmations of a target.
#[derive(Clone, Default)]
struct Reported {
    confirmed: Arc<Mutex<BTreeMap<LogId, Sequence>>>,
    live: Arc<Mutex<Option<LogId>>>,
    is_room_tight: Arc<Mutex<bool>>,
}

impl Reported {
    fn of(&self, log: LogId) -> Option<u64> {
        self.confirmed.lock().unwrap().get(&log).map(|last| last.0)
    }
}

impl ShippedLogs for Reported {
    fn live(&self) -> Option<LogId> {
        *self.live.lock().unwrap()
    }

    fn confirm(&self, log: LogId, last: Sequence) {
        self.confirmed.lock().unwrap().insert(log, last);
    }

    fn is_room_tight(&self) -> bool {
        *self.is_room_tight.lock().unwrap()
    }
}

/// A machine with logs, and a folder as its store.
struct Site {
    folder: TempDir,
    reported: Reported,
    delete: DeleteRule,
    object_bytes_max: u64,
}

impl Site {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("store")).unwrap();
        let (reported, delete) = (Reported::default(), DeleteRule::Shipped);
        Self { folder, reported, delete, object_bytes_max: u64::MAX }
    }

    fn dir(&self) -> std::path::PathBuf {
        self.folder.path().join("log")
    }

    fn store_folder(&self) -> std::path::PathBuf {
        self.folder.path().join("store")
    }

    fn store(&self) -> FolderStore {
        FolderStore::new(self.store_folder(), Arc::new(Pacer::new(None)))
    }

    fn node() -> NodeName {
        NodeName::encode("web 1").unwrap()
    }

    fn write_log(&self, rows: i64) -> LogId {
        write_log(&self.dir(), "web 1", rows)
    }

    fn start_with(&self, store: impl Store + 'static) -> Shipper {
        let tuning = ShipTuning {
            look: Duration::from_millis(5),
            poll: Duration::from_millis(5),
            heartbeat: Duration::from_millis(5),
            backoff_min: Duration::from_millis(1),
            backoff_max: Duration::from_millis(10),
            object_bytes_max: self.object_bytes_max,
        };
        let options = ShipOptions {
            name: "main".to_owned(),
            dir: self.dir(),
            node: Self::node(),
            delete: self.delete.clone(),
            tuning,
        };
        let logs = Box::new(self.reported.clone());
        Shipper::start(options, Arc::new(DiskStorage), Box::new(store), logs).unwrap()
    }

    fn start(&self) -> Shipper {
        self.start_with(self.store())
    }

    fn local(&self, log: LogId) -> BTreeMap<String, Vec<u8>> {
        files(&self.dir().join(log.to_string()), "sealed")
    }

    fn stored(&self, log: LogId) -> BTreeMap<String, Vec<u8>> {
        files(&self.store_folder().join(format!("v1/seg/web%201/{log}")), "seg")
    }

    /// Writes a text. The shipper may remove the empty folder of the name meanwhile: then the write fails and
    /// is repeated, as by every writer.
    fn put(&self, name: &ObjectName, text: &str) {
        eventually("the text is written", || self.store().put_text(&name.to_string(), text).is_ok());
    }
}

#[test]
fn every_sealed_segment_is_stored_byte_for_byte_and_then_confirmed() {
    let site = Site::new();
    let (older, newer) = (site.write_log(60), site.write_log(5));
    assert!(site.local(older).len() > 2, "{}", site.local(older).len());
    let shipper = site.start();
    let watch = shipper.watch();
    assert!(shipper.finish(PATIENCE));
    for (log, rows) in [(older, 60), (newer, 5)] {
        assert_eq!(site.stored(log), site.local(log));
        assert_eq!(site.reported.of(log), Some(rows));
        let end = site.store().text(&ObjectName::End(log).to_string(), 100).unwrap().unwrap();
        assert_eq!(EndAnswer::parse(&end), Some(EndAnswer { node: Site::node(), last: Sequence(rows) }));
    }
    let status = watch.status();
    let count = (site.local(older).len() + site.local(newer).len()) as u64;
    assert_eq!((status.segments, status.unshipped_segments, status.faults.len()), (count, 0, 0));
    assert_eq!(status.state, ShipState::Ended);
}

#[test]
fn a_second_run_sends_nothing_again() {
    let site = Site::new();
    let log = site.write_log(30);
    assert!(site.start().finish(PATIENCE));
    let shipper = site.start();
    let watch = shipper.watch();
    assert!(shipper.finish(PATIENCE));
    let status = watch.status();
    assert_eq!((status.segments, status.present_segments), (0, site.local(log).len() as u64));
    assert_eq!(site.reported.of(log), Some(30));
}

#[test]
fn a_log_that_another_machine_writes_too_stays_here_and_the_others_leave() {
    let site = Site::new();
    let (forked, other) = (site.write_log(30), site.write_log(30));
    let first = format!("{:020}", 1);
    let twin = site.store_folder().join(format!("v1/seg/web%201/{forked}"));
    fs::create_dir_all(&twin).unwrap();
    fs::write(twin.join(format!("{first}.seg")), &site.local(other)[&first]).unwrap();
    let shipper = site.start();
    let watch = shipper.watch();
    eventually("the other log is confirmed", || site.reported.of(other) == Some(30));
    let status = watch.status();
    assert!(
        matches!(status.faults.get(&forked), Some(LogFault::Forked { first: Sequence(1), .. })),
        "{status:?}"
    );
    assert_eq!(site.stored(other), site.local(other));
    // The last pass visits the forked log again.
    assert!(!shipper.finish(PATIENCE));
    assert_eq!((site.stored(forked).len(), site.reported.of(forked)), (1, None));
}

#[test]
fn the_end_of_the_own_log_is_noted_once_its_owner_closed_it() {
    let site = Site::new();
    let log = site.write_log(5);
    *site.reported.live.lock().unwrap() = Some(log);
    let shipper = site.start();
    let end = || site.store().text(&ObjectName::End(log).to_string(), 100).unwrap();
    eventually("all is confirmed", || site.reported.of(log) == Some(5));
    assert_eq!(end(), None);
    assert!(shipper.finish(PATIENCE));
    let expected = EndAnswer { node: Site::node(), last: Sequence(5) };
    assert_eq!(EndAnswer::parse(&end().unwrap()), Some(expected));
}

#[test]
fn shipping_once_names_what_is_sent_what_is_lacking_and_what_is_unsound() {
    let site = Site::new();
    let log = site.write_log(30);
    let count = site.local(log).len();
    let unsound = site.dir().join(log.to_string()).join(format!("{:020}.sealed", 31));
    fs::write(&unsound, "no segment").unwrap();
    let ship = |is_dry_run| {
        let mut outcomes = Vec::new();
        let report = |visited: &ShipOnce| outcomes.push(visited.outcome.clone());
        ship_once(&DiskStorage, &site.dir(), &Site::node(), &site.store(), is_dry_run, report).unwrap();
        outcomes
    };
    let expected = |outcome: OnceOutcome| {
        let mut all = vec![outcome; count];
        all.push(OnceOutcome::Unsound);
        all
    };
    assert_eq!(ship(true), expected(OnceOutcome::Lacking));
    assert_eq!(site.stored(log).len(), 0);
    assert_eq!(ship(false), expected(OnceOutcome::Sent(Sent::Stored)));
    assert_eq!(site.stored(log).len(), count);
    assert_eq!(ship(false), expected(OnceOutcome::Sent(Sent::Present)));
    assert_eq!(ship(true), expected(OnceOutcome::Sent(Sent::Present)));
}

#[test]
fn a_target_that_keeps_up_is_not_behind_and_one_that_fails_is() {
    let site = Site::new();
    let is_away = Arc::new(Mutex::new(true));
    site.write_log(30);
    let shipper = site.start_with(Away { store: site.store(), is_away: is_away.clone() });
    let watch = shipper.watch();
    eventually("several calls fail", || watch.status().errors > 2);
    let status = watch.status();
    assert!(status.failing_since.is_some() && status.behind_since.is_some(), "{status:?}");
    *is_away.lock().unwrap() = false;
    eventually("it is caught up", || watch.status().state == ShipState::CaughtUp);
    let status = watch.status();
    assert!(status.failing_since.is_none() && status.behind_since.is_none(), "{status:?}");
    assert!(status.active_at.is_some_and(|at| at.elapsed() < PATIENCE));
}

#[test]
fn a_segment_too_large_for_the_store_stays_here_and_the_others_leave() {
    let mut site = Site::new();
    let log = site.write_log(30);
    let largest = site.local(log).values().map(Vec::len).max().unwrap();
    site.object_bytes_max = largest as u64 - 1;
    let shipper = site.start();
    let watch = shipper.watch();
    eventually("it is named", || watch.status().faults.contains_key(&log));
    eventually("all others are stored", || {
        site.stored(log).len() == site.local(log).values().filter(|file| file.len() < largest).count()
    });
    assert!(site.reported.of(log).is_none_or(|last| last < 30));
}

#[test]
fn a_segment_that_a_loader_asks_for_is_stored_again() {
    let site = Site::new();
    let log = site.write_log(30);
    let shipper = site.start();
    eventually("all is confirmed", || site.reported.of(log) == Some(30));
    let lost = site.store_folder().join(format!("v1/seg/web%201/{log}/{:020}.seg", 1));
    fs::remove_file(&lost).unwrap();
    let want = ObjectName::Want { log, first: Sequence(1) };
    let gone = ObjectName::Want { log, first: Sequence(2) };
    site.put(&want, WantAnswer::Wanted.to_text());
    site.put(&gone, WantAnswer::Wanted.to_text());
    eventually("it is stored again", || site.store().text(&want.to_string(), 100).unwrap().is_none());
    assert_eq!(site.stored(log), site.local(log));
    let answer = || site.store().text(&gone.to_string(), 100).unwrap().unwrap();
    eventually("the other one is answered", || answer() == WantAnswer::Gone.to_text());
    drop(shipper);
}

#[test]
fn a_log_is_deletable_only_as_far_as_every_named_sink_has_it() {
    let mut site = Site::new();
    site.delete = DeleteRule::Loaded { sinks: vec!["one".to_owned(), "two".to_owned()] };
    let log = site.write_log(30);
    let _shipper = site.start();
    eventually("it is shipped", || site.stored(log) == site.local(log));
    let place = |sink: &str| ObjectName::Position { sink: sink.to_owned(), log };
    let answer =
        |last| PositionAnswer::now(tollgate_log::Position { last: Sequence(last), chain: None }).to_text();
    site.put(&place("one"), &answer(30));
    eventually("nothing is confirmed", || site.reported.of(log) == Some(0));
    site.put(&place("two"), &answer(7));
    eventually("the smaller one counts", || site.reported.of(log) == Some(7));
    *site.reported.is_room_tight.lock().unwrap() = true;
    eventually("room comes first", || site.reported.of(log) == Some(30));
    *site.reported.is_room_tight.lock().unwrap() = false;
    eventually("the answer counts again", || site.reported.of(log) == Some(7));
}

#[test]
fn a_segment_that_the_store_deleted_after_all_sinks_had_it_is_not_stored_again() {
    let mut site = Site::new();
    site.delete = DeleteRule::Loaded { sinks: vec!["main".to_owned()] };
    let log = site.write_log(30);
    let position = tollgate_log::Position { last: Sequence(30), chain: None };
    let place = ObjectName::Position { sink: "main".to_owned(), log };
    site.put(&place, &PositionAnswer::now(position).to_text());
    let shipper = site.start();
    let watch = shipper.watch();
    eventually("all is confirmed", || site.reported.of(log) == Some(30));
    assert!(shipper.finish(PATIENCE));
    assert_eq!((watch.status().segments, site.stored(log).len()), (0, 0));
}

#[test]
fn another_machine_of_the_same_name_is_found() {
    let site = Site::new();
    *site.reported.live.lock().unwrap() = Some(LogId::random());
    fs::create_dir_all(site.dir()).unwrap();
    let shipper = site.start();
    let name = ObjectName::Node(Site::node());
    eventually("it reports itself", || site.store().text(&name.to_string(), 1_000).unwrap().is_some());
    let (other, watch) = (LogId::random(), shipper.watch());
    let text = format!("log {other}\nat_ms 1\nevery_ms 1\nunshipped_segments 0\nunshipped_bytes 0\n");
    site.put(&name, &text);
    eventually("the other one is named", || {
        // The machine may replace the other report by its own before it has read the other one.
        if watch.status().namesake.is_none() {
            site.put(&name, &text);
        }
        watch.status().namesake == Some(other)
    });
}

#[test]
fn a_store_that_is_away_holds_up_no_stop() {
    let site = Site::new();
    let log = site.write_log(5);
    let store = Away { store: site.store(), is_away: Arc::new(Mutex::new(true)) };
    let shipper = site.start_with(store);
    let (begun, watch) = (Instant::now(), shipper.watch());
    assert!(!shipper.finish(PATIENCE));
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert_eq!((watch.status().state, site.stored(log).len()), (ShipState::Ended, 0));
}

/// A folder as a store whose calls fail while `is_away` is true.
struct Away {
    store: FolderStore,
    is_away: Arc<Mutex<bool>>,
}

impl Away {
    fn check(&self, name: &str) -> Result<(), StoreError> {
        match *self.is_away.lock().unwrap() {
            true => Err(StoreError::call("reach", name)(std::io::Error::other("it is away"))),
            false => Ok(()),
        }
    }
}

impl Store for Away {
    fn create(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<Created, StoreError> {
        // The response of the first successful call for each object is lost.
        let created = self.store.create(name, file, identity)?;
        if created == Created::Stored {
            return Err(StoreError::call("store", name)(std::io::Error::other("the response is lost")));
        }
        Ok(created)
    }

    fn replace(&self, name: &str, file: &Path, identity: &SegmentIdentity) -> Result<(), StoreError> {
        self.store.replace(name, file, identity)
    }

    fn put_text(&self, name: &str, text: &str) -> Result<(), StoreError> {
        self.store.put_text(name, text)
    }

    fn head(&self, name: &str) -> Result<Option<ObjectHead>, StoreError> {
        self.check(name)?;
        self.store.head(name)
    }

    fn text(&self, name: &str, bytes_max: u64) -> Result<Option<String>, StoreError> {
        self.store.text(name, bytes_max)
    }

    fn fetch(&self, name: &str, file: &Path, bytes_max: u64) -> Result<Option<u64>, StoreError> {
        self.store.fetch(name, file, bytes_max)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.store.remove(name)
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        self.store.list(prefix, after)
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.store.folders(prefix)
    }
}

#[test]
fn a_store_that_is_away_is_waited_for_and_nothing_is_confirmed() {
    let site = Site::new();
    let log = site.write_log(30);
    let is_away = Arc::new(Mutex::new(true));
    let shipper = site.start_with(Away { store: site.store(), is_away: is_away.clone() });
    let watch = shipper.watch();
    eventually("it retries", || watch.status().state == ShipState::Retrying);
    let error = watch.status().last_error.unwrap();
    assert!(error.contains("it is away"), "{error}");
    assert_eq!((site.reported.of(log), site.stored(log).len()), (None, 0));
    *is_away.lock().unwrap() = false;
    eventually("all is confirmed", || site.reported.of(log) == Some(30));
    assert_eq!(site.stored(log), site.local(log));
    assert_eq!(watch.status().faults.len(), 0, "a lost response is no fork");
}

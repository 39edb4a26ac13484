//! Tests of leases in an SQLite database. The tests with PostgreSQL are in the crate of the program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tempfile::TempDir;
use tollgate_log::LogId;

use super::*;
use crate::sink::{LeaseName, LeaseScope, LeaseTable, SinkKind, SinkOptions};

const PATIENCE: Duration = Duration::from_secs(300);

/// A database whose loader has created the bookkeeping.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { folder: TempDir::new().unwrap() };
        drop(site.sink("main").open().unwrap());
        site
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("app.db")
    }

    fn sink(&self, name: &str) -> SinkOptions {
        SinkOptions::new(name, SinkKind::Sqlite { path: self.path() })
    }

    fn leases(&self, store: &str, holder: &str) -> Box<dyn LeaseTable> {
        let scope = LeaseScope { store: store.to_owned(), holder: holder.to_owned() };
        self.sink("main").open_leases(scope).unwrap()
    }

    fn start(&self, holder: &str) -> LeaseKeeper {
        let options = LeaseOptions { store: "s".to_owned(), holder: holder.to_owned(), may_delete: true };
        LeaseKeeper::start(&[self.sink("main")], options).unwrap()
    }

    fn change(&self, sql: &str) {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection.execute_batch(sql).unwrap();
    }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a condition is true. Meanwhile the fetchers of the loaders offer the logs in each pass.
fn eventually_offering(what: &str, keepers: &[&LeaseKeeper], logs: &[LogId], is_so: impl Fn() -> bool) {
    eventually(what, || {
        keepers.iter().for_each(|keeper| keeper.watch().offer(offer(logs)));
        is_so()
    });
}

fn offer(logs: &[LogId]) -> BTreeMap<LogId, LogOffer> {
    logs.iter().map(|log| (*log, LogOffer::Idle)).collect()
}

#[test]
fn a_lease_has_one_holder_until_it_ends_by_the_clock_of_the_database() {
    let site = Site::new();
    let name = LeaseName::Log(LogId::random());
    let names = [name.clone()].into();
    let (mut one, mut other) = (site.leases("s", "one"), site.leases("s", "other"));
    assert_eq!(one.take(&names).unwrap(), names);
    assert_eq!(one.take(&names).unwrap(), names, "it is renewed");
    assert!(other.take(&names).unwrap().is_empty());
    let live = other.live().unwrap();
    assert_eq!((live.len(), &live[0].name, &*live[0].holder), (1, &name, "one"));
    assert!(live[0].left > Duration::from_secs(20) && live[0].left <= Duration::from_secs(30));
    other.release(&names).unwrap();
    assert_eq!(one.live().unwrap().len(), 1, "another loader ends no lease");
    assert_eq!(site.leases("another store", "other").take(&names).unwrap(), names);
    // An `until` in the past has ended. One in the far future means that the clock was set back.
    for moved in ["- 31", "+ 1e9"] {
        site.change(&format!("UPDATE tollgate_leases SET until = until {moved}"));
        assert!(one.live().unwrap().is_empty(), "{moved}");
        assert_eq!(other.take(&names).unwrap(), names, "{moved}");
        assert!(one.take(&names).unwrap().is_empty(), "{moved}");
        std::mem::swap(&mut one, &mut other);
    }
    one.release(&names).unwrap();
    assert!(one.live().unwrap().is_empty());
}

#[test]
fn a_lease_is_taken_while_a_load_holds_the_lock_of_the_database_nearly_always() {
    let site = Site::new();
    let names = [LeaseName::Retain].into();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let connection = Connection::open(site.path()).unwrap();
            connection.busy_timeout(PATIENCE).unwrap();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                connection.execute_batch("BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS t (n)").unwrap();
                thread::sleep(Duration::from_millis(20));
                connection.execute_batch("COMMIT").unwrap();
            }
        });
        let taken = site.leases("s", "one").take(&names);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(taken.unwrap(), names);
    });
}

#[test]
fn two_loaders_share_the_logs_and_the_one_that_stays_gets_all() {
    let site = Site::new();
    let logs: Vec<_> = (0..6).map(|_| LogId::random()).collect();
    let (one, other) = (site.start("one"), site.start("other"));
    let count = |keeper: &LeaseKeeper| logs.iter().filter(|log| keeper.watch().may_fetch(**log)).count();
    one.watch().offer(offer(&logs));
    assert_eq!(count(&one), 6, "the first offer waits for the leases");
    other.watch().offer(offer(&logs));
    let is_over = || count(&one) == 3 && count(&other) == 3;
    eventually_offering("both have their share", &[&one, &other], &logs, is_over);
    let is_shared = |log: &&LogId| one.watch().holds(**log) != other.watch().holds(**log);
    assert_eq!(logs.iter().filter(is_shared).count(), 6, "no log has two holders");
    assert_eq!((one.watch().status().loaders, other.watch().status().loaders), (2, 2));
    assert!(one.watch().may_delete() && !other.watch().may_delete(), "one of them deletes");
    drop(one);
    eventually("the other one has all", || count(&other) == 6 && other.watch().may_delete());
}

#[test]
fn a_loader_that_is_killed_and_started_again_has_its_leases_at_once() {
    let site = Site::new();
    let logs = [LogId::random()];
    let mut killed = site.leases("s", "one");
    killed.take(&[LeaseName::Log(logs[0])].into()).unwrap();
    let (again, other) = (site.start("one"), site.start("other"));
    again.watch().offer(offer(&logs));
    other.watch().offer(offer(&logs));
    assert!(again.watch().may_fetch(logs[0]) && !other.watch().holds(logs[0]));
}

#[test]
fn a_dead_loader_loses_its_logs_when_its_leases_end() {
    let site = Site::new();
    let logs = [LogId::random(), LogId::random()];
    let names = [LeaseName::Log(logs[0]), LeaseName::Loader("dead".to_owned())].into();
    site.leases("s", "dead").take(&names).unwrap();
    let keeper = site.start("one");
    keeper.watch().offer(offer(&logs));
    assert!(keeper.watch().holds(logs[1]) && !keeper.watch().holds(logs[0]));
    assert_eq!(keeper.watch().status().taken[&logs[0]], "dead");
    site.change("UPDATE tollgate_leases SET until = until - 27 WHERE holder = 'dead'");
    eventually("it has both", || keeper.watch().may_fetch(logs[0]));
    assert_eq!(keeper.watch().status().loaders, 1);
}

#[test]
fn a_loader_that_cannot_fetch_or_that_another_one_overtook_ends_its_leases() {
    let site = Site::new();
    let logs = [LogId::random(), LogId::random()];
    let (one, other) = (site.start("one"), site.start("other"));
    one.watch().offer(offer(&logs));
    one.watch().lost("main", logs[0]);
    eventually("it is ended", || !one.watch().holds(logs[0]));
    other.watch().offer(offer(&logs));
    let count = |keeper: &LeaseKeeper| keeper.watch().status().logs.len();
    let is_shared = || count(&one) == 1 && count(&other) == 1;
    eventually_offering("each has one", &[&one, &other], &logs, is_shared);
    one.watch().pause();
    assert!(count(&one) == 0 && !one.watch().may_delete());
    eventually("the other has both", || other.watch().holds(logs[0]) && other.watch().holds(logs[1]));
    one.watch().offer(offer(&logs));
    eventually_offering("it is back", &[&one, &other], &logs, || count(&one) == 1);
}

#[test]
fn a_log_is_fetched_by_the_loader_that_the_first_sink_decides_on() {
    let site = Site::new();
    drop(site.sink("archive").open().unwrap());
    let logs: Vec<_> = (0..4).map(|_| LogId::random()).collect();
    let sinks = [site.sink("main"), site.sink("archive")];
    let options =
        |holder: &str| LeaseOptions { store: "s".to_owned(), holder: holder.to_owned(), may_delete: false };
    let one = LeaseKeeper::start(&sinks, options("one")).unwrap();
    let other = LeaseKeeper::start(&[sinks[1].clone(), sinks[0].clone()], options("other")).unwrap();
    one.watch().offer(offer(&logs));
    other.watch().offer(offer(&logs));
    let count = |keeper: &LeaseKeeper| keeper.watch().status().logs.len();
    let is_over = || count(&one) == 2 && count(&other) == 2;
    eventually_offering("both have their share", &[&one, &other], &logs, is_over);
    let connection = Connection::open(site.path()).unwrap();
    let question = "SELECT count(*) FROM (SELECT name FROM tollgate_leases WHERE name LIKE 'log %' \
         GROUP BY name HAVING count(DISTINCT holder) = 1 AND count(DISTINCT sink) = 2)";
    let both = || connection.query_row(question, [], |row| row.get::<_, i64>(0)).unwrap();
    eventually("each log has one holder in both sinks", || both() == 4);
}

#[test]
fn a_database_that_does_not_exist_yet_gives_no_lease_until_it_does() {
    let site = Site { folder: TempDir::new().unwrap() };
    let logs = [LogId::random()];
    let keeper = site.start("one");
    thread::scope(|scope| {
        scope.spawn(|| keeper.watch().offer(offer(&logs)));
        eventually("a turn failed", || keeper.watch().status().last_error.is_some());
        drop(site.sink("main").open().unwrap());
    });
    eventually("it has the lease", || keeper.watch().holds(logs[0]));
    assert_eq!(keeper.watch().status().last_error, None);
}

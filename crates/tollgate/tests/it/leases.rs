//! Leases of `tollgate load --from`: several loaders share the logs of a store and one PostgreSQL. Each
//! segment is fetched about once, and no fault of a loader loses or doubles a record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::clocks::{command, library};
use crate::cluster::shared;
use crate::load_from::{Fleet, database_machine};
use crate::postgres::numbers_of;
use crate::program::{App, BINARY, Following, eventually};
use crate::sinks::all;

/// Loaders of one store, each with its own folder of fetched segments.
struct Pool {
    fleet: Fleet,
    database: String,
    app: App,
    spools: TempDir,
}

impl Pool {
    /// Makes a store with `logs` logs of 3,000 records each.
    fn of(logs: usize) -> Self {
        let fleet = Fleet::of(logs);
        (0..logs)
            .for_each(|machine| fleet.run(machine, machine as u64 * 3_000..(machine as u64 + 1) * 3_000));
        let database = shared().database();
        let app = database_machine(&format!("postgres = \"{}\"", shared().url(&database)));
        Self { fleet, database, app, spools: TempDir::new().unwrap() }
    }

    fn spool(&self, loader: &str) -> PathBuf {
        self.spools.path().join(loader)
    }

    fn start(&self, loader: &str) -> Following {
        self.start_by(Command::new(BINARY), loader)
    }

    fn start_by(&self, mut program: Command, loader: &str) -> Following {
        program.args(["load", "--from", self.fleet.store(), "--spool"]).arg(self.spool(loader));
        self.app.follow_as(program)
    }

    /// Returns the state of a loader. `None`: it does not answer.
    fn status(&self, loader: &str) -> Option<Value> {
        let spool = self.spool(loader);
        let output = self.app.run(&["status", "--json", spool.to_str().unwrap()]);
        serde_json::from_slice(&output.stdout).ok()
    }

    fn fetch(&self, loader: &str) -> Value {
        eventually("the loader answers", || self.status(loader))["fetch"].clone()
    }

    fn leases(&self, loader: &str) -> u64 {
        self.status(loader).and_then(|status| status["fetch"]["leases"].as_u64()).unwrap_or_default()
    }

    /// Waits until each of the loaders has `count` leases.
    fn wait_for_leases(&self, loaders: &[&str], count: u64) {
        let have = |loader: &&str| self.leases(loader) == count;
        eventually("the logs are shared", || loaders.iter().all(have).then_some(()));
    }

    /// Returns the sum of the segments that the loaders fetched.
    fn fetched(&self, loaders: &[&str]) -> u64 {
        loaders.iter().map(|loader| self.fetch(loader)["segments"].as_u64().unwrap()).sum()
    }

    fn rows(&self) -> Vec<u64> {
        numbers_of(&self.database, "a")
    }

    fn wait_for_rows(&self, count: u64) {
        eventually("all records are rows", || (self.rows() == all(count)).then_some(()));
    }

    /// Ends the leases of all loaders except one, as if their time had passed.
    fn end_leases_except(&self, loader: &str) {
        let kept = format!(
            "SELECT holder FROM tollgate.leases WHERE name = 'loader ' || holder AND name LIKE '%{}'",
            self.file(loader)
        );
        let update = format!(
            "UPDATE tollgate.leases SET until = until - interval '31 s' WHERE holder <> ALL ({kept})"
        );
        shared().sql(&self.database, &update);
    }

    /// Returns the end of the id of a loader: the file that locks its folder.
    fn file(&self, loader: &str) -> String {
        use std::os::unix::fs::MetadataExt;
        let lock = fs::metadata(self.spool(loader).join("lock")).unwrap();
        format!("{:x}-{:x}", lock.dev(), lock.ino())
    }

    /// Takes all segments but the first of each log out of the store.
    fn hold_back(&self) -> HeldBack {
        let folder = TempDir::new_in(self.spools.path()).unwrap();
        let mut moved = Vec::new();
        let mut seen = BTreeMap::new();
        for path in self.fleet.segments() {
            if seen.insert(path.parent().map(Path::to_owned), ()).is_some() {
                let aside = folder.path().join(moved.len().to_string());
                fs::rename(&path, &aside).unwrap();
                moved.push((aside, path));
            }
        }
        assert!(!moved.is_empty(), "each log has several segments");
        HeldBack { _folder: folder, moved }
    }
}

/// Segments that are not in the store yet.
struct HeldBack {
    _folder: TempDir,
    moved: Vec<(PathBuf, PathBuf)>,
}

impl HeldBack {
    /// Puts the segments into the store, in the order of their names.
    fn release(self) {
        self.moved.iter().for_each(|(aside, path)| fs::rename(aside, path).unwrap());
    }
}

#[test]
fn three_loaders_share_the_logs_of_a_store_and_fetch_each_segment_about_once() {
    let pool = Pool::of(6);
    let held_back = pool.hold_back();
    let loaders = ["one", "two", "three"];
    let running = loaders.map(|loader| pool.start(loader));
    pool.wait_for_leases(&loaders, 2);
    held_back.release();
    pool.wait_for_rows(18_000);
    let (fetched, segments) = (pool.fetched(&loaders), pool.fleet.segments().len() as u64);
    assert!((segments..segments * 5 / 4).contains(&fetched), "{fetched} fetches of {segments} segments");
    for loader in loaders {
        let fetch = pool.fetch(loader);
        assert_eq!((fetch["loaders"].as_u64(), fetch["log_count"].as_u64()), (Some(3), Some(6)), "{fetch}");
    }
    let deletes = loaders.iter().filter(|loader| pool.fetch(loader)["deletes"] == true).count();
    assert_eq!(deletes, 1, "one loader deletes segments from the store");
    for loader in running {
        assert!(loader.end(Signal::TERM).0.success());
    }
    let left = shared().sql(&pool.database, "SELECT count(*) FROM tollgate.leases");
    assert_eq!(left, "0", "loaders that end release their leases");
}

#[test]
fn the_logs_of_a_killed_loader_are_loaded_by_the_other_one() {
    let pool = Pool::of(4);
    let held_back = pool.hold_back();
    let (killed, stays) = (pool.start("killed"), pool.start("stays"));
    pool.wait_for_leases(&["killed", "stays"], 2);
    killed.end(Signal::KILL);
    held_back.release();
    // The real time of a lease passes here.
    pool.wait_for_rows(12_000);
    pool.wait_for_leases(&["stays"], 4);
    assert!(stays.end(Signal::TERM).0.success());
}

#[test]
fn a_loader_that_was_frozen_for_longer_than_its_leases_doubles_and_loses_nothing() {
    let pool = Pool::of(4);
    let held_back = pool.hold_back();
    let (frozen, other) = (pool.start("frozen"), pool.start("other"));
    pool.wait_for_leases(&["frozen", "other"], 2);
    frozen.signal(Signal::STOP);
    pool.end_leases_except("other");
    pool.wait_for_leases(&["other"], 4);
    held_back.release();
    pool.wait_for_rows(12_000);
    frozen.signal(Signal::CONT);
    pool.wait_for_leases(&["frozen", "other"], 2);
    pool.fleet.run(0, 12_000..12_500);
    pool.wait_for_rows(12_500);
    for loader in [frozen, other] {
        let (status, log) = loader.end(Signal::TERM);
        assert!(status.success(), "{log}");
    }
    assert!(pool.rows() == all(12_500));
}

#[test]
fn a_loader_whose_clock_is_wrong_shares_the_logs_as_any_other() {
    let folder = TempDir::new().unwrap();
    let library = library(&folder);
    let pool = Pool::of(4);
    let held_back = pool.hold_back();
    let early = pool.start_by(command(&library, 1_000_000_000), "early");
    let late = pool.start_by(command(&library, 4_000_000_000), "late");
    pool.wait_for_leases(&["early", "late"], 2);
    held_back.release();
    pool.wait_for_rows(12_000);
    let (fetched, segments) = (pool.fetched(&["early", "late"]), pool.fleet.segments().len() as u64);
    assert!((segments..segments * 5 / 4).contains(&fetched), "{fetched} fetches of {segments} segments");
    drop((early, late));
}

#[test]
fn a_folder_of_fetched_segments_has_one_loader() {
    let pool = Pool::of(1);
    let _first = pool.start("same");
    eventually("it loads", || (pool.rows().len() == 3_000).then_some(()));
    let (status, log) = pool.start("same").wait();
    assert!(!status.success() && log.contains("another loader uses"), "{log}");
}

#[test]
fn a_command_that_ends_by_itself_waits_for_the_logs_of_other_loaders() {
    let pool = Pool::of(4);
    let held_back = pool.hold_back();
    let following = pool.start("following");
    pool.wait_for_leases(&["following"], 4);
    following.signal(Signal::STOP);
    held_back.release();
    let mut once = Command::new(BINARY);
    once.args(["load", "--once", "--from", pool.fleet.store(), "--spool"]).arg(pool.spool("once"));
    let once = pool.app.follow_as(once);
    let loaders = "SELECT count(*) FROM tollgate.leases WHERE name LIKE 'loader %'";
    eventually("both loaders are there", || (shared().sql(&pool.database, loaders) == "2").then_some(()));
    following.signal(Signal::CONT);
    let (status, log) = once.wait();
    assert!(status.success(), "{log}");
    assert!(pool.rows() == all(12_000), "it ended before all records were loaded: {log}");
    drop(following);
}

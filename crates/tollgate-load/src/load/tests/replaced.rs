//! Tests of a database whose files are removed or replaced while a loader has them open. In the end, all
//! records are in the database at the path.

use std::fs;
use std::os::unix::fs::symlink;

use rusqlite::OpenFlags;
use tollgate_log::{Follower, SinkPlace};

use super::*;

const MAIN: SinkPlace = SinkPlace(0);

/// A server that records and loads.
struct Serving {
    site: Site,
    log: Log,
    appender: Appender,
    follower: Follower,
}

impl Serving {
    fn new() -> Self {
        Self::with(LogOptions::new(Path::new("")))
    }

    fn with(options: LogOptions) -> Self {
        let site = Site::new();
        let log = site.open_log_with(LogOptions { dir: site.dir(), ..options }, vec![visits()]);
        let follower = log.sink_followers(1).remove(0);
        let appender = log.appender(|| {});
        Self { site, log, appender, follower }
    }

    fn loader(&self) -> Loader {
        self.loader_with(self.site.options())
    }

    fn loader_with(&self, options: LoadOptions) -> Loader {
        Loader::start(options, self.site.storage.clone(), Some(self.follower.clone())).unwrap()
    }

    fn record(&mut self, numbers: std::ops::Range<i64>) {
        for n in numbers {
            let appended = visit(&mut self.appender, n);
            // A segment is closed only between writes.
            eventually("it is written", || self.appender.reached(appended, Level::Written).is_some());
        }
    }

    /// Waits until the database at the path has rows with exactly these numbers.
    fn holds(&self, numbers: std::ops::Range<i64>) {
        let numbers: Vec<_> = numbers.collect();
        eventually(&format!("the database at the path holds {numbers:?}"), || {
            numbers_at(&self.site.database()).is_some_and(|found| found == numbers)
        });
    }

    /// Copies the database in its current state. Returns the path of the copy.
    fn copy(&self) -> PathBuf {
        let copy = self.site.folder.path().join("copy.db");
        self.site.connect().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
        copy
    }

    fn remove(&self, suffixes: &[&str]) {
        for suffix in suffixes {
            fs::remove_file(format!("{}{suffix}", self.site.database().display())).unwrap();
        }
    }

    /// Ends the server and the loader. Checks that everything is loaded and nothing is missing.
    fn end(self, loader: Loader) {
        let Self { site, log, appender, .. } = self;
        drop(appender);
        log.close().unwrap();
        loader.finish(PATIENCE).unwrap();
        for row in site.audit() {
            assert_eq!((row.pending, row.missing), (0, 0), "{row:?}");
        }
    }
}

/// Reads a database without creating one. Returns `None` if the database or its table does not exist.
fn numbers_at(path: &Path) -> Option<Vec<i64>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    let mut statement = connection.prepare("SELECT n FROM visits ORDER BY n").ok()?;
    statement.query_map([], |row| row.get(0)).ok()?.collect::<Result<_, _>>().ok()
}

const ALL: [&str; 3] = ["", "-wal", "-shm"];

#[test]
fn records_after_the_removal_of_the_database_are_in_the_new_one_with_all_kept_ones() {
    let mut serving = Serving::new();
    let loader = serving.loader();
    serving.record(0..3);
    serving.holds(0..3);
    serving.remove(&ALL);
    serving.record(3..6);
    serving.holds(0..6);
    let error = loader.status().last_error.unwrap();
    assert!(error.ends_with("app.db was removed or replaced while it was open"), "{error}");
    serving.end(loader);
}

#[test]
fn a_database_removed_while_nothing_is_recorded_comes_back_with_all_that_is_kept() {
    let mut serving = Serving::new();
    let loader = serving.loader();
    serving.record(0..3);
    serving.holds(0..3);
    serving.remove(&ALL);
    serving.holds(0..3);
    serving.end(loader);
}

#[test]
fn a_database_that_is_replaced_by_its_backup_goes_on_at_the_position_of_the_backup() {
    let mut serving = Serving::new();
    let loader = serving.loader();
    serving.record(0..3);
    serving.holds(0..3);
    let backup = serving.copy();
    serving.record(3..6);
    serving.holds(0..6);
    serving.remove(&["-wal", "-shm"]);
    fs::rename(backup, serving.site.database()).unwrap();
    serving.record(6..9);
    serving.holds(0..9);
    eventually("they are counted", || loader.status().rows >= 9);
    serving.end(loader);
}

#[test]
fn the_write_ahead_log_of_a_replaced_database_is_not_used_for_the_new_one() {
    let mut serving = Serving::new();
    let loader = serving.loader();
    serving.record(0..3);
    serving.holds(0..3);
    let backup = serving.copy();
    serving.record(3..600);
    serving.holds(0..600);
    Connection::open(&backup).unwrap().execute_batch("DELETE FROM visits WHERE n = 1; VACUUM").unwrap();
    fs::rename(backup, serving.site.database()).unwrap();
    serving.record(600..603);
    let wanted: Vec<_> = (0..603).filter(|n| *n != 1).collect();
    eventually("the new one has the rest", || {
        numbers_at(&serving.site.database()).is_some_and(|found| found == wanted)
    });
    assert_eq!(serving.site.ask::<String>("PRAGMA integrity_check"), "ok");
    assert!(fs::exists(format!("{}-wal.left", serving.site.database().display())).unwrap());
    drop((loader, serving.appender));
    serving.log.close().unwrap();
}

#[test]
fn a_write_ahead_log_that_is_removed_alone_is_noticed() {
    for gone in [&["-wal"][..], &["-shm"], &["-wal", "-shm"]] {
        let mut serving = Serving::new();
        let loader = serving.loader();
        serving.record(0..3);
        serving.holds(0..3);
        serving.remove(gone);
        serving.record(3..6);
        eventually("it is noticed", || loader.status().last_error.is_some());
        serving.holds(0..6);
        serving.end(loader);
    }
}

#[test]
fn a_link_that_leads_to_another_database_is_followed_there() {
    let mut serving = Serving::new();
    let place = |name: &str| serving.site.folder.path().join(name);
    let [one, two, link] = ["one.db", "two.db", "link"].map(place);
    symlink(&one, serving.site.database()).unwrap();
    let loader = serving.loader();
    serving.record(0..3);
    serving.holds(0..3);
    symlink(&two, &link).unwrap();
    fs::rename(&link, serving.site.database()).unwrap();
    serving.record(3..6);
    serving.holds(0..6);
    assert_eq!(numbers_at(&two).unwrap().len(), 6);
    assert_eq!(numbers_at(&one).unwrap().len(), 3);
    serving.end(loader);
}

#[test]
fn a_database_put_back_while_nothing_is_recorded_is_loaded_again() {
    let mut serving = Serving::new();
    let loader = serving.loader();
    serving.record(0..6);
    serving.holds(0..6);
    let back = "BEGIN; DELETE FROM visits WHERE n >= 3; DELETE FROM tollgate_counts; DELETE FROM tollgate_positions; \
         DELETE FROM visits; COMMIT";
    serving.site.connect().execute_batch(back).unwrap();
    serving.holds(0..6);
    serving.end(loader);
}

#[test]
fn a_commit_into_a_file_that_was_removed_is_none() {
    let site = Site::new();
    let log = site.write_visits(0..3);
    let gap = Gap { first: Sequence(1), last: Sequence(3), reason: "test".to_owned() };
    let mut sink = site.sink().open().unwrap();
    sink.begin(log, None).unwrap();
    sink.gap(&gap).unwrap();
    fs::remove_file(site.database()).unwrap();
    let commit = sink.commit(Position { last: gap.last, chain: None });
    assert!(matches!(commit, Err(SinkError::Moved { .. })), "{commit:?}");
    sink.rollback();
    assert!(matches!(sink.begin(log, None), Err(SinkError::Moved { .. })));
    assert!(matches!(sink.is_changed(), Err(SinkError::Moved { .. })));
}

#[test]
fn replies_wait_until_the_database_at_the_path_has_their_records() {
    for from in [LoadFrom::Oldest, LoadFrom::Now] {
        let mut serving = Serving::new();
        let mut options = serving.site.options();
        options.sink.from = from;
        let loader = serving.loader_with(options);
        eventually("it loads", || loader.status().state == LoadState::CaughtUp);
        for n in 0..20 {
            if n % 5 == 4 {
                serving.remove(&ALL);
            }
            let fill = |transaction: &mut tollgate_log::Transaction<'_>| {
                transaction.row(SchemaId(0), |row| row.push(Value::Int(n))).unwrap();
            };
            let (appended, ()) = serving.appender.append_awaited(MAIN, fill).unwrap();
            hand_over(&mut serving.appender);
            let appended = appended.unwrap();
            eventually("it is told", || {
                serving.appender.take_settled().iter().any(|settled| settled.covers(appended))
            });
            assert!(numbers_at(&serving.site.database()).unwrap().contains(&n), "{n} is told and not there");
        }
        serving.end(loader);
    }
}

#[test]
fn deleted_records_that_a_replaced_database_lacks_are_a_named_gap() {
    let options = LogOptions::new(Path::new(""));
    let mut serving =
        Serving::with(LogOptions { retain: Duration::ZERO, segment_bytes_max: 4 << 10, ..options });
    let loader = serving.loader();
    serving.record(0..10);
    serving.holds(0..10);
    let backup = serving.copy();
    serving.record(10..200);
    serving.holds(0..200);
    let (dir, log) = (serving.site.dir(), serving.log.id());
    let names = || segments(&DiskStorage, &dir, log).unwrap();
    eventually("most is deleted", || names().first().is_some_and(|(name, _)| name.first.0 > 50));
    serving.remove(&["-wal", "-shm"]);
    fs::rename(backup, serving.site.database()).unwrap();
    eventually("it is named", || loader.status().missing > 0);
    serving.record(200..210);
    eventually("all is loaded", || {
        numbers_at(&serving.site.database()).is_some_and(|all| all.contains(&209))
    });
    let missing: u64 = serving.site.audit().iter().map(|row| row.missing).sum();
    assert_eq!(missing, loader.status().missing);
    assert_eq!(serving.site.numbers().len() as u64, 210 - missing);
    drop((loader, serving.appender));
    serving.log.close().unwrap();
}

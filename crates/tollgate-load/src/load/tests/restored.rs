//! Tests of restored databases: kept records are loaded again, and deleted records are reported as a gap.

use std::fs;

use super::*;

impl Site {
    /// Runs a server that records these numbers, loads them, and deletes the loaded segments.
    fn serve_and_delete(&self, numbers: std::ops::Range<i64>) -> LogId {
        let options =
            LogOptions { retain: Duration::ZERO, segment_bytes_max: 4 << 10, ..LogOptions::new(&self.dir()) };
        let log = self.open_log_with(options, vec![visits()]);
        let loader =
            Loader::start(self.options(), self.storage.clone(), log.sink_followers(1).pop()).unwrap();
        let mut appender = log.appender(|| {});
        let count = numbers.clone().count() as u64;
        for n in numbers {
            visit(&mut appender, n);
        }
        eventually("all is loaded", || loader.status().rows >= count);
        let id = log.id();
        drop(appender);
        log.close().unwrap();
        loader.finish(PATIENCE).unwrap();
        id
    }

    /// Runs a server that deletes the remaining segments of earlier runs.
    fn delete_rest(&self, log: LogId) {
        let options = LogOptions { retain: Duration::ZERO, ..LogOptions::new(&self.dir()) };
        let run = self.open_log_with(options, vec![visits()]);
        let loader =
            Loader::start(self.options(), self.storage.clone(), run.sink_followers(1).pop()).unwrap();
        eventually("the log is gone", || !self.dir().join(log.to_string()).exists());
        run.close().unwrap();
        loader.finish(PATIENCE).unwrap();
    }

    fn back_up(&self) {
        self.connect().execute("VACUUM INTO ?1", [self.backup().to_str().unwrap()]).unwrap();
    }

    fn put_back(&self) {
        for suffix in ["-wal", "-shm"] {
            drop(fs::remove_file(format!("{}{suffix}", self.database().display())));
        }
        fs::copy(self.backup(), self.database()).unwrap();
    }

    fn backup(&self) -> PathBuf {
        self.folder.path().join("backup.db")
    }

    fn gaps(&self) -> Vec<String> {
        let connection = self.connect();
        let mut statement = connection
            .prepare(
                "SELECT log || ' ' || first || '-' || last || ' ' || reason FROM tollgate_gaps ORDER BY log",
            )
            .unwrap();
        let gaps = statement.query_map([], |row| row.get(0)).unwrap();
        gaps.map(Result::unwrap).collect()
    }

    fn missing(&self) -> u64 {
        self.audit().iter().map(|row| row.missing).sum()
    }
}

#[test]
fn a_database_restored_to_before_logs_that_are_wholly_deleted_names_them_as_gaps() {
    let site = Site::new();
    let first = site.serve_and_delete(0..100);
    site.back_up();
    let second = site.serve_and_delete(100..150);
    site.delete_rest(first);
    site.delete_rest(second);
    let third = site.serve_and_delete(150..160);
    assert_eq!(site.missing(), 0);
    site.put_back();
    assert_eq!(site.missing(), 50, "also before a loader named it");
    let status = site.load();
    assert_eq!((status.rows, status.missing), (10, 50), "what is kept is loaded again");
    let reason = "deleted before the database was put back";
    assert_eq!(site.gaps(), [format!("{second} 1-50 {reason}")]);
    assert_eq!(site.missing(), 50);
    assert_eq!(site.numbers(), (0..100).chain(150..160).collect::<Vec<_>>());
    assert!(site.dir().join(third.to_string()).exists());
    site.load();
    assert_eq!((site.missing(), site.gaps().len()), (50, 1), "it is named once");
}

#[test]
fn a_database_restored_to_the_middle_of_a_log_that_is_wholly_deleted_names_the_rest() {
    let site = Site::new();
    let log = site.write_visits(0..200);
    let mut options = site.options();
    options.tuning.chunk_rows_max = 30;
    // The loader is stopped after its first chunk.
    let loader = Loader::start(options, site.storage.clone(), None).unwrap();
    eventually("some is loaded", || loader.status().commits > 0);
    drop(loader);
    site.back_up();
    let loaded = site.numbers().len() as u64;
    assert!(loaded > 0);
    site.load();
    site.delete_rest(log);
    site.put_back();
    assert_eq!(site.missing(), 200 - loaded);
    assert_eq!(site.load().missing, 200 - loaded);
    assert_eq!(site.missing(), 200 - loaded);
}

#[test]
fn a_database_restored_to_before_a_log_names_the_deleted_beginning_of_it() {
    let site = Site::new();
    site.write_visits(0..10);
    site.load();
    site.back_up();
    let options =
        LogOptions { retain: Duration::ZERO, segment_bytes_max: 4 << 10, ..LogOptions::new(&site.dir()) };
    let log = site.open_log_with(options, vec![visits()]);
    let loader = Loader::start(site.options(), site.storage.clone(), log.sink_followers(1).pop()).unwrap();
    let mut appender = log.appender(|| {});
    for n in 10..210 {
        let appended = visit(&mut appender, n);
        eventually("it is written", || appender.reached(appended, Level::Written).is_some());
    }
    let names = || segments(&*site.storage, &site.dir(), log.id()).unwrap();
    eventually("its beginning is deleted", || names().first().is_some_and(|(name, _)| name.first.0 > 50));
    drop(appender);
    let id = log.id();
    drop(loader);
    log.close().unwrap();
    site.put_back();
    let begin = segments(&*site.storage, &site.dir(), id).unwrap()[0].0.first.0;
    assert_eq!(site.load().missing, begin - 1);
    assert_eq!(site.missing(), begin - 1);
    assert!(site.gaps()[0].starts_with(&format!("{id} 1-{} deleted", begin - 1)), "{:?}", site.gaps());
}

#[test]
fn a_log_that_differs_from_the_one_in_the_database_is_missing_in_the_account() {
    let site = Site::new();
    let log = site.write_visits(0..30);
    site.load();
    site.write_visits(30..40);
    site.load();
    assert_eq!(site.missing(), 0);
    // Two machines continued from the same state, one of them from a snapshot. The records that they wrote
    // have the same numbers, but differ.
    let other_way = format!("UPDATE tollgate_positions SET last = 25, chain = 12345 WHERE log = '{log}'");
    site.connect().execute_batch(&other_way).unwrap();
    assert_eq!(site.load().stopped_logs.len(), 1);
    assert_eq!(site.missing(), 30);
    let rows = site.audit();
    assert_eq!(rows.iter().map(|row| row.loaded).sum::<u64>(), 10, "the other log is accounted for");
}

#[test]
fn a_sink_that_is_new_misses_nothing_of_what_was_deleted_before_it() {
    let site = Site::new();
    let log = site.serve_and_delete(0..100);
    site.delete_rest(log);
    fs::remove_file(site.database()).unwrap();
    site.write_visits(100..110);
    assert_eq!(site.missing(), 0);
    for _ in 0..2 {
        assert_eq!(site.load().missing, 0);
        assert_eq!((site.missing(), site.numbers().len()), (0, 10));
    }
}

#[test]
fn a_log_that_was_deleted_and_comes_back_fills_its_gap() {
    let site = Site::new();
    site.write_visits(0..10);
    site.load();
    site.back_up();
    let log = site.write_visits(10..60);
    let (folder, away) = (site.dir().join(log.to_string()), site.folder.path().join("away"));
    fs::create_dir(&away).unwrap();
    for (name, path) in segments(&*site.storage, &site.dir(), log).unwrap() {
        fs::copy(path, name.path(&away)).unwrap();
    }
    site.load();
    site.delete_rest(log);
    site.put_back();
    assert_eq!(site.load().missing, 50);
    fs::rename(&away, &folder).unwrap();
    assert_eq!(site.load().filled, 50);
    assert_eq!((site.missing(), site.gaps().len()), (0, 0));
    assert_eq!(site.numbers(), (0..60).collect::<Vec<_>>());
}

//! Tests of retention: only loaded segments are deleted, and the account stays exact.

use std::fs;

use super::*;

/// A process run that deletes segments as soon as they are loaded.
struct Run {
    log: Log,
    loader: Loader,
}

impl Run {
    fn start(site: &Site) -> Self {
        let options =
            LogOptions { segment_bytes_max: 4 << 10, retain: Duration::ZERO, ..LogOptions::new(&site.dir()) };
        let log = site.open_log_with(options, vec![visits()]);
        let loader =
            Loader::start(site.options(), site.storage.clone(), log.sink_followers(1).pop()).unwrap();
        Self { log, loader }
    }

    fn finish(self) -> LoadStatus {
        self.log.close().unwrap();
        self.loader.finish(PATIENCE).unwrap()
    }
}

fn segments_of(site: &Site, log: LogId) -> usize {
    segments(&*site.storage, &site.dir(), log).unwrap().len()
}

fn folder(site: &Site, log: LogId) -> PathBuf {
    site.dir().join(log.to_string())
}

/// Checks that the retainer deletes no segment after the loader has visited all logs.
fn check_nothing_goes(site: &Site, run: &Run, log: LogId) {
    let before = segments_of(site, log);
    let is_begun = |state| !matches!(state, LoadState::Loading | LoadState::Opening);
    eventually("the loader looked at the logs", || is_begun(run.loader.status().state));
    wait_for_retainer(&run.log);
    assert_eq!(segments_of(site, log), before);
    assert!(before > 0);
}

#[test]
fn loaded_segments_go_and_the_account_is_the_same_without_them() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    assert!(segments_of(&site, log) > 3);
    let run = Run::start(&site);
    eventually("the log is gone", || !folder(&site, log).exists());
    assert_eq!(site.numbers(), (0..500).collect::<Vec<_>>());
    run.finish();
    for _ in 0..2 {
        let rows = site.audit();
        let row = only_row(&rows);
        assert_eq!((row.log, row.ingested, row.loaded, row.missing), (log, 500, 500, 0));
        Run::start(&site).finish();
    }
}

#[test]
fn the_account_is_exact_while_the_rest_of_a_log_is_pending() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    site.load();
    let half = only_row(&site.audit()).loaded / 2;
    // The database is now as after a loader that has loaded only half of the log. The loaded segments are
    // deleted.
    let connection = site.connect();
    connection.execute("DELETE FROM visits WHERE seq > ?1", [half.cast_signed()]).unwrap();
    connection
        .execute("UPDATE tollgate_positions SET last = ?1, chain = NULL", [half.cast_signed()])
        .unwrap();
    connection.execute("UPDATE tollgate_counts SET loaded = ?1", [half.cast_signed()]).unwrap();
    let names = segments(&*site.storage, &site.dir(), log).unwrap();
    for window in names.windows(2).filter(|window| window[1].0.first.0 <= half) {
        fs::remove_file(&window[0].1).unwrap();
    }
    assert!(segments_of(&site, log) < names.len());
    let rows = site.audit();
    let row = only_row(&rows);
    assert_eq!((row.ingested, row.pending, row.loaded, row.missing), (500, 500 - half, half, 0));
}

#[test]
fn records_that_the_sink_lost_in_deleted_segments_are_missing() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    site.load();
    fs::remove_dir_all(folder(&site, log)).unwrap();
    site.connect().execute("UPDATE tollgate_counts SET loaded = loaded - 7", []).unwrap();
    let rows = site.audit();
    let unknown = rows.iter().find(|row| row.stream == STREAM_UNKNOWN).unwrap();
    assert_eq!((unknown.ingested, unknown.missing), (7, 7));
}

#[test]
fn an_account_with_more_than_the_log_ever_gave_does_not_add_up() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    site.load();
    site.connect().execute("UPDATE tollgate_counts SET loaded = loaded + 7", []).unwrap();
    for is_deleted in [false, true] {
        if is_deleted {
            fs::remove_dir_all(folder(&site, log)).unwrap();
        }
        let rows = audit(&DiskStorage, &site.dir(), &site.sink()).unwrap().rows;
        let row = only_row(&rows);
        assert_eq!((row.ingested, row.loaded), (500, 507), "deleted: {is_deleted}");
    }
}

#[test]
fn a_log_is_kept_when_the_position_belongs_to_another_copy_of_it() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    site.load();
    site.connect().execute("UPDATE tollgate_positions SET chain = chain + 1", []).unwrap();
    let run = Run::start(&site);
    check_nothing_goes(&site, &run, log);
    run.finish();
}

#[test]
fn a_log_is_kept_when_it_ends_before_its_position() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    site.load();
    site.connect().execute("UPDATE tollgate_positions SET last = last + 100", []).unwrap();
    let run = Run::start(&site);
    check_nothing_goes(&site, &run, log);
    run.finish();
}

#[test]
fn a_log_that_the_sink_cannot_take_is_kept() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    let lock = site.connect();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let run = Run::start(&site);
    check_nothing_goes(&site, &run, log);
    lock.execute_batch("ROLLBACK").unwrap();
    eventually("the log is gone", || !folder(&site, log).exists());
    run.finish();
    assert_eq!(site.numbers(), (0..500).collect::<Vec<_>>());
}

#[test]
fn a_live_log_is_deleted_behind_the_loader_and_loses_nothing() {
    let site = Site::new();
    let run = Run::start(&site);
    let mut appender = run.log.appender(|| {});
    for n in 0..2000 {
        let appended = visit(&mut appender, n);
        if n % 20 == 0 {
            eventually("it is written", || appender.reached(appended, Level::Written).is_some());
        }
    }
    drop(appender);
    let log = run.log.id();
    eventually("some segments are gone", || {
        segments(&*site.storage, &site.dir(), log).unwrap().first().is_some_and(|(name, _)| name.first.0 > 1)
    });
    let status = run.finish();
    assert_eq!((status.rows, status.missing), (2000, 0));
    assert_eq!(site.numbers(), (0..2000).collect::<Vec<_>>());
    assert_eq!(only_row(&site.audit()).ingested, 2000);
    // The next run deletes the remaining segments and the folder.
    let next = Run::start(&site);
    eventually("the log is gone", || !folder(&site, log).exists());
    next.finish();
    assert_eq!(only_row(&site.audit()).ingested, 2000);
}

#[test]
fn one_load_and_what_it_leaves_to_tidy_fit_into_the_reserve() {
    let tuning = LoadTuning::default();
    let bytes = |reserve_bytes| {
        let within = tuning.within(reserve_bytes);
        (within.chunk_bytes_max, within.tidy_bytes)
    };
    assert_eq!(bytes(1 << 30), (tuning.chunk_bytes_max, tuning.tidy_bytes));
    assert_eq!(bytes(8 << 20), (1 << 20, 2 << 20));
    assert_eq!(bytes(0), (1, 0));
}

//! Tests of sinks that cannot be opened or were changed. Their loaders wait, and continue without a restart.

use super::*;

/// Starts a loader, and waits until its last error contains `told`. Then calls `mend`, and waits until all
/// ten rows are loaded.
fn check_standing(site: &Site, told: &str, mend: impl FnOnce()) {
    site.write_visits(0..10);
    let mut options = site.options();
    options.tuning.backoff_max = Duration::from_millis(50);
    let loader = Loader::start(options, site.storage.clone(), None).unwrap();
    eventually("it is told", || loader.status().last_error.is_some());
    let error = loader.status().last_error.unwrap();
    assert!(error.contains(told), "{told:?} in {error:?}");
    mend();
    eventually("all is loaded", || loader.status().rows == 10);
}

#[test]
fn a_sink_that_replies_wait_for_is_tried_again_sooner() {
    let site = Site { is_deep: true, ..Site::new() };
    let folder = site.database().parent().unwrap().to_owned();
    std::fs::write(&folder, "no folder").unwrap();
    site.write_visits(0..10);
    let mut options = site.options();
    options.sink.is_awaited = true;
    (options.tuning.backoff_min, options.tuning.backoff_max) = (Duration::from_millis(1), Duration::MAX);
    options.tuning.backoff_awaited_max = Duration::from_millis(20);
    let loader = Loader::start(options, site.storage.clone(), None).unwrap();
    // Without the shorter limit, this wait is only reached after the waits before it.
    eventually("the limit is reached", || loader.status().backoff == Duration::from_millis(20));
    std::fs::remove_file(&folder).unwrap();
    eventually("all is loaded", || loader.status().rows == 10);
}

#[test]
fn a_folder_that_cannot_be_made_is_told_and_made_when_it_can_be() {
    let site = Site { is_deep: true, ..Site::new() };
    let folder = site.database().parent().unwrap().to_owned();
    std::fs::write(&folder, "no folder").unwrap();
    check_standing(&site, "cannot create folder ", || std::fs::remove_file(&folder).unwrap());
    assert_eq!(site.numbers().len(), 10);
}

#[test]
fn a_file_to_run_after_loads_that_is_away_or_wrong_is_told_and_read_again() {
    let mut site = Site::new();
    let file = site.folder.path().join("after.sql");
    site.after_load = Some(file.clone());
    check_standing(&site, "after.sql after a load", || std::fs::write(&file, "SELECT 1").unwrap());
    assert_eq!(site.numbers().len(), 10);
    let mut site = Site::new();
    std::fs::write(&file, "SELEC 1").unwrap();
    site.after_load = Some(file.clone());
    check_standing(&site, "syntax error", || std::fs::write(&file, "SELECT 1").unwrap());
    assert_eq!(site.numbers().len(), 10);
}

#[test]
fn bookkeeping_of_a_later_version_is_left_alone_and_told() {
    let site = Site::new();
    site.write_visits(0..5);
    site.load();
    assert_eq!(site.ask::<i64>("SELECT version FROM tollgate_meta"), 1);
    site.connect().execute_batch("UPDATE tollgate_meta SET version = 7; DROP TABLE tollgate_ticks").unwrap();
    let told = "app.db is of version 7, this program knows version 1";
    let error = audit(&DiskStorage, &site.dir(), &site.sink()).unwrap_err();
    assert!(tollgate_log::join_chain(&error).contains(told), "{error}");
    check_standing(&site, told, || {
        assert!(!site.connect().table_exists(None, "tollgate_ticks").unwrap(), "nothing is made");
        site.connect().execute_batch("UPDATE tollgate_meta SET version = 1").unwrap();
    });
}

#[test]
fn tables_of_a_build_that_knew_no_version_are_of_the_first() {
    let site = Site::new();
    site.write_visits(0..5);
    site.load();
    site.connect().execute_batch("DROP TABLE tollgate_meta; DROP TABLE tollgate_refusals").unwrap();
    assert_eq!(only_row(&site.audit()).loaded, 5);
    site.write_visits(5..9);
    site.load();
    assert_eq!(site.numbers(), (0..9).collect::<Vec<_>>());
    assert_eq!(site.ask::<i64>("SELECT version FROM tollgate_meta"), 1);
}

#[test]
fn a_stream_that_does_not_fit_its_table_is_found_without_a_trace() {
    let site = Site::new();
    let check = |schema: Schema| declared(site.sink(), [schema]).check().map_err(|error| error.to_string());
    assert_eq!(check(visits()), Ok(()));
    assert!(!site.database().exists(), "nothing is made");
    site.connect().execute_batch("CREATE TABLE visits (n TEXT)").unwrap();
    let error = check(visits()).unwrap_err();
    assert!(error.contains("column \"n\" of table \"visits\" is TEXT, the stream has int"), "{error}");
    assert!(!site.connect().table_exists(None, "tollgate_columns").unwrap(), "nothing is made");
    let site = Site::new();
    site.write_visits(0..1);
    site.load();
    let retyped = Schema::new("visits", vec![column("path", ColumnType::Timestamp)]).unwrap();
    let error = declared(site.sink(), [retyped]).check().unwrap_err();
    assert!(error.is_of_configuration(), "{error}");
    let text = error.to_string();
    assert!(text.contains("column \"path\" of table \"visits\" is text, the stream has timestamp"), "{text}");
}

#[test]
fn a_sink_with_other_streams_goes_on_with_its_position_and_connection() {
    let site = Site::new();
    let opened = Arc::new(AtomicUsize::new(0));
    let counter = opened.clone();
    let open = Box::new(move |sink: &SinkOptions| {
        counter.fetch_add(1, Ordering::SeqCst);
        sink.open()
    });
    let mut options = site.options();
    options.tuning.poll = Duration::from_millis(20);
    options.sink.taken = Taken::Only(["others".to_owned()].into());
    let loader = Loader::start_with(options.clone(), site.storage.clone(), None, open).unwrap();
    site.write_visits(0..10);
    eventually("it passed the records", || loader.status().commits > 0);
    assert!(!site.connect().table_exists(None, "visits").unwrap());
    options.sink.taken = Taken::All;
    loader.change(options.sink.clone());
    site.write_visits(10..20);
    eventually("the others are loaded", || loader.status().rows == 10);
    assert_eq!(site.numbers(), (10..20).collect::<Vec<_>>());
    assert_eq!(opened.load(Ordering::SeqCst), 1, "one connection for both");
    options.sink.after_load = Some(site.folder.path().join("after.sql"));
    std::fs::write(site.folder.path().join("after.sql"), "CREATE TABLE IF NOT EXISTS after_it (x)").unwrap();
    loader.change(options.sink);
    site.write_visits(20..30);
    eventually("the rest is loaded", || loader.status().rows == 20);
    assert!(site.connect().table_exists(None, "after_it").unwrap(), "the file ran");
    assert!(site.audit().iter().all(|row| row.missing == 0));
}

#[test]
fn a_sink_that_waits_takes_its_change_at_once() {
    let mut site = Site::new();
    let file = site.folder.path().join("after.sql");
    std::fs::write(&file, "SELEC 1").unwrap();
    site.after_load = Some(file);
    site.write_visits(0..10);
    // The loader tries again only after half a minute, which is longer than this test waits.
    let loader = site.start();
    eventually("it stopped", || loader.status().state == LoadState::Stopped);
    site.after_load = None;
    loader.change(site.sink());
    eventually("all is loaded", || loader.status().rows == 10);
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
fn a_file_that_is_no_database_is_told_and_loaded_into_once_it_is_away() {
    let site = Site::new();
    std::fs::write(site.database(), "not a database, but long enough to be looked at: ".repeat(100)).unwrap();
    site.write_visits(0..5);
    let loader = site.start();
    eventually("it is told", || loader.status().last_error.is_some());
    let text = loader.status().last_error.unwrap();
    assert!(text.contains("app.db") && text.contains("not a database"), "{text}");
    std::fs::remove_file(site.database()).unwrap();
    eventually("all is loaded", || loader.status().rows == 5);
}

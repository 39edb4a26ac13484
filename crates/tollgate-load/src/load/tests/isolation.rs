//! Tests that the fault of one log does not stop a sink: the log is named, and the other logs are loaded.

#[path = "../../../../tollgate-log/tests/log/forge.rs"]
mod forge;

use std::fs;

use super::*;
use forge::Forged;

/// Writes two logs of ten visits each. Returns the older one.
fn two_logs(site: &Site) -> LogId {
    let older = site.write_visits(0..10);
    site.write_visits(10..20);
    older
}

fn only_segment(site: &Site, log: LogId) -> PathBuf {
    let mut paths = segments(&*site.storage, &site.dir(), log).unwrap();
    assert_eq!(paths.len(), 1);
    paths.remove(0).1
}

/// Loads until the loader has visited all logs, with any result.
fn load_what_can_be(site: &Site) -> LoadStatus {
    let loader = site.start();
    let is_over =
        |status: &LoadStatus| status.state == LoadState::CaughtUp || status.only_failing_since.is_some();
    let mut status = loader.status();
    eventually("it has looked at all", || {
        status = loader.status();
        is_over(&status)
    });
    status
}

#[test]
fn a_footer_whose_last_number_cannot_be_costs_no_row_and_no_gap() {
    for last in [(1 << 56), (1 << 63) - 1, 1 << 63, u64::MAX] {
        let site = Site::new();
        let older = two_logs(&site);
        let path = only_segment(&site, older);
        let mut forged = Forged::parse(&fs::read(&path).unwrap());
        forged.footer.as_mut().unwrap().last = last;
        fs::write(&path, forged.bytes()).unwrap();
        let status = load_what_can_be(&site);
        assert_eq!((status.rows, status.missing), (20, 0), "last {last}: {status:?}");
        assert_eq!(site.numbers(), (0..20).collect::<Vec<_>>());
        // A later start also loads everything that can be loaded.
        assert_eq!(load_what_can_be(&site).state, LoadState::CaughtUp);
        assert!(site.audit().iter().all(|row| row.missing == 0));
    }
}

#[test]
fn a_number_in_deleted_that_cannot_be_makes_no_gap() {
    let site = Site::new();
    two_logs(&site);
    // A database that has positions and lacks deleted records counts as restored. So this test loads first.
    site.load();
    let text = format!("{} {}\n{} {}\n", LogId::random(), u64::MAX, LogId::random(), 1_u64 << 63);
    fs::write(site.dir().join("deleted"), text).unwrap();
    site.write_visits(20..30);
    let status = load_what_can_be(&site);
    assert_eq!((status.rows, status.missing, status.in_gaps), (10, 0, 0), "{status:?}");
    assert!(site.audit().iter().all(|row| row.missing == 0));
}

#[test]
fn deleted_that_is_no_regular_file_holds_nothing_up() {
    let site = Site::new();
    two_logs(&site);
    fs::create_dir(site.dir().join("deleted")).unwrap();
    assert_eq!(load_what_can_be(&site).rows, 20);
}

#[test]
fn a_file_that_is_no_segment_stops_its_log_alone_and_the_audit_names_it() {
    let makers: [fn(&Path); 2] =
        [|path| fs::create_dir(path).unwrap(), |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap()];
    for make in makers {
        let site = Site::new();
        let older = two_logs(&site);
        let path = only_segment(&site, older);
        fs::remove_file(&path).unwrap();
        make(&path);
        let status = load_what_can_be(&site);
        assert_eq!(status.rows, 10, "{status:?}");
        assert!(status.stopped_logs[&older].contains("allowed is a regular file"), "{status:?}");
        let account = audit(&DiskStorage, &site.dir(), &site.sink()).unwrap();
        assert_eq!(account.failed.iter().map(|(log, _)| *log).collect::<Vec<_>>(), [older]);
        assert_eq!(only_row(&account.rows).loaded, 10);
    }
}

#[test]
fn a_folder_of_a_log_that_is_none_stops_that_log_alone() {
    let site = Site::new();
    let log = LogId::random();
    site.write_visits(0..10);
    fs::write(site.dir().join(log.to_string()), b"a file").unwrap();
    let status = load_what_can_be(&site);
    assert_eq!(status.rows, 10);
    assert!(status.stopped_logs.contains_key(&log), "{status:?}");
}

#[test]
fn a_stream_that_no_table_takes_in_an_earlier_log_does_not_hold_the_present_one_up() {
    let site = Site::new();
    let schema = Schema::new("tollgate_gaps", vec![column("n", ColumnType::Int)]).unwrap();
    let older = site.write(vec![schema], 4 << 10, |appender| row(appender, &[Value::Int(1)]));
    let log = site.open_log(vec![visits()], 64 << 20);
    let mut appender = log.appender(|| {});
    let loader = Loader::start(site.options(), site.storage.clone(), Some(log.follower())).unwrap();
    for n in 0..3 {
        visit(&mut appender, n);
        eventually("the row is there", || loader.status().rows > n.cast_unsigned());
    }
    let status = loader.status();
    assert!(status.failing_logs[&older].contains("reserved for bookkeeping"), "{status:?}");
    assert!(status.last_error.is_some_and(|error| error.contains("reserved for bookkeeping")));
    drop(appender);
    log.close().unwrap();
}

#[test]
fn gaps_of_any_size_in_the_database_keep_no_loader_from_its_work() {
    let site = Site::new();
    site.write_visits(0..10);
    site.load();
    // An earlier version committed these gaps for logs that ended at 2^63 and 2^64 - 1.
    let gaps = "INSERT INTO tollgate_gaps (sink, log, first, last, reason, since) VALUES \
         ('main', 'a', 1, 9223372036854775807, 'x', ''), ('main', 'b', 1, 9223372036854775807, 'x', ''), \
         ('main', 'c', 1, -1, 'x', '')";
    site.connect().execute_batch(gaps).unwrap();
    site.write_visits(10..20);
    let status = load_what_can_be(&site);
    assert_eq!(status.rows, 10, "{status:?}");
    assert!(status.in_gaps > 1 << 62, "{status:?}");
}

#[test]
fn a_loader_without_progress_is_stalled_and_one_that_waits_is_not() {
    let begun = Instant::now().checked_sub(2 * STALLED_MIN).unwrap();
    let shared = LoaderControl { begun, ..LoaderControl::default() };
    shared.update(|status| status.state = LoadState::CaughtUp);
    assert_eq!(shared.status().stalled, Duration::ZERO, "it has not begun");
    shared.progress_ms.store(0, Ordering::Relaxed);
    let status = shared.status();
    assert!(status.stalled >= 2 * STALLED_MIN && status.state == LoadState::Loading, "{status:?}");
    shared.note_progress();
    assert_eq!(shared.status().stalled, Duration::ZERO);
    shared.progress_ms.store(0, Ordering::Relaxed);
    shared.note_rest();
    assert_eq!(shared.status().stalled, Duration::ZERO);
    shared.progress_ms.store(0, Ordering::Relaxed);
    shared.update(|status| status.state = LoadState::Opening);
    assert_eq!(shared.status().stalled, Duration::ZERO, "the sink has a patience of its own");
}

/// Writes an older log with rows of another schema, and a log of ten visits. Loads both into the sink of a
/// configuration that has only the visits.
fn load_after_a_log_of(older: Schema, value: Value<'_>) -> (Site, LoadStatus) {
    let site = Site::new();
    site.write(vec![older], 4 << 10, |appender| row(appender, &[value]));
    site.write_visits(10..20);
    let options = LoadOptions { sink: declared(site.sink(), [visits()]), ..site.options() };
    let loader = Loader::start(options, site.storage.clone(), None).unwrap();
    let mut status = loader.status();
    eventually("the loader has visited all logs", || {
        status = loader.status();
        !matches!(status.state, LoadState::Opening | LoadState::Loading)
    });
    drop(loader);
    (site, status)
}

#[test]
fn a_stream_named_like_a_configured_one_by_case_alone_takes_no_table() {
    let stranger = Schema::new("VISITS", vec![column("n", ColumnType::Int)]).unwrap();
    let (site, status) = load_after_a_log_of(stranger, Value::Int(1));
    assert_eq!(site.numbers(), (10..20).collect::<Vec<_>>());
    let error = status.last_error.unwrap_or_default();
    assert!(error.contains("\"VISITS\"") && error.contains("configured stream \"visits\""), "{error}");
    declared(site.sink(), [visits()]).check().unwrap();
}

#[test]
fn a_column_of_another_type_than_the_configured_one_is_not_made() {
    for name in ["n", "N"] {
        let stranger = Schema::new("visits", vec![column(name, ColumnType::Text)]).unwrap();
        let (site, status) = load_after_a_log_of(stranger, Value::Text("one"));
        assert_eq!(site.numbers(), (10..20).collect::<Vec<_>>());
        let error = status.last_error.unwrap_or_default();
        assert!(error.contains("is text in the log and int in the configuration"), "{error}");
        declared(site.sink(), [visits()]).check().unwrap();
    }
}

#[test]
fn a_stream_that_the_configuration_lacks_gets_its_table() {
    let stranger = Schema::new("orders", vec![column("n", ColumnType::Text)]).unwrap();
    let (site, status) = load_after_a_log_of(stranger, Value::Text("one"));
    assert_eq!((status.state, site.ask::<i64>("SELECT count(*) FROM orders")), (LoadState::CaughtUp, 1));
}

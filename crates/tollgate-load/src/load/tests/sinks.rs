//! Tests of several sinks. Each sink has its own streams, positions and account. A segment is deleted only
//! after all sinks have it.

use std::fs;

use super::*;
use crate::sink::{LoadFrom, Taken};

fn numbers_of(name: &str) -> Schema {
    Schema::new(name, vec![column("n", ColumnType::Int)]).unwrap()
}

/// Makes a sink with its own database.
fn sink(site: &Site, name: &str) -> SinkOptions {
    let path = site.folder.path().join(format!("{name}.db"));
    SinkOptions::new(name, SinkKind::Sqlite { path })
}

fn taking(sink: SinkOptions, streams: &[&str]) -> SinkOptions {
    let streams = streams.iter().map(|stream| (*stream).to_owned()).collect();
    SinkOptions { taken: Taken::Only(streams), ..sink }
}

fn from_now(sink: SinkOptions) -> SinkOptions {
    SinkOptions { from: LoadFrom::Now, ..sink }
}

fn start(site: &Site, sink: &SinkOptions, live: Option<tollgate_log::Follower>) -> Loader {
    let options = LoadOptions { sink: sink.clone(), ..site.options() };
    Loader::start(options, site.storage.clone(), live).unwrap()
}

fn load(site: &Site, sink: &SinkOptions) -> LoadStatus {
    start(site, sink, None).finish(PATIENCE).unwrap()
}

fn ask(sink: &SinkOptions, question: &str) -> Vec<i64> {
    let SinkKind::Sqlite { path } = &sink.kind else { unreachable!() };
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare(question).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn has_table(sink: &SinkOptions, name: &str) -> bool {
    let SinkKind::Sqlite { path } = &sink.kind else { unreachable!() };
    Connection::open(path).unwrap().table_exists(None, name).unwrap()
}

/// Returns stream, ingested, pending, loaded, rejected and missing of each row of the audit. Checks that the
/// counts add up.
fn account(site: &Site, sink: &SinkOptions) -> Vec<(String, [u64; 5])> {
    let rows = audit(&DiskStorage, &site.dir(), sink).unwrap().rows;
    let shown = |row: AuditRow| {
        assert_eq!(row.ingested, row.pending + row.loaded + row.rejected + row.missing, "{row:?}");
        (row.stream, [row.ingested, row.pending, row.loaded, row.rejected, row.missing])
    };
    rows.into_iter().map(shown).collect()
}

fn row(stream: &str, counts: [u64; 5]) -> (String, [u64; 5]) {
    (stream.to_owned(), counts)
}

/// Writes `count` records in turn to the streams `a` and `b`, in small segments.
fn write_both(site: &Site, count: i64) -> LogId {
    site.write(vec![numbers_of("a"), numbers_of("b")], 4 << 10, |appender| {
        for n in 0..count {
            let schema = SchemaId(u16::from(n % 2 == 1));
            let append = appender
                .append(Level::Synced, |transaction| transaction.row(schema, |row| row.push(Value::Int(n))));
            let appended = append.unwrap().0.unwrap();
            hand_over(appender);
            if n % 20 == 19 {
                eventually("it is written", || appender.reached(appended, Level::Written).is_some());
            }
        }
    })
}

#[test]
fn a_sink_takes_its_streams_and_its_account_covers_them_alone() {
    let site = Site::new();
    let log = write_both(&site, 200);
    let (all, a, b) =
        (sink(&site, "all"), taking(sink(&site, "a"), &["a"]), taking(sink(&site, "b"), &["b"]));
    assert_eq!(account(&site, &a), [row("a", [100, 100, 0, 0, 0])]);
    for sink in [&all, &a, &b] {
        load(&site, sink);
    }
    for is_deleted in [false, true] {
        if is_deleted {
            fs::remove_dir_all(site.dir().join(log.to_string())).unwrap();
        }
        assert_eq!(account(&site, &a), [row("a", [100, 0, 100, 0, 0])], "deleted: {is_deleted}");
        assert_eq!(account(&site, &b), [row("b", [100, 0, 100, 0, 0])], "deleted: {is_deleted}");
        assert_eq!(account(&site, &all).len(), 2);
    }
    assert_eq!(ask(&a, "SELECT n FROM a ORDER BY n"), (0..200).step_by(2).collect::<Vec<_>>());
    assert_eq!(ask(&b, "SELECT n FROM b ORDER BY n"), (1..200).step_by(2).collect::<Vec<_>>());
    assert!(!has_table(&a, "b") && !has_table(&b, "a"));
}

#[test]
fn a_stream_that_is_taken_later_is_loaded_from_then_on_and_nothing_of_it_is_missing() {
    let site = Site::new();
    write_both(&site, 100);
    let both = sink(&site, "main");
    load(&site, &taking(both.clone(), &["a"]));
    write_both(&site, 100);
    load(&site, &both);
    let rows = account(&site, &both);
    let sum = |stream: &str, index: usize| {
        rows.iter().filter(|(name, _)| name == stream).map(|(_, counts)| counts[index]).sum::<u64>()
    };
    assert_eq!((sum("a", 2), sum("b", 2), sum("a", 4), sum("b", 4)), (100, 50, 0, 0), "{rows:?}");
    assert!(rows.iter().all(|(stream, _)| stream != STREAM_UNKNOWN), "{rows:?}");
}

#[test]
fn a_new_name_is_a_new_sink_also_in_the_same_database() {
    let site = Site::new();
    site.write_visits(0..50);
    load(&site, &site.sink());
    let renamed = SinkOptions { name: "other".to_owned(), ..site.sink() };
    assert_eq!(account(&site, &renamed), [row("visits", [50, 50, 0, 0, 0])]);
    assert_eq!(load(&site, &renamed).rows, 50);
    assert_eq!(ask(&renamed, "SELECT count(*) FROM visits"), [100]);
    assert_eq!(account(&site, &site.sink()), [row("visits", [50, 0, 50, 0, 0])]);
    assert_eq!(load(&site, &site.sink()).rows, 0);
}

#[test]
fn a_sink_from_now_on_begins_behind_the_records_at_its_first_start_and_never_again() {
    let site = Site::new();
    site.write_visits(0..300);
    let late = from_now(sink(&site, "late"));
    let log = site.open_log(vec![visits()], 1 << 20);
    let mut appender = log.appender(|| {});
    for n in 300..310 {
        visit(&mut appender, n);
    }
    let live = log.follower();
    eventually("they are synced", || live.watermark().synced == tollgate_log::Sequence(10));
    let loader = start(&site, &late, Some(live));
    eventually("it is caught up", || loader.status().state == LoadState::CaughtUp);
    assert_eq!(account(&site, &late), []);
    for n in 310..330 {
        visit(&mut appender, n);
    }
    drop(appender);
    log.close().unwrap();
    loader.finish(PATIENCE).unwrap();
    site.write_visits(330..340);
    load(&site, &late);
    assert_eq!(ask(&late, "SELECT n FROM visits ORDER BY n"), (310..340).collect::<Vec<_>>());
    let loaded: u64 = account(&site, &late).iter().map(|(_, counts)| counts[2]).sum();
    let others: u64 = account(&site, &late).iter().map(|(_, counts)| counts[1] + counts[4]).sum();
    assert_eq!((loaded, others), (30, 0));
}

#[test]
fn a_sink_from_now_that_was_killed_before_its_first_row_skips_nothing_more() {
    let site = Site::new();
    site.write_visits(0..30);
    let late = from_now(sink(&site, "late"));
    load(&site, &late);
    site.write_visits(30..60);
    assert_eq!(load(&site, &late).rows, 30);
    let empty = Site::new();
    fs::create_dir(empty.dir()).unwrap();
    load(&empty, &from_now(sink(&empty, "late")));
    empty.write_visits(0..30);
    assert_eq!(load(&empty, &from_now(sink(&empty, "late"))).rows, 30);
}

#[test]
fn segments_wait_for_every_sink_and_a_dead_one_holds_up_no_other() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    let options =
        LogOptions { segment_bytes_max: 4 << 10, retain: Duration::ZERO, ..LogOptions::new(&site.dir()) };
    let run = site.open_log_with(options, vec![visits()]);
    let (good, dead) = (sink(&site, "good"), sink(&site, "dead"));
    let SinkKind::Sqlite { path } = &dead.kind else { unreachable!() };
    let lock = Connection::open(path).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut followers = run.sink_followers(2);
    let dead_loader = start(&site, &dead, followers.pop());
    let good_loader = start(&site, &good, followers.pop());
    eventually("the good one has all", || good_loader.status().state == LoadState::CaughtUp);
    assert_eq!(good_loader.status().rows, 500);
    assert_eq!(dead_loader.status().rows, 0);
    wait_for_retainer(&run);
    let before = segments(&*site.storage, &site.dir(), log).unwrap();
    assert_eq!(before.first().map(|(name, _)| name.first.0), Some(1));
    lock.execute_batch("ROLLBACK").unwrap();
    eventually("the log is gone", || !site.dir().join(log.to_string()).exists());
    run.close().unwrap();
    assert_eq!(dead_loader.finish(PATIENCE).unwrap().rows, 500);
    good_loader.finish(PATIENCE).unwrap();
}

#[test]
fn a_position_that_went_back_loads_the_kept_records_and_names_the_lost_ones() {
    let site = Site::new();
    let log = site.write_visits(0..200);
    let backup = site.folder.path().join("backup.db");
    load(&site, &site.sink());
    fs::copy(site.database(), &backup).unwrap();
    let next = site.write_visits(200..700);
    load(&site, &site.sink());
    let names = segments(&*site.storage, &site.dir(), next).unwrap();
    assert!(names.len() > 3);
    // The test restores the database. The middle segments of the second log are gone.
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", site.database().display()));
    }
    fs::copy(&backup, site.database()).unwrap();
    fs::remove_file(&names[1].1).unwrap();
    let gone = names[1].0.first.0..names[2].0.first.0;
    let status = load(&site, &site.sink());
    assert_eq!(status.missing, gone.end - gone.start);
    let numbers: Vec<_> = (0..700).filter(|n| *n < 200 || !gone.contains(&(*n as u64 - 199))).collect();
    assert_eq!(site.numbers(), numbers);
    let gap: String =
        site.ask("SELECT sink || ' ' || log || ' ' || first || ' ' || reason FROM tollgate_gaps");
    assert_eq!(gap, format!("main {next} {} segment is missing", gone.start));
    assert_ne!(log, next);
}

#[test]
fn copies_of_a_log_directory_on_two_servers_give_each_record_once() {
    let (site, other) = (Site::new(), Site::new());
    let log = site.write_visits(0..300);
    let (from, to) = (site.dir().join(log.to_string()), other.dir().join(log.to_string()));
    fs::create_dir_all(&to).unwrap();
    let names = segments(&*site.storage, &site.dir(), log).unwrap();
    // The copy of the log is older, so it ends earlier.
    for (name, path) in &names[..names.len() - 1] {
        fs::copy(path, name.path(&to)).unwrap();
    }
    let end_of_copy = names[names.len() - 1].0.first.0 - 1;
    let into = |site: &Site, sink: &SinkOptions| load(site, sink).rows;
    assert_eq!(into(&other, &site.sink()), end_of_copy);
    assert_eq!(into(&site, &site.sink()), 300 - end_of_copy);
    assert_eq!(into(&other, &site.sink()), 0);
    assert_eq!(site.numbers(), (0..300).collect::<Vec<_>>());
    assert!(from.exists());
    assert_eq!(load(&other, &site.sink()).stopped_logs.len(), 0);
}

/// Returns the niceness of each thread of a sink's loader, lowest first.
fn niceness(name: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        // A thread may end while this function reads the list.
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
        let Some((head, rest)) = stat.rsplit_once(") ") else { continue };
        if head.ends_with(&format!("(load-{name}")) {
            found.push(rest.split(' ').nth(16).unwrap().parse().unwrap());
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn the_thread_of_a_loader_is_nicer_by_5_also_while_it_is_behind() {
    let site = Site::new();
    site.write_visits(0..50);
    let sink = sink(&site, "nice");
    let mut options = LoadOptions { sink: sink.clone(), ..site.options() };
    (options.tuning.lag_max, options.tuning.poll) = (Duration::ZERO, Duration::from_millis(10));
    let as_started = rustix::process::getpriority_process(None).unwrap();
    let nice = [(as_started + 5).min(19)];
    let loader = Loader::start(options, site.storage.clone(), None).unwrap();
    eventually("it caught up", || loader.status().rows == 50);
    assert_eq!(niceness("nice"), nice);
    let SinkKind::Sqlite { path } = &sink.kind else { unreachable!() };
    let lock = Connection::open(path).unwrap();
    lock.busy_timeout(PATIENCE).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    site.write_visits(50..100);
    eventually("it tried and failed", || loader.status().state == LoadState::Retrying);
    assert_eq!(niceness("nice"), nice);
    lock.execute_batch("ROLLBACK").unwrap();
    assert_eq!(loader.finish(PATIENCE).unwrap().rows, 100);
}

#[test]
fn the_backlog_is_told_in_segments_and_bytes_while_it_is_loaded() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    let files = segments(&*site.storage, &site.dir(), log).unwrap();
    let bytes =
        |from: usize| files[from..].iter().map(|(_, path)| path.metadata().unwrap().len()).sum::<u64>();
    let backlog = |position: u64| {
        let mut backlog = LoadBacklog::default();
        let reach = crate::load::follow::reach_of_sealed(&*site.storage, &site.dir(), log).unwrap();
        let position = tollgate_log::Sequence(position);
        backlog.add(&*site.storage, &site.dir(), log, position, reach).unwrap();
        (backlog.segments, backlog.bytes)
    };
    let last_of_first = files[1].0.first.0 - 1;
    assert_eq!(backlog(0), (files.len() as u64, bytes(0)));
    assert_eq!(backlog(last_of_first - 1), (files.len() as u64, bytes(0)));
    assert_eq!(backlog(last_of_first), (files.len() as u64 - 1, bytes(1)));
    assert_eq!(backlog(499), (1, bytes(files.len() - 1)));
    assert_eq!(backlog(500), (0, 0));
}

#[test]
fn a_sink_of_topics_finds_the_sink_that_loads_a_log_into_its_database() {
    let site = Site::new();
    let log = site.write_visits(0..3);
    site.load();
    let other = SinkOptions::new("topics", site.sink().kind);
    let mut topics = other.open_for_topics().unwrap().unwrap();
    assert_eq!(topics.segment_sink(log).unwrap().as_deref(), Some("main"));
    assert_eq!(topics.segment_sink(LogId::from_bytes([7; 16])).unwrap(), None);
}

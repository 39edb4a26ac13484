//! Tests of killed servers, broken connections, loaders that race, and restored databases.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate_load::{Loader, audit};
use tollgate_log::{DiskStorage, Log, LogOptions};

use crate::cluster::{Cluster, shared};
use crate::proxy::{Fate, Proxy};
use crate::site::{PATIENCE, Site, eventually, sink_at, visit, visits};

#[test]
fn a_log_is_loaded_once_however_often_the_loader_runs() {
    let site = Site::new(shared());
    site.write_visits(0..500);
    let status = site.load();
    assert_eq!((status.rows, status.rejects, status.missing), (500, 0, 0));
    assert_eq!(site.load().rows, 0);
    site.assert_visits(0..500);
    let rows = site.audit();
    assert_eq!((rows[0].ingested, rows[0].loaded, rows[0].pending), (500, 500, 0));
}

#[test]
fn a_server_killed_in_the_middle_of_a_copy_has_every_row_once() {
    let cluster = Cluster::start("");
    let site = Site::new(&cluster);
    site.write_visits(0..300);
    let mut options = site.load_options();
    options.tuning.chunk_rows_max = 100;
    // Inside the COPY, row 150 waits for a lock that the test holds.
    site.sql(
        "CREATE TABLE visits (n bigint, path text);
         CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.n = 150 THEN PERFORM pg_advisory_xact_lock_shared(7); END IF; RETURN NEW; END $$;
         CREATE TRIGGER wait BEFORE INSERT ON visits FOR EACH ROW EXECUTE FUNCTION wait()",
    );
    let holder = std::process::Command::new("psql")
        .args(["-X", "-q", "-d", &cluster.url(&site.database), "-c"])
        .arg("SELECT pg_advisory_lock(7); SELECT pg_sleep(600)")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    let mut holder = holder.unwrap();
    let count = |what: &str| {
        site.sql(&format!("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND {what}"))
    };
    eventually("the lock is held", || count("granted AND objid = 7") == "1");
    let loader = Loader::start(options, Arc::new(DiskStorage), None).unwrap();
    eventually("a COPY waits", || count("NOT granted AND objid = 7") == "1");
    cluster.kill();
    holder.wait().unwrap();
    eventually("the loader noticed", || loader.status().last_error.is_some());
    cluster.boot();
    loader.finish(PATIENCE).unwrap();
    site.assert_visits(0..300);
    assert_eq!(site.audit()[0].loaded, 300);
}

fn a_connection_cut_at_commit(fate: Fate) {
    let mut site = Site::new(shared());
    site.write_visits(0..200);
    let proxy = Proxy::start(site.cluster.port, fate);
    let url = format!("postgres://tollgate@127.0.0.1:{}/{}", proxy.port, site.database);
    site.load();
    site.write_visits(200..400);
    site.options = sink_at(&url);
    let status = site.load();
    assert!(proxy.broke.load(Ordering::SeqCst), "the wire never broke");
    assert!(status.last_error.is_some());
    site.assert_visits(0..400);
    assert_eq!(status.rows, if fate == Fate::Arrives { 0 } else { 200 });
}

#[test]
fn a_connection_cut_behind_a_commit_that_happened_doubles_nothing() {
    a_connection_cut_at_commit(Fate::Arrives);
}

#[test]
fn a_connection_cut_before_a_commit_happened_loses_nothing() {
    a_connection_cut_at_commit(Fate::Lost);
}

fn loaders_at_once(count: usize) {
    let site = Site::new(shared());
    for log in 0..3 {
        site.write_visits(log * 200..(log + 1) * 200);
    }
    let mut options = site.load_options();
    options.tuning.chunk_rows_max = 10;
    let start = || Loader::start(options.clone(), Arc::new(DiskStorage), None).unwrap();
    let loaders: Vec<_> = (0..count).map(|_| start()).collect();
    let rows: u64 = loaders.into_iter().map(|loader| loader.finish(PATIENCE).unwrap().rows).sum();
    assert_eq!(rows, 600);
    site.assert_visits(0..600);
}

#[test]
fn two_loaders_at_once_load_every_row_once() {
    loaders_at_once(2);
}

#[test]
fn four_loaders_at_once_load_every_row_once() {
    loaders_at_once(4);
}

#[test]
fn a_database_put_back_to_an_earlier_point_is_loaded_from_there() {
    let site = Site::new(shared());
    site.write_visits(0..100);
    site.load();
    let (now, copy) = (&site.database, format!("{}_copy", site.database));
    site.cluster.sql("postgres", &format!("CREATE DATABASE {copy} TEMPLATE {now}"));
    let log = site.open_log(&[visits()]);
    let mut appender = log.appender(|| {});
    for n in 100..200 {
        visit(&mut appender, n);
    }
    let follower = log.sink_followers(1).pop();
    let loader = Loader::start(site.load_options(), Arc::new(DiskStorage), follower).unwrap();
    eventually("all is loaded", || loader.status().rows == 100);
    // While the loader runs, the server fails over to a copy that lacks the last commits.
    let swap = format!(
        "ALTER DATABASE {now} ALLOW_CONNECTIONS false;
         SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{now}'"
    );
    site.cluster.sql("postgres", &swap);
    // One transaction, because the loader stops if the name is gone between the two.
    let swap = format!("ALTER DATABASE {now} RENAME TO {now}_old; ALTER DATABASE {copy} RENAME TO {now}");
    site.cluster.sql("postgres", &swap);
    for n in 200..250 {
        visit(&mut appender, n);
    }
    drop(appender);
    log.close().unwrap();
    loader.finish(PATIENCE).unwrap();
    site.assert_visits(0..250);
    assert_eq!(site.audit().iter().map(|row| row.loaded).sum::<u64>(), 250);
}

#[test]
fn records_deleted_before_the_database_was_put_back_are_a_named_gap() {
    let site = Site::new(shared());
    let log = site.open_log(&[visits()]);
    let mut appender = log.appender(|| {});
    let start = |follower| Loader::start(site.load_options(), Arc::new(DiskStorage), follower).unwrap();
    for n in 0..100 {
        visit(&mut appender, n);
    }
    let loader = start(log.sink_followers(1).pop());
    eventually("the first are loaded", || loader.status().rows == 100);
    drop(loader);
    let (now, copy) = (&site.database, format!("{}_copy", site.database));
    site.cluster.sql("postgres", &format!("CREATE DATABASE {copy} TEMPLATE {now}"));
    for n in 100..600 {
        let appended = visit(&mut appender, n);
        eventually("it is written", || appender.reached(appended, tollgate_log::Level::Written).is_some());
    }
    drop(appender);
    let id = log.id();
    log.close().unwrap();
    site.load();
    site.assert_visits(0..600);
    site.cluster.sql("postgres", &format!("DROP DATABASE {now}"));
    site.cluster.sql("postgres", &format!("ALTER DATABASE {copy} RENAME TO {now}"));
    let segments = tollgate_log::segments(&DiskStorage, &site.dir(), id).unwrap();
    let behind = segments.iter().position(|(name, _)| name.first.0 > 101).unwrap();
    // Retention would have deleted these segments before the restore, because the sink had them.
    for (_, path) in &segments[..behind] {
        std::fs::remove_file(path).unwrap();
    }
    let lost = segments[behind].0.first.0 - 101;
    let status = site.load();
    assert_eq!((status.rows, status.missing), (500 - lost, lost));
    let gap = site.sql("SELECT first, last, reason FROM tollgate.gaps");
    assert!(gap.starts_with(&format!("101|{}|", 100 + lost)), "{gap}");
    let rows = audit(&DiskStorage, &site.dir(), &site.options).unwrap().rows;
    assert_eq!(rows.iter().map(|row| row.missing).sum::<u64>(), lost);
}

#[test]
fn a_database_restored_to_before_logs_that_are_wholly_deleted_names_them_as_gaps() {
    let site = Site::new(shared());
    site.write_visits(0..10);
    site.load();
    let (now, copy) = (&site.database, format!("{}_copy", site.database));
    site.cluster.sql("postgres", &format!("CREATE DATABASE {copy} TEMPLATE {now}"));
    let deleted = site.write_visits(10..60);
    site.load();
    let options = LogOptions { retain: Duration::ZERO, ..LogOptions::new(&site.dir()) };
    let run = Log::open(Arc::new(DiskStorage), options, vec![visits()], |_| {}).unwrap().0;
    let follower = run.sink_followers(1).pop();
    let loader = Loader::start(site.load_options(), Arc::new(DiskStorage), follower).unwrap();
    eventually("the log is gone", || !site.dir().join(deleted.to_string()).exists());
    run.close().unwrap();
    loader.finish(PATIENCE).unwrap();
    site.cluster.sql("postgres", &format!("DROP DATABASE {now}"));
    site.cluster.sql("postgres", &format!("ALTER DATABASE {copy} RENAME TO {now}"));
    assert_eq!(site.load().missing, 50);
    let gap = site.sql(&format!("SELECT first, last, reason FROM tollgate.gaps WHERE log = '{deleted}'"));
    assert_eq!(gap, "1|50|deleted before the database was put back");
    let rows = audit(&DiskStorage, &site.dir(), &site.options).unwrap().rows;
    assert_eq!(rows.iter().map(|row| row.missing).sum::<u64>(), 50);
    site.assert_visits(0..10);
}

#[test]
fn commits_are_synchronous_even_if_the_role_says_otherwise() {
    let mut site = Site::new(shared());
    let role = format!("hasty_{}", site.database);
    site.sql(&format!(
        "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET synchronous_commit = off;
         CREATE TABLE seen (setting text)"
    ));
    site.options =
        sink_at(&site.cluster.url(&site.database).replace("user=tollgate", &format!("user={role}")));
    let file = site.file("after.sql");
    std::fs::write(&file, "INSERT INTO seen VALUES (current_setting('synchronous_commit'))").unwrap();
    site.options.after_load = Some(file);
    site.write_visits(0..10);
    site.load();
    assert_eq!(site.sql("SELECT DISTINCT setting FROM seen"), "on");
}

#[test]
fn a_load_whose_trigger_turns_synchronous_commit_off_is_refused() {
    let site = Site::new(shared());
    site.sql(
        "CREATE TABLE visits (n bigint, path text);
         CREATE FUNCTION hurry() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN SET LOCAL synchronous_commit = off; RETURN NEW; END $$;
         CREATE TRIGGER hurry BEFORE INSERT ON visits FOR EACH ROW EXECUTE FUNCTION hurry()",
    );
    site.write_visits(0..10);
    let reason = site.load_until_stopped();
    assert!(reason.contains("synchronous_commit off"), "{reason}");
    assert_eq!(site.sql("SELECT count(*) FROM visits"), "0");
}

#[test]
fn a_stuck_lock_is_told_and_waited_out() {
    let mut site = Site::new(shared());
    site.postgres().lock_timeout = std::time::Duration::from_millis(50);
    site.write_visits(0..50);
    site.load();
    site.write_visits(50..100);
    let holder = std::process::Command::new("psql")
        .args(["-X", "-q", "-d", &site.cluster.url(&site.database), "-c"])
        .arg("BEGIN; LOCK TABLE visits IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)")
        .stdout(std::process::Stdio::null())
        .spawn();
    let mut holder = holder.unwrap();
    let locks = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = 'visits'::regclass";
    eventually("the lock is held", || site.sql(locks) == "1");
    let loader = site.start();
    eventually("it is told", || {
        loader.status().last_error.is_some_and(|error| error.contains("lock timeout"))
    });
    site.end_sleepers();
    holder.wait().unwrap();
    loader.finish(PATIENCE).unwrap();
    site.assert_visits(0..100);
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let cluster = Cluster::start("");
    let site = Site::new(&cluster);
    site.write_visits(0..20);
    cluster.stop_immediately();
    let loader = site.start();
    eventually("it is told", || loader.status().last_error.is_some());
    cluster.boot();
    loader.finish(PATIENCE).unwrap();
    site.assert_visits(0..20);
}

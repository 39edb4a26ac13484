//! Sinks that a reload adds, removes and changes, and sinks that cannot be used at the start.

use std::fs;

use rusqlite::Connection;
use rustix::process::Signal;

use crate::cluster::shared;
use crate::postgres::numbers_of;
use crate::program::{App, Running, eventually, printed};
use crate::sinks::{MAIN, STREAMS, all, numbers, record};

const OTHER: &str = "[sink.other]\nsqlite = \"data/other.sqlite\"\n";

fn configuration(sinks: &str) -> String {
    format!("{STREAMS}{sinks}")
}

fn configure(app: &App, sinks: &str) {
    app.configure(&configuration(sinks));
}

/// Reloads with other sinks, and returns the output.
fn reload(app: &App, sinks: &str) -> String {
    configure(app, sinks);
    app.succeed(&["reload"])
}

/// Checks that a reload is refused, and returns the reasons.
fn refused(app: &App, sinks: &str) -> String {
    configure(app, sinks);
    let output = app.run(&["reload"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    printed(&output)
}

fn wait_for(app: &App, database: &str, stream: &str, expected: &[u64]) {
    eventually("all that is due is loaded", || {
        let file = app.path().join("data").join(database);
        (file.exists() && numbers(app, database, stream) == expected).then_some(())
    });
}

fn stop(server: Running) -> String {
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    log
}

#[test]
fn a_sink_that_is_added_begins_at_the_oldest_or_now_and_those_that_are_kept_go_on() {
    let app = App::new(&format!("{STREAMS}{MAIN}").replace("retain = \"0ms\"", "retain = \"1h\""), &[]);
    let keep = |sinks: &str| {
        app.configure(&configuration(sinks).replace("retain = \"0ms\"", "retain = \"1h\""));
        app.succeed(&["reload"])
    };
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, "/a", 0..1000);
    wait_for(&app, "tollgate.sqlite", "a", &all(1000));
    let now = "[sink.now]\nsqlite = \"data/now.sqlite\"\nfrom = \"now\"\n";
    let answer = keep(&format!("{MAIN}{OTHER}{now}"));
    assert!(answer.contains("changed: sink.other: added"), "{answer}");
    wait_for(&app, "other.sqlite", "a", &all(1000));
    let is_enrolled = || {
        let file = Connection::open(app.path().join("data/now.sqlite")).unwrap();
        file.query_row("SELECT count(*) FROM tollgate_sinks", [], |row| row.get::<_, i64>(0)).ok()
    };
    eventually("the sink from now is seen", || is_enrolled().filter(|count| *count == 1));
    record(&mut client, "/a", 1000..1500);
    wait_for(&app, "now.sqlite", "a", &(1000..1500).collect::<Vec<_>>());
    wait_for(&app, "other.sqlite", "a", &all(1500));
    wait_for(&app, "tollgate.sqlite", "a", &all(1500));
    let renamed = MAIN.replace("main", "again").replace("tollgate.sqlite", "again.sqlite");
    keep(&renamed);
    wait_for(&app, "again.sqlite", "a", &all(1500));
    record(&mut client, "/a", 1500..1600);
    wait_for(&app, "again.sqlite", "a", &all(1600));
    let log = stop(server);
    assert_eq!(numbers(&app, "tollgate.sqlite", "a"), all(1500), "it was removed before: {log}");
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

#[test]
fn segments_wait_for_a_sink_that_a_reload_added_and_not_for_one_that_it_removed() {
    let app = App::new(&format!("{STREAMS}{MAIN}{OTHER}"), &[]);
    fs::create_dir(app.path().join("data")).unwrap();
    let lock = Connection::open(app.path().join("data/other.sqlite")).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, "/a", 0..3000);
    wait_for(&app, "tollgate.sqlite", "a", &all(3000));
    assert!(app.segments().len() > 2, "they wait for the other sink");
    configure(&app, MAIN);
    server.signal(Signal::HUP);
    eventually("what waited is deleted", || (app.segments().len() <= 1).then_some(()));
    reload(&app, &format!("{MAIN}{OTHER}"));
    record(&mut client, "/a", 3000..6000);
    wait_for(&app, "tollgate.sqlite", "a", &all(6000));
    assert!(app.segments().len() > 2, "they wait for it again");
    lock.execute_batch("COMMIT").unwrap();
    eventually("what it has is deleted", || (app.segments().len() <= 1).then_some(()));
    stop(server);
    let other = numbers(&app, "other.sqlite", "a");
    assert!(other.ends_with(&(3000..6000).collect::<Vec<_>>()), "{} rows", other.len());
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

#[test]
fn a_sink_takes_other_streams_and_another_file_to_run_by_a_reload() {
    let app = App::new(&format!("{STREAMS}{MAIN}streams = [\"b\"]\n"), &[]);
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, "/a", 0..200);
    record(&mut client, "/b", 0..200);
    wait_for(&app, "tollgate.sqlite", "b", &all(200));
    app.write(
        "after.sql",
        "CREATE TABLE IF NOT EXISTS loads (last); INSERT INTO loads SELECT last FROM tollgate_load",
    );
    let answer = reload(&app, &format!("{MAIN}after_load = \"after.sql\"\n"));
    assert!(answer.contains("changed: sink.main.streams: removed"), "{answer}");
    assert!(!answer.contains("needs a restart"), "{answer}");
    record(&mut client, "/a", 200..400);
    wait_for(&app, "tollgate.sqlite", "a", &(200..400).collect::<Vec<_>>());
    assert!(app.query::<i64>("SELECT count(*) FROM loads")[0] > 0);
    stop(server);
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

#[test]
fn a_sink_that_would_move_or_does_not_fit_is_refused_and_all_stays_as_it_was() {
    let app = App::new(&format!("{STREAMS}{MAIN}"), &[]);
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, "/a", 0..100);
    wait_for(&app, "tollgate.sqlite", "a", &all(100));
    let reason = refused(&app, &MAIN.replace("tollgate.sqlite", "moved.sqlite"));
    assert!(reason.contains("[sink.main] has another database now: "), "{reason}");
    assert!(reason.contains("data/tollgate.sqlite -> ") && reason.contains("data/moved.sqlite"), "{reason}");
    Connection::open(app.path().join("data/other.sqlite"))
        .unwrap()
        .execute_batch("CREATE TABLE b (n TEXT)")
        .unwrap();
    let reason = refused(&app, &format!("{MAIN}{OTHER}"));
    assert!(
        reason.contains("sink other: column \"n\" of table \"b\" is TEXT, the stream has int"),
        "{reason}"
    );
    record(&mut client, "/a", 100..200);
    wait_for(&app, "tollgate.sqlite", "a", &all(200));
    let log = stop(server);
    assert!(!app.path().join("data/moved.sqlite").exists(), "{log}");
}

#[test]
fn a_postgresql_sink_keeps_its_connection_takes_another_login_and_no_other_database() {
    let (database, other) = (shared().database(), shared().database());
    let role = format!("second_{database}");
    shared().sql(&database, &format!("CREATE ROLE {role} LOGIN SUPERUSER"));
    let sink = |url: &str, more: &str| format!("[sink.main]\npostgres = \"{url}\"\n{more}");
    let url = shared().url(&database);
    let sessions = || {
        let question =
            "SELECT pid, usename FROM pg_stat_activity WHERE application_name = 'tollgate' AND datname = ";
        shared().sql("postgres", &format!("{question}'{database}'"))
    };
    let loaded = |stream: &str, expected: &[u64]| {
        let numbers = || numbers_of(&database, stream) == expected;
        eventually("all that is due is loaded", || numbers().then_some(()));
    };
    let app = App::new(&format!("{STREAMS}{}", sink(&url, "")), &[]);
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, "/a", 0..100);
    loaded("a", &all(100));
    let before = sessions();
    reload(&app, &sink(&url, "streams = [\"b\"]\n"));
    record(&mut client, "/a", 100..200);
    record(&mut client, "/b", 0..100);
    loaded("b", &all(100));
    assert_eq!(sessions(), before, "it is the same connection");
    let login = url.replace("user=tollgate", &format!("user={role}"));
    reload(&app, &sink(&login, ""));
    record(&mut client, "/a", 200..300);
    loaded("a", &(0..100).chain(200..300).collect::<Vec<_>>());
    assert!(sessions().ends_with(&format!("|{role}")) && sessions().lines().count() == 1, "{}", sessions());
    let reason = refused(&app, &sink(&shared().url(&other), ""));
    assert!(reason.contains("[sink.main] has another database now: "), "{reason}");
    let reason = refused(&app, &sink(&url, "schema = \"elsewhere\"\n"));
    assert!(reason.contains("[sink.main] has another schema or other tables now: "), "{reason}");
    stop(server);
    configure(&app, &sink(&url, ""));
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

#[test]
fn a_table_that_does_not_fit_refuses_the_start_and_names_both_types() {
    let app = App::new(&format!("{STREAMS}{MAIN}"), &[]);
    fs::create_dir(app.path().join("data")).unwrap();
    app.database().execute_batch("CREATE TABLE b (n TEXT)").unwrap();
    let (status, log) = app.begin().serving().err().unwrap();
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains("sink main: column \"n\" of table \"b\" is TEXT, the stream has int"), "{log}");
    let database = shared().database();
    shared().sql(&database, "CREATE TABLE b (n text)");
    let sink = format!("[sink.main]\npostgres = \"{}\"\n", shared().url(&database));
    let app = App::new(&format!("{STREAMS}{sink}"), &[]);
    let (status, log) = app.begin().serving().err().unwrap();
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains("is text, the stream has int"), "{log}");
    shared().sql(&database, "ALTER TABLE b ALTER n TYPE bigint USING n::bigint");
    stop(app.start());
}

#[test]
fn a_sink_that_cannot_be_opened_keeps_no_server_from_serving_and_is_loaded_later() {
    let stuck = "[sink.stuck]\nsqlite = \"data/blocked/stuck.sqlite\"\n";
    let database = shared().database();
    let url = shared().url(&database).replace("user=tollgate", "user=nobody_of_that_name");
    let login = format!("[sink.login]\npostgres = \"{url}\"\n");
    let app = App::new(&format!("{STREAMS}{MAIN}{stuck}{login}"), &[]);
    fs::create_dir(app.path().join("data")).unwrap();
    let blocked = app.path().join("data/blocked");
    fs::write(&blocked, "no folder").unwrap();
    let server = app.start();
    record(&mut server.connect(), "/a", 0..1000);
    wait_for(&app, "tollgate.sqlite", "a", &all(1000));
    fs::remove_file(&blocked).unwrap();
    wait_for(&app, "blocked/stuck.sqlite", "a", &all(1000));
    let log = stop(server);
    assert!(log.contains("cannot create folder "), "{log}");
    assert!(log.contains("the sink stopped") && log.contains("SQLSTATE 28000"), "{log}");
}

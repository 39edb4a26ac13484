//! The database file of a running server is removed or replaced. All acknowledged records must be in the file
//! that is now at the path.

use std::fs;
use std::path::PathBuf;

use rusqlite::{Connection, OpenFlags};
use rustix::process::Signal;

use crate::client::Client;
use crate::program::{App, Running, eventually};

const CONFIG: &str = r#"
[log]
segment_age_max = "1s"
retain = "2s"
[stream.a]
ACK
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
[sink.main]
sqlite = "data/tollgate.sqlite"
"#;

fn app(ack: &str, more: &str) -> App {
    App::new(&format!("{}{more}", CONFIG.replace("ACK", ack)), &[])
}

fn file(app: &App, suffix: &str) -> PathBuf {
    app.path().join(format!("data/tollgate.sqlite{suffix}"))
}

fn remove(app: &App, suffixes: &[&str]) {
    suffixes.iter().for_each(|suffix| fs::remove_file(file(app, suffix)).unwrap());
}

fn record(client: &mut Client, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let reply = client.post("/a", &format!("{{\"n\":{n}}}")).expect("a reply");
        assert!(reply.is_success(), "{reply:?}");
    }
}

/// Reads the numbers in a database file, and does not create it. `None`: the file or its table does not
/// exist.
fn numbers(path: PathBuf) -> Option<Vec<i64>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    let mut statement = connection.prepare("SELECT n FROM a ORDER BY n").ok()?;
    statement.query_map([], |row| row.get(0)).ok()?.collect::<Result<_, _>>().ok()
}

fn wait_for(app: &App, numbers_wanted: std::ops::Range<i64>) {
    let wanted: Vec<_> = numbers_wanted.collect();
    eventually("all is in the file at the path", || {
        (numbers(file(app, "")) == Some(wanted.clone())).then_some(())
    });
}

fn stop_exact(app: &App, server: Running) -> String {
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    app.settle();
    log
}

const ALL: [&str; 3] = ["", "-wal", "-shm"];

#[test]
fn rows_acknowledged_after_the_database_was_removed_are_in_the_new_one() {
    let app = app("", "");
    let server = app.start();
    record(&mut server.connect(), 0..3);
    wait_for(&app, 0..3);
    remove(&app, &ALL);
    record(&mut server.connect(), 3..6);
    wait_for(&app, 0..6);
    // Waits longer than segments are retained.
    eventually("the segments are deleted", || app.segments().is_empty().then_some(()));
    let log = stop_exact(&app, server);
    assert!(log.contains("tollgate.sqlite was removed or replaced while it was open"), "{log}");
    wait_for(&app, 0..6);
}

#[test]
fn a_backup_that_is_moved_into_place_gets_what_it_lacks() {
    let app = app("", "");
    let server = app.start();
    record(&mut server.connect(), 0..3);
    wait_for(&app, 0..3);
    let backup = app.path().join("backup.sqlite");
    app.database().execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    record(&mut server.connect(), 3..6);
    wait_for(&app, 0..6);
    remove(&app, &["-wal", "-shm"]);
    fs::rename(&backup, file(&app, "")).unwrap();
    record(&mut server.connect(), 6..9);
    wait_for(&app, 0..9);
    stop_exact(&app, server);
    wait_for(&app, 0..9);
}

#[test]
fn a_reply_that_waits_for_the_row_means_the_file_at_the_path() {
    let app = app("ack = \"loaded\"", "");
    let server = app.start();
    let mut client = server.connect();
    for n in 0..12 {
        if n % 3 == 2 {
            remove(&app, &ALL);
        }
        eventually("it is taken", || {
            let reply = client.post("/a", &format!("{{\"n\":{n}}}")).unwrap();
            let is_refused = reply.field("tollgate-outcome") == Some("refused");
            (!is_refused).then(|| assert!(reply.is_success(), "{reply:?}"))
        });
        assert!(numbers(file(&app, "")).unwrap().contains(&n), "{n} is told and not there");
    }
    stop_exact(&app, server);
}

#[test]
fn a_loader_in_another_process_notices_too() {
    let app = app("", "[load]\nin_server = false\n");
    let server = app.start();
    let loader = app.follow(&["load"]);
    record(&mut server.connect(), 0..3);
    wait_for(&app, 0..3);
    remove(&app, &ALL);
    record(&mut server.connect(), 3..6);
    wait_for(&app, 0..6);
    let (_, log) = loader.end(Signal::TERM);
    assert!(log.contains("was removed or replaced while it was open"), "{log}");
    assert!(server.stop().0.success());
    app.succeed(&["load", "--once"]);
    assert!(app.succeed(&["audit"]).contains("exact: "));
}

#[test]
fn a_gap_stays_a_finding_after_a_restart_until_it_is_given_up() {
    let app = app("", "");
    let server = app.start_with(&["--no-load"]);
    record(&mut server.connect(), 0..25);
    server.kill();
    // Seals the segments of the last run.
    assert!(app.start_with(&["--no-load"]).stop().0.success());
    let segment = app.segments().remove(0);
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(&segment, bytes).unwrap();
    let found = |is_found: bool| {
        eventually("the finding", || {
            let status = app.succeed(&["status", "--json"]);
            (status.contains("\"state\":\"caught up\"") && status.contains("records_missing") == is_found)
                .then_some(status)
        })
    };
    for _ in 0..2 {
        let server = app.start();
        let status = found(true);
        assert!(status.contains(" of the log"), "{status}");
        assert!(server.stop().0.success());
    }
    let server = app.start();
    found(true);
    let gaps = app.query::<String>("SELECT log || ' ' || first || '-' || last FROM tollgate_gaps");
    for gap in gaps {
        let (log, range) = gap.split_once(' ').unwrap();
        app.succeed(&["load", "--skip", log, range]);
    }
    found(false);
    assert!(server.stop().0.success());
    let audit = app.succeed(&["audit"]);
    assert!(audit.contains("given up: records ") && !audit.contains("missing: "), "{audit}");
}

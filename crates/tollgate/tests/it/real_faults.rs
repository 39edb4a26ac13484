//! Real faults of a running server. For each of them the readiness, the status, the metrics and the log name
//! the fault, and exactly the alarms that belong to it fire.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Instant;

use crate::admin::{get, get_until, sample};
use crate::alarms::check_alarms;
use crate::client::Client;
use crate::cluster::Cluster;
use crate::database_faults::{Database, Frozen, Site};
use crate::program::{App, Running, eventually, printed};
use crate::room::Disk;

/// How a fault is reported.
struct Report<'a> {
    /// Status of `/readyz`.
    readiness: u16,
    code: &'a str,
    /// Part of a log line.
    line: &'a str,
    /// A finding that follows from the requests during the fault.
    follows: Option<&'a str>,
    alarms: &'a [&'a str],
}

impl Report<'_> {
    /// Waits until each reader of the server sees the fault, and tries the alarms. Prints the seconds.
    fn check(&self, app: &App, server: &Running, begun: Instant, mut drive: impl FnMut()) {
        let Self { readiness, code, line, follows, alarms } = self;
        get_until(app, "/readyz", *readiness, &format!("{code}: "));
        println!("{code}: reported after {:.1} s", begun.elapsed().as_secs_f64());
        let status = app.run(&["status"]);
        let begin = if *readiness == 200 { "READY, WITH WARNINGS" } else { "NOT READY" };
        assert!(status.status.success() && printed(&status).starts_with(begin), "{}", printed(&status));
        assert!(app.succeed(&["status", "--json"]).contains(&format!("\"code\":\"{code}\"")));
        let metrics = get(app, "/metrics").content;
        let severity = if *readiness == 200 { "warning" } else { "reason" };
        let series = format!("tollgate_finding{{code=\"{code}\",severity=\"{severity}\"}}");
        assert_eq!(sample(&metrics, &series), 1);
        eventually(&format!("the log has {line:?}"), || server.has_logged(line).then_some(()));
        if let Some(code) = follows {
            eventually(&format!("{code} follows"), || {
                drive();
                get(app, "/readyz").content.contains(&format!("{code}: ")).then_some(())
            });
        }
        check_alarms(app, alarms, drive);
    }
}

const SINK_DOWN: &[&str] = &["TollgateSinkDown"];
const COLLECT: &str = "[stream.a]\ncolumns = [{ name = \"n\", type = \"int\", from = \"record.n\" }]\n\
                       [[route]]\npath = \"/a\"\ncollect = true\nstream = \"a\"\n\
                       [sink.main]\nsqlite = \"DATABASE\"\n";

/// Returns a configuration that records into this database.
fn collecting(database: &str) -> String {
    COLLECT.replace("DATABASE", database)
}

fn post(server: &Running) -> u16 {
    server.connect().post("/a", "[{\"n\":1}]").unwrap().status
}

#[test]
fn a_stopped_database_is_named_and_has_its_alarm() {
    let site = Site::start("");
    let frozen = Frozen::freeze(site.cluster());
    let begun = Instant::now();
    site.record(10..11);
    let line = "has waited for an answer for ";
    let report = Report { readiness: 200, code: "sink_waiting", line, follows: None, alarms: SINK_DOWN };
    report.check(&site.app, &site.server, begun, || site.record(11..12));
    drop(frozen);
}

#[test]
fn a_locked_table_is_named_and_has_its_alarm() {
    for database in [Database::postgres(), Database::Sqlite] {
        let site = Site::with(database, "");
        let sqlite = site.is_sqlite().then(|| site.app.database());
        if let Some(other) = &sqlite {
            other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        }
        let holder = (!site.is_sqlite()).then(|| site.lock_table());
        let begun = Instant::now();
        site.record(10..11);
        let line = "has waited for an answer for ";
        let report = Report { readiness: 200, code: "sink_waiting", line, follows: None, alarms: SINK_DOWN };
        report.check(&site.app, &site.server, begun, || site.record(11..12));
        drop(holder);
    }
}

#[test]
fn a_changed_password_of_the_database_is_named_and_has_its_alarm() {
    let cluster = Cluster::start("");
    let name = cluster.database();
    let role = "CREATE ROLE loader LOGIN PASSWORD 'one'; GRANT ALL ON SCHEMA public TO loader";
    cluster.sql(&name, &format!("{role}; GRANT ALL ON DATABASE {name} TO loader"));
    let rules = cluster.folder().join("data/pg_hba.conf");
    let before = fs::read_to_string(&rules).unwrap();
    fs::write(&rules, format!("local all loader scram-sha-256\n{before}")).unwrap();
    cluster.sql(&name, "SELECT pg_reload_conf()");
    let url = cluster.url(&name).replace("user=tollgate", "user=loader password=one");
    let site = Site::with(Database::At { cluster, name, url }, "");
    let change = "ALTER ROLE loader PASSWORD 'two'; \
                  SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'loader'";
    site.cluster().sql(site.name(), change);
    let begun = Instant::now();
    site.record(10..11);
    let report = Report {
        readiness: 200,
        code: "sink_stopped",
        line: "password authentication failed",
        follows: None,
        alarms: SINK_DOWN,
    };
    report.check(&site.app, &site.server, begun, || site.record(11..12));
}

#[test]
fn a_dropped_table_is_named_and_has_its_alarm_also_after_it_is_created_again() {
    for database in [Database::postgres(), Database::Sqlite] {
        let site = Site::with(database, "");
        site.execute("DROP TABLE a");
        let begun = Instant::now();
        let line = "of sink main is missing: it had 3 rows";
        let alarms = &["TollgateTableMissing"];
        let report = Report { readiness: 200, code: "table_missing", line, follows: None, alarms };
        report.check(&site.app, &site.server, begun, || {});
        site.record(10..13);
        eventually("the later records are rows", || (site.rows() == [10, 11, 12]).then_some(()));
        site.wait_for_the_end();
        let line = "created again without its 3 rows";
        get_until(&site.app, "/readyz", 200, line);
        assert!(site.server.has_logged("a table was missing: it is created again without its rows"));
        let report =
            Report { readiness: 200, code: "table_missing", line: "table_missing", follows: None, alarms };
        report.check(&site.app, &site.server, begun, || site.record(13..14));
    }
}

#[test]
fn the_finding_of_a_missing_table_ends_when_the_table_is_put_back() {
    for database in [Database::postgres(), Database::Sqlite] {
        let site = Site::with(database, "");
        site.execute("ALTER TABLE a RENAME TO kept");
        get_until(&site.app, "/readyz", 200, "table_missing: ");
        site.execute("ALTER TABLE kept RENAME TO a");
        eventually("the finding ends", || {
            (!get(&site.app, "/readyz").content.contains("table_missing")).then_some(())
        });
        site.record(3..4);
        eventually("the next record is a row too", || (site.rows() == [0, 1, 2, 3]).then_some(()));
        assert!(!get(&site.app, "/readyz").content.contains("table_missing"));
    }
}

#[test]
fn a_replaced_file_of_sqlite_is_named_and_has_its_alarm() {
    let site = Site::with(Database::Sqlite, "");
    let path = |name: &str| site.app.path().join("data").join(name);
    fs::write(
        path("other"),
        "this is not a database, and has enough bytes for the header of one file".repeat(9),
    )
    .unwrap();
    fs::rename(path("other"), path("tollgate.sqlite")).unwrap();
    let begun = Instant::now();
    site.record(10..11);
    let line = "was removed or replaced while it was open";
    let report = Report { readiness: 200, code: "sink_failing", line, follows: None, alarms: SINK_DOWN };
    report.check(&site.app, &site.server, begun, || site.record(11..12));
}

#[test]
fn a_full_disk_is_named_and_has_its_alarms() {
    // The database is on another disk.
    let app = App::new(&collecting("rows.sqlite"), &[]);
    let Some(disk) = Disk::below(&app) else { return };
    let server = app.start();
    assert_eq!(post(&server), 200);
    let begun = Instant::now();
    disk.fill();
    let alarms = &["TollgateDiskFillsUp", "TollgateNotReady", "TollgateRefusing", "TollgateRouteFailing"];
    let follows = Some("route_failing");
    let report = Report { readiness: 503, code: "disk_full", line: "disk", follows, alarms };
    report.check(&app, &server, begun, || assert_eq!(post(&server), 503));
}

#[test]
fn an_unmounted_disk_of_the_log_is_named_and_the_server_is_not_ready() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!("{}[admin]\nlisten = \"127.0.0.1:{port}\"\n", collecting("rows.sqlite"));
    let app = App::new(&config, &[]);
    let Some(disk) = Disk::below(&app) else { return };
    let server = app.start();
    assert_eq!(post(&server), 200);
    eventually("the record is a row", || {
        let database = rusqlite::Connection::open(app.path().join("rows.sqlite")).unwrap();
        database
            .query_row("SELECT count(*) FROM a", [], |row| row.get::<_, i64>(0))
            .ok()
            .filter(|count| *count == 1)
    });
    assert!(!server.has_logged("log_gone"), "a log without a record has no folder yet");
    let begun = Instant::now();
    drop(disk);
    // The sockets in the folder of the log are gone too.
    let ask = |path: &str| {
        let mut client = Client::connect(SocketAddr::from(([127, 0, 0, 1], port)));
        assert!(client.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")));
        client.reply().unwrap()
    };
    eventually("the server is not ready", || {
        let reply = ask("/readyz");
        (reply.status == 503 && reply.content.contains("log_gone: ")).then_some(())
    });
    println!("log_gone: reported after {:.1} s", begun.elapsed().as_secs_f64());
    check_refused_without_log(&server);
    let refused = sample(&ask("/metrics").content, "tollgate_refusals_total{reason=\"log_gone\"}");
    assert_eq!(refused, 1);
    assert_eq!(
        sample(&ask("/metrics").content, "tollgate_finding{code=\"log_gone\",severity=\"reason\"}"),
        1
    );
    eventually("the log has a line", || server.has_logged("\"code\":\"log_gone\"").then_some(()));
    let status = app.run(&["status"]);
    assert!(
        !status.status.success() && printed(&status).contains("no server answers"),
        "{}",
        printed(&status)
    );
}

fn check_refused_without_log(server: &Running) {
    let reply = server.connect().post("/a", "[{\"n\":1}]").unwrap();
    assert_eq!((reply.status, reply.field("tollgate-outcome")), (503, Some("refused")), "{reply:?}");
    assert!(reply.content.contains("the disk of the log is away: nothing was recorded"), "{reply:?}");
}

#[test]
fn records_are_accepted_again_when_the_folder_of_the_log_is_back_and_none_is_lost() {
    let app = App::new(&collecting("data/tollgate.sqlite"), &[]);
    let server = app.start_with(&["--no-load"]);
    let mut accepted = 1;
    assert_eq!(post(&server), 200);
    let segment = app.segments().remove(0);
    let (folder, aside) = (segment.parent().unwrap(), app.path().join("aside"));
    for _ in 0..3 {
        fs::rename(folder, &aside).unwrap();
        eventually("records are refused", || {
            let is_accepted = post(&server) == 200;
            accepted += usize::from(is_accepted);
            (!is_accepted).then_some(())
        });
        check_refused_without_log(&server);
        get_until(&app, "/readyz", 503, "log_gone: ");
        fs::rename(&aside, folder).unwrap();
        eventually("records are accepted", || (post(&server) == 200).then_some(()));
        accepted += 1;
        get_until(&app, "/readyz", 200, "ready");
    }
    assert!(server.stop().0.success());
    assert!(app.run(&["load", "--once"]).status.success());
    assert_eq!(app.query::<i64>("SELECT count(*) FROM a"), [accepted as i64]);
    app.settle();
}

#[test]
fn a_dead_backend_is_named_and_has_its_alarms() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let config = format!(
        "[backend.dead]\nurls = [\"http://127.0.0.1:{port}\"]\n[[route]]\npath = \"/p\"\nproxy = \"dead\"\n"
    );
    let app = App::new(&config, &[]);
    let server = app.start();
    let ask = || assert!(server.connect().get("/p").unwrap().status >= 502);
    let begun = Instant::now();
    eventually("the breaker opens", || {
        ask();
        server.has_logged("breaker opened").then_some(())
    });
    let alarms = &["TollgateBackendDown", "TollgateErrors", "TollgateRouteFailing"];
    let follows = Some("route_failing");
    let report = Report { readiness: 200, code: "backend_down", line: "breaker opened", follows, alarms };
    report.check(&app, &server, begun, ask);
}

#[test]
fn an_endless_loop_of_a_script_is_named_and_has_its_alarms() {
    let config = "[script]\ncpu_budget = \"10ms\"\n[[route]]\npath = \"/loop\"\nscript = \"loop.luau\"\n";
    let app = App::new(config, &[("loop.luau", "return function() while true do end end")]);
    let server = app.start();
    let ask = || assert_eq!(server.connect().get("/loop").unwrap().status, 500);
    let begun = Instant::now();
    (0..12).for_each(|_| ask());
    let alarms = &["TollgateErrors", "TollgateRouteFailing", "TollgateScriptsFail"];
    let report =
        Report { readiness: 200, code: "route_failing", line: "script failed", follows: None, alarms };
    report.check(&app, &server, begun, ask);
}

#[test]
fn full_connections_are_named_and_have_their_alarms() {
    let app = App::new("connections_max = 8\n[[route]]\npath = \"/\"\nreply = {}\n", &[]);
    let server = app.start();
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    let begun = Instant::now();
    for client in &mut clients {
        assert!(client.get("/").unwrap().is_success());
    }
    assert_eq!(server.connect().get("/").unwrap().status, 503);
    let alarms = &["TollgateNotReady", "TollgateRefusing"];
    let report =
        Report { readiness: 503, code: "connections_full", line: "connections_max", follows: None, alarms };
    report.check(&app, &server, begun, || assert_eq!(server.connect().get("/").unwrap().status, 503));
}

#[test]
fn a_damaged_segment_is_named_and_has_its_alarm() {
    let app = App::new(&collecting("data/tollgate.sqlite"), &[]);
    let server = app.start_with(&["--no-load"]);
    (0..3).for_each(|_| assert_eq!(post(&server), 200));
    assert!(server.stop().0.success());
    let segment = app.segments().remove(0);
    // The last bytes of a sealed segment are its footer.
    let mut file = OpenOptions::new().write(true).open(&segment).unwrap();
    file.seek(SeekFrom::End(-8)).unwrap();
    file.write_all(&[0xff; 8]).unwrap();
    let begun = Instant::now();
    let server = app.start();
    let report = Report {
        readiness: 200,
        code: "segments_damaged",
        line: segment.file_name().unwrap().to_str().unwrap(),
        follows: None,
        alarms: &["TollgateDamagedSegments"],
    };
    report.check(&app, &server, begun, || assert_eq!(post(&server), 200));
}

#[test]
fn a_refused_reload_is_named_and_has_its_alarm() {
    let app = App::new("[[route]]\npath = \"/\"\nreply = {}\n", &[]);
    let server = app.start();
    app.write("tollgate.toml", &app.config().replace("[server]\n", "[server]\nbaklog = 4\n"));
    let begun = Instant::now();
    assert!(!app.run(&["reload"]).status.success());
    let report = Report {
        readiness: 200,
        code: "reload_refused",
        line: "baklog",
        follows: None,
        alarms: &["TollgateReloadRefused"],
    };
    report.check(&app, &server, begun, || assert!(server.connect().get("/").unwrap().is_success()));
}

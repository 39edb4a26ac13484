//! `ack = "loaded"`: when a reply reports success, its rows are in the database and visible to every
//! connection. Any other reply has the outcome `refused` or `unknown`.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::process::Signal;

use crate::client::{Client, Reply, post};
use crate::cluster::{Cluster, shared};
use crate::program::{App, Running, eventually, is_quick_once, printed};

/// The configuration of a server with two streams. Replies of one wait for the database, and replies of the
/// other wait for the disk.
const CONFIG: &str = r#"
workers = 2
drain_timeout = "4s"
[stream.a]
ack = "loaded"
ack_timeout = "TIMEOUT"
key = "request.header.idempotency-key"
columns = [{ name = "n", type = "int", from = "record.n" }]
[stream.b]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
[[route]]
path = "/b"
collect = true
stream = "b"
[[route]]
path = "/script"
script = "keep.luau"
stream = "a"
"#;
const KEEP: &str =
    "return function(req) return { status = 201, body = 'kept', record = { n = req.query.n } } end";
const SQLITE: &str = "[sink.main]\nsqlite = \"data/tollgate.sqlite\"\n";
/// Time that is longer than any intended wait of a test.
const LONG: &str = "20s";
const CLIENTS: u64 = 8;
const DEPTH: u64 = 4;
const KILLS: u64 = 3;

fn app(timeout: &str, sinks: &str) -> App {
    App::new(&format!("{}{sinks}", CONFIG.replace("TIMEOUT", timeout)), &[("keep.luau", KEEP)])
}

fn item(n: u64) -> String {
    format!("{{\"n\":{n}}}")
}

/// Opens a connection to the database. Its statements fail at once while another connection holds a lock.
fn database(app: &App) -> Connection {
    app.database()
}

/// Returns the number of rows with the number `n` that another connection to the database sees now.
fn count(database: &Connection, n: u64) -> i64 {
    let question = "SELECT count(*) FROM a WHERE n = ?1";
    database.query_row(question, [n.cast_signed()], |row| row.get(0)).unwrap()
}

/// Locks the database for all other writers until the returned connection is dropped.
fn lock(app: &App) -> Connection {
    let lock = database(app);
    lock.busy_timeout(Duration::from_secs(20)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    lock
}

fn check_unknown(reply: &Reply) {
    assert_eq!((reply.status, reply.field("tollgate-outcome")), (503, Some("unknown")), "{reply:?}");
    assert_eq!(reply.field("retry-after"), None, "{reply:?}");
}

fn check_refused(reply: &Reply) {
    assert_eq!((reply.status, reply.field("tollgate-outcome")), (503, Some("refused")), "{reply:?}");
    assert_eq!(reply.field("retry-after"), Some("1"), "{reply:?}");
}

fn is_refused(reply: &Reply) -> bool {
    reply.field("tollgate-outcome") == Some("refused")
}

/// Sends numbers, some of them in one packet on a connection. Passes each acknowledged number to `check` at
/// that moment.
fn drive(server: &Running, rounds: u64, check: impl Fn(u64) + Sync) {
    let check = &check;
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let mut connection = server.connect();
                for round in 0..rounds {
                    let first = (client * rounds + round) * DEPTH;
                    let numbers = first..first + DEPTH;
                    let requests: String = numbers.clone().map(|n| post("/a", &item(n))).collect();
                    assert!(connection.send(&requests));
                    for n in numbers {
                        let reply = connection.reply().unwrap();
                        assert_eq!((reply.status, reply.content.as_str()), (200, "{\"recorded\":1}\n"));
                        assert_eq!(reply.field("tollgate-ack"), None);
                        check(n);
                    }
                }
            });
        }
    });
}

#[test]
fn a_row_is_there_for_anybody_when_its_reply_comes() {
    let app = app(LONG, SQLITE);
    let server = app.start();
    assert!(server.connect().post("/a", &item(1_000_000)).unwrap().is_success());
    drive(&server, 20, |n| assert_eq!(count(&database(&app), n), 1, "{n}"));
    assert!(server.stop().0.success());
    assert_eq!(
        app.query::<i64>("SELECT count(*) FROM a"),
        [i64::try_from(CLIENTS * DEPTH * 20).unwrap() + 1]
    );
    app.settle();
}

#[test]
fn a_row_is_there_for_anybody_when_its_reply_comes_in_postgresql_too() {
    let name = shared().database();
    let app = app(LONG, &format!("[sink.main]\npostgres = \"{}\"\n", shared().url(&name)));
    let server = app.start();
    drive(&server, 3, |n| {
        assert_eq!(shared().sql(&name, &format!("SELECT count(*) FROM a WHERE n = {n}")), "1", "{n}");
    });
    let mut client = server.connect();
    shared().sql(&name, "CREATE UNIQUE INDEX ON a (n)");
    check_rejected(
        &client.post("/a", &item(1)).unwrap(),
        0,
        &[(0, "the database refused this record and kept it as a reject")],
    );
    let reply = client.post("/a", "[{\"n\":\"x\"},{\"n\":1000},{\"n\":2}]").unwrap();
    let unfit = "column \"n\" takes int, found \"x\"";
    check_rejected(&reply, 1, &[(0, unfit), (2, "the database refused this record and kept it as a reject")]);
    assert!(server.stop().0.success());
    assert_eq!(shared().sql(&name, "SELECT count(*) FROM tollgate.rejects"), "3");
}

#[test]
fn a_lone_request_does_not_wait_for_others_to_gather() {
    let app = app(LONG, SQLITE);
    let server = app.start();
    let mut client = server.connect();
    assert!(client.post("/a", &item(0)).unwrap().is_success());
    // The loader gathers records without a waiting reply for 100 ms. It checks for new logs every second.
    const REQUESTS: u32 = 20;
    const GATHER: Duration = Duration::from_millis(100);
    is_quick_once("twenty requests", REQUESTS * GATHER, || {
        let begun = Instant::now();
        for n in 1..=REQUESTS.into() {
            assert!(client.post("/b", &item(n)).unwrap().is_success());
            assert!(client.post("/a", &item(n)).unwrap().is_success());
        }
        begun.elapsed()
    });
}

#[test]
fn a_database_that_is_locked_makes_replies_unknown_then_refused_and_recovers() {
    let app = app("500ms", SQLITE);
    let server = app.start();
    let mut client = server.connect();
    assert!(client.post("/a", &item(0)).unwrap().is_success());
    let lock = lock(&app);
    // All requests are sent together, because after the first request the server knows that the sink is away.
    assert!(client.send(&(post("/a", &item(1)) + &post("/a", &item(2)) + &post("/b", &item(3)))));
    check_unknown(&client.reply().unwrap());
    check_unknown(&client.reply().unwrap());
    assert_eq!(client.reply().unwrap().status, 200);
    let mut unknown = vec![1, 2];
    let mut next = 10..;
    eventually("the breaker is open", || {
        let n = next.next().unwrap();
        let reply = client.post("/a", &item(n)).unwrap();
        if !is_refused(&reply) {
            check_unknown(&reply);
            unknown.push(n);
            return None;
        }
        check_refused(&reply);
        Some(())
    });
    // The server refuses at once, without running the handler.
    let refused = client.get("/script?n=9").unwrap();
    check_refused(&refused);
    assert!(client.post("/b", &item(4)).unwrap().is_success());
    drop(lock);
    eventually("it is taken again", || {
        let reply = client.post("/a", &item(5)).unwrap();
        (!is_refused(&reply)).then(|| assert!(reply.is_success(), "{reply:?}"))
    });
    let database = database(&app);
    unknown.iter().for_each(|n| assert_eq!(count(&database, *n), 1, "{n}"));
    assert_eq!(count(&database, 9), 0);
    assert_eq!(count(&database, 5), 1);
    assert!(server.stop().0.success());
    app.settle();
    unknown.iter().for_each(|n| assert_eq!(count(&database, *n), 1, "{n}"));
}

#[test]
fn a_postgresql_that_goes_away_makes_replies_unknown_or_refused_and_recovers() {
    let cluster = Cluster::start("");
    let name = cluster.database();
    let app = app("1s", &format!("[sink.main]\npostgres = \"{}\"\n", cluster.url(&name)));
    let server = app.start();
    let mut client = server.connect();
    assert!(client.post("/a", &item(0)).unwrap().is_success());
    cluster.stop_immediately();
    let mut unknown = Vec::new();
    let mut next = 1..;
    eventually("the breaker is open", || {
        let n = next.next().unwrap();
        let reply = client.post("/a", &item(n)).unwrap();
        if is_refused(&reply) {
            return Some(());
        }
        check_unknown(&reply);
        unknown.push(n);
        None
    });
    assert!(!unknown.is_empty());
    cluster.boot();
    eventually("it is taken again", || client.post("/a", &item(1000)).unwrap().is_success().then_some(()));
    for n in unknown {
        assert_eq!(cluster.sql(&name, &format!("SELECT count(*) FROM a WHERE n = {n}")), "1", "{n}");
    }
}

fn check_rejected(reply: &Reply, recorded: u64, rejected: &[(usize, &str)]) {
    assert_eq!((reply.status, reply.field("tollgate-outcome")), (422, Some("rejected")), "{reply:?}");
    assert_eq!(reply.field("content-type"), Some("application/json"), "{reply:?}");
    let listed =
        rejected.iter().map(|(index, reason)| serde_json::json!({ "index": index, "reason": reason }));
    let expected = serde_json::json!({
        "recorded": recorded, "rejected_count": rejected.len(), "rejected": listed.collect::<Vec<_>>(),
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&reply.content).unwrap(), expected);
}

#[test]
fn a_record_that_is_no_row_makes_the_reply_422_and_its_neighbours_stay_as_they_are() {
    let app = app(LONG, SQLITE);
    let server = app.start();
    let mut client = server.connect();
    assert!(client.post("/a", &item(1)).unwrap().is_success());
    database(&app).execute_batch("CREATE UNIQUE INDEX ours ON a (n)").unwrap();
    let requests = [
        post("/a", &item(2)),
        post("/a", &item(1)),
        post("/a", &item(3)),
        post("/a", "[{\"n\":\"x\"},{\"n\":4},{\"n\":1}]"),
    ];
    assert!(client.send(&requests.concat()));
    let mut reply = || client.reply().unwrap();
    assert_eq!(reply().status, 200);
    // The client does not see the database's own error text.
    check_rejected(&reply(), 0, &[(0, "the database refused this record and kept it as a reject")]);
    assert_eq!(reply().status, 200);
    let unfit = "column \"n\" takes int, found \"x\"";
    check_rejected(
        &reply(),
        1,
        &[(0, unfit), (2, "the database refused this record and kept it as a reject")],
    );
    let script = client.get("/script?n=words").unwrap();
    check_rejected(&script, 0, &[(0, "the database refused this record and kept it as a reject")]);
    assert!(script.field("x-request-id").is_some());
    let mut script = |n: u64| client.get(&format!("/script?n={n}")).unwrap();
    assert_eq!(script(7).status, 422, "a text is no int");
    let log = server.stop().1;
    assert!(log.contains("UNIQUE constraint failed: a.n"), "{log}");
    assert_eq!(app.query::<i64>("SELECT n FROM a ORDER BY n"), [1, 2, 3, 4]);
    assert_eq!(app.query::<i64>("SELECT count(*) FROM tollgate_rejects"), [5]);
}

#[test]
fn a_retry_with_its_key_is_a_success_and_no_second_row() {
    let app = app(LONG, SQLITE);
    let server = app.start();
    let mut client = server.connect();
    let request = post("/a", &item(1)).replace("Host: a", "Host: a\r\nIdempotency-Key: k");
    for _ in 0..3 {
        assert!(client.send(&request));
        assert_eq!(client.reply().unwrap().status, 200);
        assert_eq!(count(&database(&app), 1), 1);
    }
}

#[test]
fn every_reply_before_sigkill_has_its_row_without_a_further_load() {
    let app = app(LONG, SQLITE);
    let mut next = 0;
    for _ in 0..KILLS {
        let server = app.start();
        let address = server.address();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                thread::spawn(move || {
                    let mut acknowledged = Vec::new();
                    let mut connection = Client::connect(address);
                    for n in (0..).map(|round| next + round * CLIENTS + client) {
                        match connection.post("/a", &item(n)) {
                            Some(reply) => assert!(reply.is_success(), "{reply:?}"),
                            None => return (n, acknowledged),
                        }
                        acknowledged.push(n);
                    }
                    unreachable!("the numbers end")
                })
            })
            .collect();
        let rows = || database(&app).query_row("SELECT count(*) FROM a", [], |row| row.get::<_, i64>(0));
        let before = rows().unwrap_or_default();
        eventually("some are loaded", || rows().is_ok_and(|rows| rows > before + 300).then_some(()));
        server.kill();
        let database = database(&app);
        for client in clients {
            let (last, acknowledged) = client.join().unwrap();
            assert!(!acknowledged.is_empty());
            acknowledged.iter().for_each(|n| assert_eq!(count(&database, *n), 1, "{n}"));
            next = next.max(last + CLIENTS);
        }
    }
    app.settle();
    assert_eq!(app.query::<i64>("SELECT count(*) - count(DISTINCT n) FROM a"), [0]);
}

#[test]
fn the_named_one_of_two_sinks_is_waited_for_and_no_other() {
    let sinks = format!("{SQLITE}[sink.other]\nsqlite = \"data/other.sqlite\"\n");
    let config = CONFIG.replace("TIMEOUT", LONG).replace("ack = \"loaded\"", "ack = { loaded = \"main\" }");
    let app = App::new(&format!("{config}{sinks}"), &[("keep.luau", KEEP)]);
    let server = app.start();
    let mut client = server.connect();
    assert!(client.post("/a", &item(1)).unwrap().is_success());
    let other = app.path().join("data/other.sqlite");
    let lock = Connection::open(&other).unwrap();
    lock.busy_timeout(Duration::from_secs(20)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    for n in 2..50 {
        assert!(client.post("/a", &item(n)).unwrap().is_success());
        assert_eq!(count(&database(&app), n), 1);
    }
    lock.execute_batch("ROLLBACK").unwrap();
    assert!(server.stop().0.success());
    let rows: i64 =
        Connection::open(&other).unwrap().query_row("SELECT count(*) FROM a", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 49);
}

/// Stops a server while a reply waits for a locked database. Returns the server, the lock, and the client.
fn stopped_while_one_waits(app: &App) -> (Running, Client, Connection) {
    let server = app.start();
    let mut client = server.connect();
    assert!(client.post("/a", &item(1)).unwrap().is_success());
    let lock = lock(app);
    assert!(client.send(&post("/a", &item(2))));
    let waiting = || app.succeed(&["log", "cat", "--format", "json"]).lines().count() == 2;
    eventually("it is in the log", || waiting().then_some(()));
    server.signal(Signal::TERM);
    (server, client, lock)
}

#[test]
fn a_stop_answers_who_waits_with_what_is_known() {
    let app = app(LONG, SQLITE);
    let (server, mut client, lock) = stopped_while_one_waits(&app);
    check_unknown(&client.reply().unwrap());
    assert!(client.ends());
    drop(lock);
    assert!(server.wait().0.success());
    assert_eq!(count(&database(&app), 2), 1);
}

#[test]
fn a_stop_lets_the_loader_answer_who_waits() {
    let app = app(LONG, SQLITE);
    let (server, mut client, lock) = stopped_while_one_waits(&app);
    eventually("it takes nobody on", || Client::try_connect(server.address()).is_none().then_some(()));
    drop(lock);
    assert_eq!(client.reply().unwrap().status, 200);
    assert_eq!(count(&database(&app), 2), 1);
    assert!(server.wait().0.success());
}

#[test]
fn a_server_that_cannot_load_its_awaited_sink_neither_starts_nor_reloads() {
    let app = app(LONG, SQLITE);
    let refused = app.run(&["serve", "--no-load", "."]);
    assert_eq!(refused.status.code(), Some(2));
    let expected = "tollgate.toml:8:7: ack of [stream.a] is \"loaded\", which needs the loader of the \
                    server: the server is started with --no-load, start it without";
    assert!(printed(&refused).contains(expected), "{}", printed(&refused));
    let good = app.config();
    app.write("tollgate.toml", &good.replace("ack = \"loaded\"\nack_timeout = \"20s\"", "ack = \"written\""));
    let server = app.start_with(&["--no-load"]);
    app.write("tollgate.toml", &good);
    let reload = app.run(&["reload"]);
    assert_eq!(reload.status.code(), Some(2));
    assert!(printed(&reload).contains(expected), "{}", printed(&reload));
    assert!(server.stop().0.success());

    let server = app.start();
    // A reload may make the replies of a stream wait for the sink.
    app.write("tollgate.toml", &good.replace("[stream.b]", "[stream.b]\nack = \"loaded\""));
    app.succeed(&["reload"]);
    let mut client = server.connect();
    for n in 0..10 {
        assert!(client.post("/b", &item(n)).unwrap().is_success());
        let rows: i64 = database(&app).query_row("SELECT count(*) FROM b", [], |row| row.get(0)).unwrap();
        assert_eq!(rows.cast_unsigned(), n + 1);
    }
}

#[test]
fn replies_wait_for_a_sink_of_the_same_reload_and_it_stays_while_they_may() {
    let app = app(LONG, SQLITE);
    let server = app.start();
    let mut client = server.connect();
    assert!(client.post("/a", &item(1)).unwrap().is_success());
    let good = app.config();
    let with_other = |config: &str| format!("{config}[sink.other]\nsqlite = \"data/other.sqlite\"\n");
    let moved = with_other(&good.replace("ack = \"loaded\"", "ack = { loaded = \"other\" }"));
    app.write("tollgate.toml", &moved);
    app.succeed(&["reload"]);
    let other = Connection::open(app.path().join("data/other.sqlite")).unwrap();
    for n in 2..20 {
        assert!(client.post("/a", &item(n)).unwrap().is_success());
        assert_eq!(count(&other, n), 1);
    }
    assert!(app.succeed(&["status"]).contains("other"));

    // A reply may still wait for the sink. The stream must therefore change to another sink before a second
    // reload removes the first sink.
    app.write("tollgate.toml", &good);
    let reload = app.run(&["reload"]);
    assert_eq!(reload.status.code(), Some(2));
    let expected = "[sink.other] no longer takes stream \"a\", but replies of the stream wait for it: first \
                    change ack of [stream.a]";
    assert!(printed(&reload).contains(expected), "{}", printed(&reload));
    app.write("tollgate.toml", &with_other(&good.replace("ack = \"loaded\"", "ack = { loaded = \"main\" }")));
    app.succeed(&["reload"]);
    app.write("tollgate.toml", &good);
    app.succeed(&["reload"]);
    assert!(client.post("/a", &item(20)).unwrap().is_success());
    assert_eq!(count(&database(&app), 20), 1);
    assert!(!app.succeed(&["status"]).contains("other"));
    assert!(server.stop().0.success());
}

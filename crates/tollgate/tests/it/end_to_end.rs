//! Twenty thousand requests: every reply fits its request, every record is a row, once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, get, post};
use crate::program::{App, eventually};

const CONNECTIONS: i64 = 16;
const REQUESTS_PER_CONNECTION: i64 = 1250;
const PIPELINE_DEPTH: i64 = 16;
/// Beyond what doubles tell apart.
const BIG: i64 = 1 << 53;

const CONFIG: &str = r#"
workers = 2
[log]
segment_bytes_max = "256KiB"
[stream.scores]
columns = [
  { name = "at", type = "timestamp", from = "request.time" },
  { name = "client", type = "inet", from = "request.remote_addr" },
  { name = "method", type = "text", from = "request.method" },
  { name = "path", type = "text", from = "request.path" },
  { name = "status", type = "int", from = "reply.status" },
  { name = "took_us", type = "int", from = "reply.time_us" },
  { name = "n", type = "int", from = "record.n" },
  { name = "score", type = "float", from = "record.score" },
]
[stream.events]
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "big", type = "int", from = "record.big" },
  { name = "note", type = "text", from = "record.note" },
  { name = "flag", type = "bool", from = "record.flag" },
  { name = "extra", type = "json", from = "record.extra" },
  { name = "id", type = "uuid", from = "record.id" },
  { name = "at", type = "timestamp", from = "record.at" },
  { name = "raw", type = "bytes", from = "record.raw" },
  { name = "ip", type = "inet", from = "record.ip" },
]
[[route]]
path = "/score"
script = "score.luau"
stream = "scores"
[[route]]
path = "/collect"
collect = true
stream = "events"
"#;

const SCORE: &str = r#"
local function answer(n)
  return { json = { score = n * 2 + 0.5 }, record = { n = n, score = n * 2 + 0.5 } }
end
return {
  GET = function(req)
    if req.query.fail then error("asked to fail") end
    return answer(tonumber(req.query.n))
  end,
  POST = function(req) return answer(req:json().n) end,
}
"#;

/// One request, and what its reply has to be.
struct Call {
    request: String,
    expect: String,
}

fn scored(n: i64) -> Call {
    let request = match n % 2 {
        0 => get(&format!("/score?n={n}")),
        _ => post("/score", &format!("{{\"n\":{n}}}")),
    };
    Call { request, expect: format!("{{\"score\":{}.5}}", n * 2) }
}

fn item(n: i64) -> String {
    format!(
        r#"{{"n":{n},"big":{big},"note":"grüße {n}","flag":{flag},"extra":{{"deep":[{n},null]}},"id":"00000000-0000-0000-0000-{n:012}","at":"2024-01-01T00:00:00.{micros:06}Z","raw":"AP8=","ip":"10.0.0.{low}"}}"#,
        big = BIG + n,
        flag = n % 3 == 0,
        micros = n % 1_000_000,
        low = n % 256,
    )
}

/// An object, an array of two, or two lines; the items after the first have numbers far above all others.
fn collected(n: i64) -> Call {
    let (first, second) = (item(n), item(n + EXTRA));
    let (body, count) = match n % 3 {
        0 => (first, 1),
        1 => (format!("[{first},{second}]"), 2),
        _ => (format!("{first}\n{second}\n"), 2),
    };
    Call { request: post("/collect", &body), expect: format!("{{\"recorded\":{count}}}\n") }
}

const EXTRA: i64 = 1_000_000;

fn call(n: i64) -> Call {
    if n % 4 < 2 { scored(n) } else { collected(n) }
}

/// Sends the requests of one connection, some of them sixteen at once, and checks each reply.
fn drive(address: SocketAddr, connection: i64) {
    let mut client = Client::connect(address);
    let depth = if connection % 2 == 0 { PIPELINE_DEPTH } else { 1 };
    let first = connection * REQUESTS_PER_CONNECTION;
    let calls: Vec<_> = (first..first + REQUESTS_PER_CONNECTION).map(call).collect();
    for batch in calls.chunks(depth as usize) {
        assert!(client.send(&batch.iter().map(|call| call.request.as_str()).collect::<String>()));
        for call in batch {
            let reply = client.reply().expect("a reply");
            assert_eq!((reply.status, &reply.content), (200, &call.expect), "{}", call.request);
        }
    }
}

#[test]
fn every_reply_fits_its_request_and_every_record_is_one_row() {
    let app = App::new(CONFIG, &[("score.luau", SCORE)]);
    let server = app.start();
    let address = server.address();
    let drivers: Vec<_> =
        (0..CONNECTIONS).map(|connection| thread::spawn(move || drive(address, connection))).collect();
    drivers.into_iter().for_each(|driver| driver.join().unwrap());
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(app.segments().len() > 3, "the log rolled");
    check_scores(&app);
    check_events(&app);
    assert!(app.succeed(&["audit"]).contains("\nexact:"));
    app.succeed(&["log", "verify"]);
}

fn numbers() -> impl Iterator<Item = i64> {
    0..CONNECTIONS * REQUESTS_PER_CONNECTION
}

fn check_scores(app: &App) {
    let database = app.database();
    let mut statement = database
        .prepare("SELECT n, score, method, path, status, client, took_us, at FROM scores ORDER BY n")
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    for n in numbers().filter(|n| n % 4 < 2) {
        let row = rows.next().unwrap().expect("a row");
        let method = if n % 2 == 0 { "GET" } else { "POST" };
        assert_eq!(row.get::<_, i64>(0).unwrap(), n);
        assert_eq!(row.get::<_, f64>(1).unwrap(), n as f64 * 2.0 + 0.5);
        let texts: Vec<String> = [2, 3, 5].iter().map(|column| row.get(*column).unwrap()).collect();
        assert_eq!(texts, [method, "/score", "127.0.0.1"]);
        assert_eq!(row.get::<_, i64>(4).unwrap(), 200);
        assert!((0..60_000_000).contains(&row.get::<_, i64>(6).unwrap()));
        assert!(row.get::<_, String>(7).unwrap().starts_with("20"));
    }
    assert!(rows.next().unwrap().is_none(), "no further row");
}

fn check_events(app: &App) {
    let database = app.database();
    let columns = "n, big, note, flag, extra, id, at, hex(raw), ip";
    let mut statement = database.prepare(&format!("SELECT {columns} FROM events ORDER BY n")).unwrap();
    let mut rows = statement.query([]).unwrap();
    let collected = || numbers().filter(|n| n % 4 >= 2);
    let extra = collected().filter(|n| n % 3 != 0).map(|n| n + EXTRA);
    for n in collected().chain(extra) {
        let row = rows.next().unwrap().expect("a row");
        let integers: Vec<i64> = [0, 1, 3].iter().map(|column| row.get(*column).unwrap()).collect();
        assert_eq!(integers, [n, BIG + n, i64::from(n % 3 == 0)]);
        let texts: Vec<String> = [2, 4, 5, 6, 7, 8].iter().map(|column| row.get(*column).unwrap()).collect();
        let expect = [
            format!("grüße {n}"),
            format!("{{\"deep\":[{n},null]}}"),
            format!("00000000-0000-0000-0000-{n:012}"),
            format!("2024-01-01T00:00:00.{:06}Z", n % 1_000_000),
            "00FF".to_owned(),
            format!("10.0.0.{}", n % 256),
        ];
        assert_eq!(texts, expect);
    }
    assert!(rows.next().unwrap().is_none(), "no further row");
}

#[test]
fn items_that_do_not_fit_are_told_and_kept_beside_those_that_do() {
    let app = App::new(CONFIG, &[("score.luau", SCORE)]);
    let server = app.start();
    let mut client = server.connect();
    assert!(client.send(&post("/collect", r#"[{"n":1},{"n":"one"},{"m":2}]"#)));
    let reply = client.reply().unwrap();
    assert!(
        reply.content.contains(r#""recorded":1,"#) && reply.content.contains(r#""index":1"#),
        "{reply:?}"
    );
    assert!(server.stop().0.success());
    assert_eq!(app.query::<i64>("SELECT n FROM events"), [1]);
    let rejects = app.query::<String>("SELECT stream || ': ' || reason || ': ' || CAST(item AS TEXT) FROM tollgate_rejects ORDER BY sequence");
    let expect = [
        r#"events: column "n" takes int, found "one": {"n":"one"}"#,
        r#"events: record has unknown fields: "m": {"m":2}"#,
    ];
    assert_eq!(rejects, expect);
}

#[test]
fn a_script_that_fails_is_a_500_a_traceback_and_a_row() {
    let app = App::new(CONFIG, &[("score.luau", SCORE)]);
    let server = app.start();
    let reply = server.connect().get("/score?n=1&fail=1").unwrap();
    assert_eq!((reply.status, reply.content.as_str()), (500, "the script failed\n"));
    let (status, log) = server.stop();
    assert!(status.success());
    assert!(log.contains("score.luau:7: asked to fail"), "{log}");
    assert_eq!(app.query::<i64>("SELECT status FROM scores WHERE n IS NULL"), [500]);
}

#[test]
fn rows_are_there_within_a_second_of_the_reply_at_moderate_load() {
    let app = App::new(CONFIG, &[("score.luau", SCORE)]);
    let server = app.start();
    let mut client = server.connect();
    assert!(client.get("/score?n=-1").unwrap().is_success());
    eventually("the table is there", || app.has_table("scores").then_some(()));
    let mut delays = BTreeMap::new();
    for n in 0..30 {
        for filler in 0..10 {
            assert!(client.get(&format!("/score?n={}", 1000 + n * 10 + filler)).unwrap().is_success());
        }
        assert!(client.get(&format!("/score?n={n}")).unwrap().is_success());
        let begun = Instant::now();
        let count = format!("SELECT count(*) FROM scores WHERE n = {n}");
        eventually("the row is there", || (app.query::<i64>(&count) == [1]).then_some(()));
        delays.insert(n, begun.elapsed());
    }
    let slowest = delays.values().max().unwrap();
    assert!(*slowest < Duration::from_secs(1), "{delays:?}");
}

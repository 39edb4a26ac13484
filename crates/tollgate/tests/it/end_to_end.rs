//! Twenty thousand requests: every reply belongs to its request, and every record is exactly one row.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{Client, get, post};
use crate::program::{App, Running, eventually, is_quick_once};

const CONNECTIONS: i64 = 16;
const REQUESTS_PER_CONNECTION: i64 = 1250;
const PIPELINE_DEPTH: i64 = 16;
/// A number that is larger than the integers that a double represents exactly.
const BIG: i64 = 1 << 53;
/// Time between two requests on one connection: a moderate load.
const PACE: Duration = Duration::from_millis(5);
const PACED_REQUESTS: usize = 200;
/// Maximum time until a row is visible. The usual time is some tens of milliseconds.
const FRESH: Duration = Duration::from_secs(1);

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
    if req.query.unfit then return { status = 202, record = { n = "many" } } end
    return answer(tonumber(req.query.n))
  end,
  POST = function(req) return answer(req:json().n) end,
}
"#;

/// A request, and its expected reply.
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

/// An item and its row, with a column of each type and each way to have no value.
struct Event {
    n: i64,
}

impl Event {
    /// Returns positive and negative numbers, and odd numbers that a double would round.
    fn big(&self) -> i64 {
        if self.n % 2 == 0 { BIG + 1 + self.n } else { -BIG - self.n }
    }

    fn note(&self) -> Option<String> {
        (self.n % 5 != 0).then(|| format!("grüße 🦀 {}", self.n))
    }

    fn raw(&self) -> Option<[u8; 2]> {
        (self.n % 7 != 0).then_some([0, self.n as u8])
    }

    fn ip(&self) -> String {
        match self.n % 2 {
            0 => format!("10.0.0.{}", self.n % 256),
            _ => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1 + (self.n % 999) as u16).to_string(),
        }
    }

    /// Returns the item as JSON. One text is null, and some bytes are absent.
    fn json(&self) -> String {
        let n = self.n;
        let note = self.note().map_or("null".to_owned(), |note| format!("\"{note}\""));
        let raw = self.raw().map_or(String::new(), |raw| format!(r#""raw":"{}","#, base64(raw)));
        format!(
            r#"{{"n":{n},"big":{},"note":{note},"flag":{},"extra":{{"deep":[{n},null]}},"id":"00000000-0000-0000-0000-{n:012}","at":"2024-01-01T01:00:00.{:06}+01:00",{raw}"ip":"{}"}}"#,
            self.big(),
            n % 3 == 0,
            n % 1_000_000,
            self.ip(),
        )
    }
}

/// Returns two bytes as base64: three digits and a pad (RFC 4648 section 4).
fn base64([high, low]: [u8; 2]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = (usize::from(high) << 16) | (usize::from(low) << 8);
    let digits = [18, 12, 6].map(|shift| char::from(DIGITS[(bits >> shift) & 63]));
    format!("{}=", digits.iter().collect::<String>())
}

fn item(n: i64) -> String {
    Event { n }.json()
}

/// Returns a request whose body is an object, an array of two items, or two lines. The second item has a
/// number far above all first items.
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
    check_nothing_else(&app);
    let audit = app.succeed(&["audit"]);
    assert!(audit.contains("\nexact:"), "{audit}");
    let verify = app.succeed(&["log", "verify"]);
    assert!(verify.ends_with(" 0 open, 0 torn, 0 bad\n"), "{verify}");
}

/// Checks that the database has no rejects, no gaps, and only the tables of the streams and of the server.
fn check_nothing_else(app: &App) {
    let tables = app
        .query::<String>("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
    let (ours, of_streams): (Vec<_>, Vec<_>) = tables.iter().partition(|name| name.starts_with("tollgate_"));
    assert_eq!((ours.len(), of_streams.len()), (12, 2), "{tables:?}");
    for table in
        ["rejects", "refusals", "gaps", "keys", "ticks", "origins"].map(|name| format!("tollgate_{name}"))
    {
        assert_eq!(app.query::<i64>(&format!("SELECT count(*) FROM {table}")), [0], "{table}");
    }
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
    let columns = "n, big, note, flag, extra, id, at, raw, ip";
    let mut statement = database.prepare(&format!("SELECT {columns} FROM events ORDER BY n")).unwrap();
    let mut rows = statement.query([]).unwrap();
    let collected = || numbers().filter(|n| n % 4 >= 2);
    let extra = collected().filter(|n| n % 3 != 0).map(|n| n + EXTRA);
    for n in collected().chain(extra) {
        let (row, event) = (rows.next().unwrap().expect("a row"), Event { n });
        let integers: Vec<i64> = [0, 1, 3].iter().map(|column| row.get(*column).unwrap()).collect();
        assert_eq!(integers, [n, event.big(), i64::from(n % 3 == 0)]);
        assert_eq!(row.get::<_, Option<String>>(2).unwrap(), event.note());
        let texts: Vec<String> = [4, 5, 6, 8].iter().map(|column| row.get(*column).unwrap()).collect();
        let expect = [
            format!("{{\"deep\":[{n},null]}}"),
            format!("00000000-0000-0000-0000-{n:012}"),
            format!("2024-01-01T00:00:00.{:06}Z", n % 1_000_000),
            event.ip(),
        ];
        assert_eq!(texts, expect);
        assert_eq!(row.get::<_, Option<Vec<u8>>>(7).unwrap(), event.raw().map(Vec::from));
    }
    assert!(rows.next().unwrap().is_none(), "no further row");
}

/// Returns the rejects as stream, reason and bytes of the item.
fn rejects(app: &App) -> Vec<(String, String, Vec<u8>)> {
    let database = app.database();
    let mut statement =
        database.prepare("SELECT stream, reason, item FROM tollgate_rejects ORDER BY sequence").unwrap();
    let rows = statement.query_map([], |row| {
        let item = row.get_ref(2)?.as_bytes().unwrap().to_vec();
        Ok((row.get(0)?, row.get(1)?, item))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn reject(stream: &str, reason: &str, item: &str) -> (String, String, Vec<u8>) {
    (stream.to_owned(), reason.to_owned(), item.as_bytes().to_vec())
}

#[test]
fn items_that_do_not_fit_are_told_by_index_and_kept_beside_those_that_do() {
    let app = App::new(CONFIG, &[("score.luau", SCORE)]);
    let server = app.start();
    let reply = server.connect().post("/collect", r#"[{"n":1},{"n":"grüße"},{"m":2},{"n":3}]"#).unwrap();
    let told = concat!(
        r#"{"recorded":2,"rejected_count":2,"rejected":[{"index":1,"reason":"column \"n\" takes int, found \"grüße\""},"#,
        r#"{"index":2,"reason":"record has unknown fields: \"m\""}]}"#,
        "\n"
    );
    assert_eq!((reply.status, reply.content.as_str()), (200, told));
    let reply = server.connect().post("/collect", "{\"n\":4}\nno JSON\n").unwrap();
    assert_eq!(reply.status, 200);
    assert!(
        reply.content.contains(r#""recorded":1,"rejected_count":1,"rejected":[{"index":1,"#),
        "{reply:?}"
    );
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    assert_eq!(app.query::<i64>("SELECT n FROM events ORDER BY n"), [1, 3, 4]);
    let mut kept = rejects(&app);
    let line = kept.pop().unwrap();
    let expect = [
        reject("events", r#"column "n" takes int, found "grüße""#, r#"{"n":"grüße"}"#),
        reject("events", r#"record has unknown fields: "m""#, r#"{"m":2}"#),
    ];
    assert_eq!(kept, expect);
    assert!(line.1.starts_with("item is not JSON") && line.2 == b"no JSON", "{line:?}");
    assert!(app.succeed(&["audit"]).contains("\nexact:"));
}

#[test]
fn a_body_that_is_no_json_is_refused_and_leaves_nothing() {
    let app = App::new(CONFIG, &[("score.luau", SCORE)]);
    let server = app.start();
    let reply = server.connect().post("/collect", "no JSON").unwrap();
    assert_eq!(reply.status, 400, "{reply:?}");
    assert!(server.stop().0.success());
    assert!(!app.has_table("events"));
    assert_eq!(rejects(&app), []);
}

#[test]
fn a_record_of_a_script_that_does_not_fit_is_kept_as_a_reject_and_the_reply_stands() {
    let app = App::new(CONFIG, &[("score.luau", SCORE)]);
    let server = app.start();
    assert_eq!(server.connect().get("/score?unfit=1").unwrap().status, 202);
    assert!(server.stop().0.success());
    let expect = reject("scores", r#"column "n" takes int, found "many""#, r#"{"n":"many","score":null}"#);
    assert_eq!(rejects(&app), [expect]);
}

#[test]
fn a_script_that_fails_is_a_500_a_traceback_and_a_row() {
    let app = App::new(CONFIG, &[("score.luau", SCORE)]);
    let server = app.start();
    let mut client = server.connect();
    let reply = client.get("/score?n=1&fail=1").unwrap();
    assert_eq!((reply.status, reply.content.as_str()), (500, "the script failed\n"));
    assert_eq!(client.get("/score?n=1").unwrap().status, 200, "the next call is not harmed");
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    let failed = log.lines().find(|line| line.contains("score.luau:7: asked to fail")).expect(&log);
    assert!(failed.contains("stack traceback") || failed.contains("\\n"), "{failed}");
    let rows = app.query::<String>("SELECT status || ' ' || coalesce(n, 'null') FROM scores ORDER BY status");
    assert_eq!(rows, ["200 1", "500 null"]);
}

/// Sends numbers from `first` on at an even pace. Returns the time of each reply.
fn drive_at_pace(address: SocketAddr, first: usize) -> Receiver<Instant> {
    let (sender, answered) = channel();
    thread::spawn(move || {
        let mut client = Client::connect(address);
        let begun = Instant::now();
        for n in 0..PACED_REQUESTS {
            thread::sleep((PACE * n as u32).saturating_sub(begun.elapsed()));
            assert!(client.get(&format!("/score?n={}", first + n)).expect("a reply").is_success());
            sender.send(Instant::now()).unwrap();
        }
    });
    answered
}

/// Reads the table until it has all numbers from `first` on. Returns the time of the first read that found
/// each number.
fn watch_rows(app: &App, first: usize) -> Vec<Instant> {
    let database = app.database();
    let mut statement = database.prepare("SELECT n FROM scores WHERE n >= ?1 ORDER BY n").unwrap();
    let mut seen = Vec::new();
    eventually("all rows are there", || {
        let next = (first + seen.len()) as i64;
        let new: Vec<i64> =
            statement.query_map([next], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert!(new.iter().copied().eq(next..next + new.len() as i64), "in the order of the log: {new:?}");
        seen.resize(seen.len() + new.len(), Instant::now());
        (seen.len() == PACED_REQUESTS).then_some(())
    });
    seen
}

#[test]
fn rows_are_there_within_a_second_of_the_reply_at_moderate_load() {
    let app = App::new(CONFIG, &[("score.luau", SCORE)]);
    check_freshness(&app, &app.start());
}

#[test]
fn rows_that_another_process_loads_are_there_within_a_second_of_the_reply_too() {
    let app = App::new(&format!("{CONFIG}[load]\nin_server = false\n"), &[("score.luau", SCORE)]);
    let server = app.start();
    let loader = app.follow(&["load"]);
    check_freshness(&app, &server);
    let (status, log) = loader.end(Signal::TERM);
    assert!(status.success(), "{log}");
}

fn check_freshness(app: &App, server: &Running) {
    assert!(server.connect().get("/score?n=-1").unwrap().is_success());
    eventually("the table is there", || app.has_table("scores").then_some(()));
    let mut first = 0;
    is_quick_once("the slowest row", FRESH, || {
        let answered = drive_at_pace(server.address(), first);
        let seen = watch_rows(app, first);
        first += PACED_REQUESTS;
        let mut delays: Vec<_> = seen
            .iter()
            .zip(answered)
            .map(|(seen, answered)| seen.saturating_duration_since(answered))
            .collect();
        delays.sort_unstable();
        assert_eq!(delays.len(), PACED_REQUESTS);
        let (median, slowest) = (delays[PACED_REQUESTS / 2], delays[PACED_REQUESTS - 1]);
        println!("from reply to row: median {median:?}, slowest {slowest:?}");
        slowest
    });
}

//! A retry with the same key: answered as any request, and one row.

use crate::client::Client;
use crate::cluster::shared;
use crate::postgres::numbers_of;
use crate::program::App;
use crate::sinks::{Numbers, kill_loaders, numbers_in};

const CONFIG: &str = r#"
[stream.orders]
key = "request.header.idempotency-key"
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "log", type = "uuid", from = "log.id" },
]
[[route]]
path = "/order"
script = "order.luau"
stream = "orders"
[[route]]
path = "/collect"
collect = true
stream = "orders"
"#;

const ORDER: &str =
    "return { POST = function(req) return { status = 201, record = { n = req:json().n } } end }";

fn send(client: &mut Client, path: &str, key: &str, body: &str) -> u16 {
    let length = body.len();
    let key = format!("Idempotency-Key: {key}\r\n");
    assert!(
        client
            .send(&format!("POST {path} HTTP/1.1\r\nHost: a\r\n{key}Content-Length: {length}\r\n\r\n{body}"))
    );
    client.reply().unwrap().status
}

#[test]
fn a_request_that_is_sent_again_is_one_row_also_after_a_kill_and_a_start() {
    let app = App::new(CONFIG, &[("order.luau", ORDER)]);
    let server = app.start();
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(send(&mut client, "/order", "k-1", "{\"n\":1}"), 201);
    }
    assert_eq!(send(&mut client, "/order", "k-2", "{\"n\":2}"), 201);
    server.kill();
    let server = app.start();
    let mut client = server.connect();
    assert_eq!(send(&mut client, "/order", "k-1", "{\"n\":1}"), 201);
    assert_eq!(send(&mut client, "/collect", "k-3", "[{\"n\":3},{\"n\":4}]"), 200);
    assert_eq!(send(&mut client, "/collect", "k-3", "[{\"n\":3},{\"n\":4}]"), 200);
    server.stop();
    assert_eq!(app.query::<i64>("SELECT n FROM orders ORDER BY n"), [1, 2, 3, 4]);
    let audit = app.succeed(&["audit"]);
    let sum = audit.lines().find(|line| line.starts_with("all")).unwrap();
    let counts: Vec<_> = sum.split_whitespace().skip(2).collect();
    // ingested, pending, loaded, rejected, duplicate, missing
    assert_eq!(counts, ["8", "0", "4", "0", "4", "0"], "{audit}");
    assert!(audit.ends_with("exact: every record is pending, loaded, rejected or a duplicate\n"), "{audit}");
}

/// A loader that is killed lives at random up to this long: about as long as all of it takes.
const LIFE_US_MAX: u64 = 400_000;
/// Numbers of each log; half of them are those of the log before.
const NUMBERS: u64 = 12_000;
const LOGS: u64 = 3;

const KEYED: &str = r#"
workers = 2
[log]
segment_bytes_max = "64KiB"
[stream.a]
key = "record.id"
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
"#;

/// Leaves logs that nobody has loaded, and returns how many records are in them. Each log has half of the numbers of the
/// one before again, and every third hundred of its own twice.
fn leave_logs(app: &App) -> u64 {
    let mut sent = 0;
    for log in 0..LOGS {
        let server = app.start_with(&["--no-load"]);
        let mut client = server.connect();
        let first = log * NUMBERS / 2;
        for hundred in (first..first + NUMBERS).step_by(100) {
            let item = |n: u64| format!("{{\"n\":{n},\"id\":\"order {n}\"}}");
            let items: Vec<_> = (hundred..hundred + 100).map(item).collect();
            for _ in 0..1 + u64::from(hundred % 300 == 0) {
                let reply = client.post("/a", &format!("[{}]", items.join(","))).unwrap();
                assert!(reply.is_success(), "{reply:?}");
                sent += 100;
            }
        }
        let (status, log) = server.stop();
        assert!(status.success(), "{log}");
    }
    sent
}

/// Kills loaders of keyed records: each key is one row, each other record a duplicate.
fn check_kills(make: impl Fn() -> (App, Numbers)) {
    kill_loaders(make, leave_logs, LIFE_US_MAX, |app, numbers, sent| {
        let unique = NUMBERS / 2 * (LOGS + 1);
        assert!(numbers("a") == (0..unique).collect::<Vec<_>>(), "{} rows", numbers("a").len());
        let audit = app.succeed(&["audit"]);
        let sum = audit.lines().find(|line| line.starts_with("all")).unwrap();
        let counts: Vec<u64> = sum.split_whitespace().skip(2).map(|count| count.parse().unwrap()).collect();
        assert_eq!(counts, [sent, 0, unique, 0, sent - unique, 0], "{audit}");
        assert!(audit.contains("exact: "), "{audit}");
    });
}

#[test]
fn a_loader_of_keys_that_is_killed_at_any_moment_has_each_key_once_and_counts_the_others() {
    check_kills(|| {
        let app = App::new(KEYED, &[]);
        let file = app.path().join("data/tollgate.sqlite");
        (app, Box::new(move |stream| numbers_in(&file, stream)))
    });
}

#[test]
fn a_loader_of_keys_into_postgresql_that_is_killed_at_any_moment_has_each_key_once_and_counts_the_others() {
    check_kills(|| {
        let database = shared().database();
        let sink = format!("[sink.main]\npostgres = \"{}\"\n", shared().url(&database));
        (App::new(&format!("{KEYED}{sink}"), &[]), Box::new(move |stream| numbers_of(&database, stream)))
    });
}

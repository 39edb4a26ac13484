//! Tests of keys: a retry with the same key is answered like any request, and the database has one row for
//! both.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use socket2::SockRef;
use tollgate_faults::{Backend, Fault};

use crate::client::Client;
use crate::cluster::shared;
use crate::postgres::numbers_of;
use crate::program::{App, Running, eventually};
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
    assert!(client.send(&request(path, key, body)));
    client.reply().unwrap().status
}

fn request(path: &str, key: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {key}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
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
    // The columns are: ingested, pending, loaded, rejected, duplicate, missing, given up.
    assert_eq!(counts, ["8", "0", "4", "0", "4", "0", "0"], "{audit}");
    assert!(audit.ends_with("exact: every record is pending, loaded, rejected or a duplicate\n"), "{audit}");
}

const PAID: &str = r#"
[stream.payments]
key = "request.header.idempotency-key"
columns = [
  { name = "path", type = "text", from = "request.path" },
  { name = "status", type = "int", from = "reply.status" },
  { name = "outcome", type = "text", from = "reply.outcome" },
  { name = "amount", type = "int" },
]
[[route]]
path = "/script"
script = "pay.luau"
stream = "payments"
[[route]]
path = "/proxy"
proxy = "pay"
stream = "payments"
"#;

/// A script that charges through the backend. Its reply does not show which kind of failure occurred.
const PAY: &str = r#"
return { POST = function(req)
  local reply = tollgate.fetch("pay", { path = "/charge", method = "POST" })
  if reply.error or reply.status >= 500 then
    return { status = 503, json = { reason = "pay later" } }
  end
  return { status = reply.status, record = { amount = 42 } }
end }
"#;

/// Returns the rows of a path: the outcome, and status and amount if the row has them.
fn payments(app: &App, path: &str) -> Vec<String> {
    let said = "coalesce(status, '-') || ' ' || coalesce(amount, '-') || ' ' || outcome";
    let of_path = format!("FROM payments WHERE path = '{path}'");
    if app.has_table("payments") {
        app.query(&format!("SELECT {said} {of_path} ORDER BY rowid"))
    } else {
        vec![]
    }
}

/// Sends a payment that fails in each way, then a payment that succeeds and its repetition, all with one key.
fn pay(app: &App, server: &Running, backend: &Backend, path: &str) -> Vec<u16> {
    let mut client = server.connect();
    let mut pay = |fault| {
        backend.turn(fault).unwrap();
        send(&mut client, path, path, "")
    };
    let mut statuses = vec![pay(Fault::Close), pay(Fault::Status(503)), pay(Fault::Status(409))];
    backend.turn(Fault::Silent).unwrap();
    let mut impatient = TcpStream::connect(server.address()).unwrap();
    // With this option, closing sends a reset. The server would wait for a client that closes only its
    // sending half.
    SockRef::from(&impatient).set_linger(Some(Duration::ZERO)).unwrap();
    let seen = backend.seen().requests;
    impatient.write_all(request(path, path, "").as_bytes()).unwrap();
    eventually("the backend has it", || (backend.seen().requests > seen).then_some(()));
    drop(impatient);
    eventually("that it was cancelled is a row", || (payments(app, path).len() == 4).then_some(()));
    statuses.extend([pay(Fault::None), pay(Fault::None)]);
    statuses
}

#[test]
fn a_key_is_not_used_up_by_a_request_that_failed_or_that_nobody_waited_for() {
    let backend = Backend::start(Fault::None).unwrap();
    let pay_at =
        format!("[backend.pay]\nurls = [\"http://{}\"]\nbreaker_requests_min = 1000\n", backend.address());
    let app = App::new(&format!("{pay_at}{PAID}"), &[("pay.luau", PAY)]);
    let server = app.start();
    assert_eq!(pay(&app, &server, &backend, "/script"), [503, 503, 409, 200, 200]);
    assert_eq!(pay(&app, &server, &backend, "/proxy"), [502, 503, 409, 200, 200]);
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    let cancelled = "- - cancelled";
    assert_eq!(
        payments(&app, "/script"),
        ["503 - complete", "503 - complete", "409 42 complete", cancelled, "200 42 complete"]
    );
    assert_eq!(
        payments(&app, "/proxy"),
        ["502 - complete", "503 - complete", "409 - complete", cancelled, "200 - complete"]
    );
    let audit = app.succeed(&["audit"]);
    assert!(audit.contains("exact: "), "{audit}");
}

/// Maximum of the random time until a loader is killed. This maximum is about the duration of the whole load.
const LIFE_US_MAX: u64 = 400_000;
/// Numbers in each log. Half of them are also in the previous log.
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

/// Makes logs that are not loaded, and returns their number of records. Each log repeats half of the numbers
/// of the previous log, and every third hundred of its own numbers.
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

/// Kills loaders of keyed records. Each key is one row, and each other record is a duplicate.
fn check_kills(make: impl Fn() -> (App, Numbers)) {
    kill_loaders(make, leave_logs, LIFE_US_MAX, |app, numbers, sent| {
        let unique = NUMBERS / 2 * (LOGS + 1);
        assert!(numbers("a") == (0..unique).collect::<Vec<_>>(), "{} rows", numbers("a").len());
        let audit = app.succeed(&["audit"]);
        let sum = audit.lines().find(|line| line.starts_with("all")).unwrap();
        let counts: Vec<u64> = sum.split_whitespace().skip(2).map(|count| count.parse().unwrap()).collect();
        assert_eq!(counts, [sent, 0, unique, 0, sent - unique, 0, 0], "{audit}");
        assert!(audit.contains("exact: "), "{audit}");
    });
}

#[test]
fn a_loader_of_keys_killed_at_any_moment_has_each_key_once_and_counts_the_others() {
    check_kills(|| {
        let app = App::new(KEYED, &[]);
        let file = app.path().join("data/tollgate.sqlite");
        (app, Box::new(move |stream| numbers_in(&file, stream)))
    });
}

#[test]
fn a_loader_of_keys_into_postgresql_killed_at_any_moment_has_each_key_once() {
    check_kills(|| {
        let database = shared().database();
        let sink = format!("[sink.main]\npostgres = \"{}\"\n", shared().url(&database));
        (App::new(&format!("{KEYED}{sink}"), &[]), Box::new(move |stream| numbers_of(&database, stream)))
    });
}

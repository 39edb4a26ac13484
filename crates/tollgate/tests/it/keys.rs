//! A retry with the same key: answered as any request, and one row.

use crate::client::Client;
use crate::program::App;

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

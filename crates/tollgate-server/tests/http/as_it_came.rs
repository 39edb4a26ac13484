//! Tests of proxied routes: requests and replies that are only unusual pass through unchanged.

use crate::backend::FakeBackend;
use crate::peer::Reply;
use crate::site::Site;

/// Returns the reply of a backend as the client gets it. The content of the backend's reply is `hello`.
fn passed(status_line: &str, fields: &str, status: &str) -> Reply {
    let reply = format!("{status_line}\r\n{fields}Content-Length: 5\r\n\r\nhello");
    let backend = FakeBackend::replying(reply);
    let server = Site::new().proxy("/*", backend.options(), |_| {}).start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.expect(status, "hello")
}

fn dates(reply: &Reply) -> Vec<&str> {
    reply.head.lines().filter_map(|line| line.strip_prefix("Date: ")).collect()
}

#[test]
fn the_date_of_a_backend_stays_and_a_reply_has_one_date() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let check = |fields: &str| {
        let reply = passed("HTTP/1.1 200 OK", fields, "200");
        assert_eq!(dates(&reply), [date], "{fields:?}");
    };
    check(&format!("Date: {date}\r\n"));
    check(&format!("date: {date}\r\nDate: Mon, 07 Nov 1994 08:49:37 GMT\r\n"));
    for fields in ["", "Date: yesterday\r\n"] {
        let reply = passed("HTTP/1.1 200 OK", fields, "200");
        let found = dates(&reply);
        assert!(matches!(found[..], [found] if found.ends_with("GMT") && found != date), "{found:?}");
    }
}

#[test]
fn a_reply_with_an_unusual_head_is_passed_on() {
    passed("HTTP/1.1 200", "", "200");
    passed("HTTP/1.1 404 ", "", "404");
    passed("HTTP/1.2 200 OK", "", "200");
    let reply = passed("HTTP/1.1 200 OK", "Server \t: app\r\n", "200");
    assert_eq!(reply.field("server"), Some("app"));
}

#[test]
fn a_status_above_599_is_passed_on_and_counts_as_a_failure_of_the_server() {
    let backend = FakeBackend::replying("HTTP/1.1 999 Denied\r\nContent-Length: 5\r\n\r\nhello");
    let server = Site::new().proxy("/*", backend.options(), |_| {}).start();
    server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "999", "hello");
    let status = server.watch().status();
    let replies: Vec<_> = status.routes.iter().map(|route| route.replies).collect();
    assert_eq!(replies, [[0, 0, 0, 0, 1]]);
}

#[test]
fn a_malformed_escape_in_a_query_is_passed_on() {
    for query in ["q=100%", "q=%zz&r=%4", "%", "a=%2F%00"] {
        let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        let server = Site::new().proxy("/*", backend.options(), |_| {}).start();
        server.check(&format!("GET /a?{query} HTTP/1.1\r\nHost: a\r\n\r\n"), "200", "hello");
        let request = backend.request();
        assert!(request.starts_with(&format!("GET /a?{query} HTTP/1.1\r\n")), "{request}");
    }
}

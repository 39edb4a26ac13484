//! Tests of proxied routes as an intermediary (RFC 9110 section 7.6). The tests check the limit of forwards,
//! and the fields that must not reach a client in any part of a reply.

use std::thread;
use std::time::Duration;

use tollgate_log::Level;
use tollgate_server::ProxySpec;

use crate::backend::{FakeBackend, field};
use crate::site::Site;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn plain(_: &mut ProxySpec) {}

fn target_with(sent: &str, tune: fn(&mut ProxySpec)) -> String {
    let backend = FakeBackend::replying(OK);
    let server = Site::new().proxy("/app/*", backend.options(), tune).start();
    server.check(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n").as_str(), "200", "hello");
    backend.request().split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn options_that_may_go_no_further_are_answered_here() {
    let backend = FakeBackend::replying(OK);
    let server = Site::new().proxy("/*", backend.options(), plain).start();
    let mut peer = server.connect();
    for count in ["0", "00"] {
        peer.send(format!("OPTIONS /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: {count}\r\n\r\n"));
        let allow = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS";
        assert_eq!(peer.expect("204", "").field("allow"), Some(allow));
    }
    // The content of the request is not forwarded either, whatever its length is.
    let content = "x".repeat(600_000);
    peer.send(format!(
        "OPTIONS /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nContent-Length: {}\r\n\r\n{content}",
        content.len()
    ));
    peer.expect("204", "");
    assert_eq!(backend.connections(), 0);
}

#[test]
fn the_next_one_may_forward_options_once_less() {
    let backend = FakeBackend::replying(OK);
    let server = Site::new().proxy("/*", backend.options(), plain).start();
    let forwarded = |method: &str, count: &str| {
        let request = format!("{method} /a HTTP/1.1\r\nHost: a\r\nmax-forwards: {count}\r\n\r\n");
        server.check(request.as_str(), "200", "hello");
        field(&backend.request(), "max-forwards").map(str::to_owned)
    };
    assert_eq!(forwarded("OPTIONS", "5").as_deref(), Some("4"));
    assert_eq!(forwarded("OPTIONS", "1").as_deref(), Some("0"));
    assert_eq!(forwarded("OPTIONS", "99999999999999999999").as_deref(), Some("18446744073709551614"));
    assert_eq!(forwarded("OPTIONS", "-1"), None);
    // If there are several values, the lowest number counts.
    server.check(
        "OPTIONS /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 9\r\nmax-forwards: many\r\nMax-Forwards: 3\r\n\r\n",
        "200",
        "hello",
    );
    let request = backend.request().to_ascii_lowercase();
    assert_eq!((request.matches("max-forwards").count(), field(&request, "max-forwards")), (1, Some("2")));
    let used_up = "OPTIONS /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 9\r\nMax-Forwards: 0\r\n\r\n";
    server.check(used_up, "204", "");
    // The field has no meaning for any other method.
    assert_eq!(forwarded("GET", "0").as_deref(), Some("0"));
    assert_eq!(forwarded("DELETE", "many").as_deref(), Some("many"));
}

#[test]
fn a_target_with_dot_segments_is_the_one_that_was_matched_slash_by_slash() {
    let strip: fn(&mut ProxySpec) = |spec| spec.strip_prefix = true;
    let both: fn(&mut ProxySpec) = |spec| (spec.strip_prefix, spec.prefix) = (true, "/v2".to_owned());
    for (sent, expect) in [("/app//b", "//b"), ("/app/x/..//b", "//b"), ("/app/./%2e//b", "//b")] {
        assert_eq!(target_with(sent, strip), expect, "{sent}");
        assert_eq!(target_with(sent, both), format!("/v2{expect}"), "{sent}");
        assert_eq!(target_with(sent, plain), format!("/app{expect}"), "{sent}");
    }
}

#[test]
fn a_field_that_a_route_takes_out_of_replies_is_in_no_part_of_them() {
    let secret = "X-Debug: 1\r\nX-Set: theirs\r\nTollgate-Outcome: refused\r\nX-Request-Id: theirs\r\n";
    let backend = FakeBackend::start(move |taken| {
        while taken.request().is_some() {
            taken.send(format!("HTTP/1.1 103 Early Hints\r\nLink: x\r\n{secret}\r\n"));
            taken.send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{secret}\r\n3\r\nabc\r\n"));
            thread::sleep(Duration::from_millis(5));
            taken.send(format!("0\r\nX-Sum: 9\r\n{secret}\r\n"));
        }
    });
    let tune = |spec: &mut ProxySpec| {
        spec.remove_reply_headers = vec!["x-debug".to_owned()];
        spec.set_reply_headers = vec![("X-Set".to_owned(), "ours".to_owned())];
    };
    let site = Site::new().stream("visits", Level::Written, &["path text request.path"]);
    let site = site.proxy("/*", backend.options(), tune).tune(|options| options.routes[0].stream = Some(0));
    let server = site.start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    let interim = peer.head();
    assert_eq!(interim.head, "HTTP/1.1 103 \r\nLink: x\r\n\r\n");
    let reply = peer.head();
    let told = [reply.field("x-debug"), reply.field("x-set"), reply.field("tollgate-outcome")];
    assert_eq!(told, [None, Some("ours"), None]);
    assert_eq!(peer.through(b"\r\n\r\n"), "3\r\nabc\r\n0\r\nX-Sum: 9\r\n\r\n");
}

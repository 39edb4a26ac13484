//! Tests of request bodies: framing, limits, `Expect`.

use crate::site::{Running, Site};

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn echo() -> Running {
    Site::new().handler("/echo", "return { body = req:body() }").fixed("/", "hello").start()
}

fn post(fields: &str, body: &str) -> String {
    format!("POST /echo HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}")
}

#[test]
fn bodies_by_length_and_by_chunks_reach_the_handler() {
    let server = echo();
    server.check(&post("Content-Length: 5", "hello"), "200", "hello");
    server.check(&post("Content-Length: 0", ""), "200", "");
    let chunks = "5\r\nhello\r\n8;a=b\r\n, chunks\r\n0\r\nX: y\r\n\r\n";
    server.check(&post("Transfer-Encoding: chunked", chunks), "200", "hello, chunks");
}

#[test]
fn a_body_may_come_in_pieces_and_the_next_request_with_its_end() {
    let server = echo();
    let long = "0123456789".repeat(20_000);
    let mut peer = server.connect();
    peer.send(post(&format!("Content-Length: {}", long.len()), &long[..70_000]));
    peer.send(&long[70_000..150_000]);
    peer.send(format!("{}GET / HTTP/1.1\r\nHost: a\r\n\r\n", &long[150_000..]));
    peer.expect("200", &long);
    peer.expect("200", "hello");
    peer.send(post("Transfer-Encoding: chunked", ""));
    for piece in ["5", "\r", "\nhe", "llo\r\n", "0\r\n", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"] {
        peer.send(piece);
    }
    peer.expect("200", "hello");
    peer.expect("200", "hello");
}

#[test]
fn a_body_with_an_unclear_end_is_refused() {
    let server = echo();
    server.check_refused(post("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), 400);
    server.check_refused(post("Content-Length: 5\r\nContent-Length: 5", "hello"), 400);
    server.check_refused(post("Content-Length: +5", "hello"), 400);
    server.check_refused(post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"), 501);
    server.check_refused(post("Transfer-Encoding: chunked", "5\r\nhello!\r\n0\r\n\r\n"), 400);
    server.check_refused(post("Transfer-Encoding: chunked", "5\nhello\n0\n\n"), 400);
}

#[test]
fn a_body_over_the_limit_of_its_route_is_413() {
    let server = Site::new()
        .handler("/echo", "return { body = req:body() }")
        .tune(|options| options.routes[0].body_bytes_max = 10)
        .start();
    server.check(&post("Content-Length: 10", "0123456789"), "200", "0123456789");
    server.check_refused(post("Content-Length: 11", ""), 413);
    server.check_refused(post("Content-Length: 11", "0123456789a"), 413);
    server.check_refused(post("Transfer-Encoding: chunked", "6\r\n012345\r\n5\r\n"), 413);
    server.check_refused(post("Content-Length: 9999999999999999999", ""), 413);
}

#[test]
fn an_incomplete_body_is_never_a_request() {
    let server = Site::new()
        .stream("all", tollgate_log::Level::Synced, &["body text body"])
        .handler("/echo", "return 204")
        .start();
    for body in ["Content-Length: 5\r\n\r\nhell", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"] {
        let mut peer = server.connect();
        peer.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{body}"));
        peer.finish();
        assert_eq!(peer.reply(false).status, 400);
        peer.expect_end();
    }
    assert_eq!(server.records(), [""; 0]);
}

#[test]
fn a_client_that_waits_for_100_is_told_once_to_go_on() {
    let server = echo();
    let mut peer = server.connect();
    for _ in 0..2 {
        peer.send(post("Content-Length: 5\r\nExpect: 100-continue", ""));
        peer.expect_bytes(CONTINUE);
        peer.send("hello");
        peer.expect("200", "hello");
    }
    peer.send(post("Transfer-Encoding: chunked\r\nExpect: 100-continue", ""));
    peer.expect_bytes(CONTINUE);
    peer.send("5\r\nhello\r\n0\r\n\r\n");
    peer.expect("200", "hello");
}

#[test]
fn a_client_that_does_not_wait_gets_no_100() {
    let server = echo();
    let mut peer = server.connect();
    peer.send(post("Content-Length: 5\r\nExpect: 100-continue", "hello"));
    peer.expect("200", "hello");
    peer.send("POST /echo HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello");
    peer.expect("200", "hello");
    peer.expect_end();
}

#[test]
fn a_client_that_waits_is_answered_before_its_body_when_the_answer_is_known() {
    let server = echo();
    let mut peer = server.connect();
    peer.send("POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("connection")), (404, Some("close")));
    peer.expect_end();
    server.check_refused(post("Content-Length: 99999999\r\nExpect: 100-continue", ""), 413);
    server.check_refused(post("Content-Length: 5\r\nExpect: tea", "hello"), 417);
}

#[test]
fn the_body_of_a_request_without_a_route_is_read_and_the_connection_goes_on() {
    let server = echo();
    let mut peer = server.connect();
    peer.send("POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.reply(false).status, 404);
    peer.expect("200", "hello");
    let long = "POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n";
    server.check_refused(format!("{long}{}", "x".repeat(100_000)), 404);
}

//! Tests of fields that every reply has, and of fields that no reply may have (RFC 9110 sections 6.6.1, 8.6,
//! 9.3.2, 15; RFC 9112 sections 6 and 9.6).

use bytes::Bytes;
use tollgate_server::HandlerSpec;

use crate::site::{NEXT, Site};

fn site() -> Site {
    Site::new()
        .fixed("/", "hello")
        .handler("/echo", "return req:body()")
        .handler("/fail", "error('broken')")
        .handler("/status/{s}", "return tonumber(req.params.s)")
}

#[test]
fn every_reply_has_a_date_and_an_error_says_its_length_and_type() {
    let server = site().start();
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("GET /else HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        ("GET /% HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /fail HTTP/1.1\r\nHost: a\r\n\r\n", 500),
        ("PUT / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        ("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", 417),
        ("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n", 413),
        ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        ("GET / HTTP/2.7\r\nHost: a\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\n\r\n", 400),
    ] {
        let mut peer = server.connect();
        peer.send(request);
        let reply = peer.reply(false);
        assert_eq!(reply.status, status, "{request:?}");
        assert_eq!(reply.head.matches("Date: ").count(), 1, "{reply:?}");
        assert_eq!(reply.head.matches("Content-Length: ").count(), 1, "{reply:?}");
        assert!(reply.field("content-type").is_some_and(|kind| kind.starts_with("text/plain")), "{reply:?}");
        assert!(!reply.content.is_empty());
    }
}

#[test]
fn head_has_the_head_of_get_and_no_content_whatever_the_status() {
    let server = site().start();
    for path in ["/", "/echo", "/else", "/fail", "/%", "/status/404", "/status/204", "/status/304"] {
        let mut peer = server.connect();
        peer.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let get = peer.reply(false);
        peer.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = peer.reply(true);
        assert_eq!(head.status, get.status, "{path}");
        for field in ["content-length", "content-type", "connection"] {
            assert_eq!(head.field(field), get.field(field), "{path} {field}");
        }
        peer.expect("200", "hello");
    }
}

#[test]
fn a_refused_head_request_has_no_content_either() {
    let server = site().start();
    let long = "x".repeat(20_000);
    for (request, status) in [
        ("HEAD / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("\r\nHEAD / HTTP/1.1\r\nx_y: z\r\n".to_owned(), 400),
        ("HEAD / HTTP/2.5\r\n".to_owned(), 505),
        ("HEAD /\x01 HTTP/1.1\r\n".to_owned(), 400),
        (format!("HEAD /{long}"), 414),
        (format!("HEAD / HTTP/1.1\r\nx: {long}"), 431),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n".to_owned(), 413),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n".to_owned(), 400),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n".to_owned(), 417),
    ] {
        let mut peer = server.connect();
        peer.send(&request);
        let reply = peer.reply(true);
        assert_eq!((reply.status, reply.field("connection")), (status, Some("close")), "{request:.60?}");
        assert!(reply.field("content-length").is_some_and(|length| length != "0"), "{reply:?}");
        peer.expect_end();
    }
    // The body ends before its announced length.
    let mut peer = server.connect();
    peer.send("HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    peer.finish();
    assert_eq!(peer.reply(true).status, 400);
    peer.expect_end();
}

#[test]
fn statuses_without_content_have_neither_content_nor_its_length() {
    let server = site().start();
    for status in ["204", "304"] {
        let mut peer = server.connect();
        peer.send(format!("GET /status/{status} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let reply = peer.expect(status, "");
        assert_eq!((reply.field("content-length"), reply.field("transfer-encoding")), (None, None));
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        peer.expect("200", "hello");
    }
}

#[test]
fn reset_content_has_a_length_of_zero_and_no_content() {
    let server = Site::new()
        .handler("/205", "return 205")
        .handler("/bad", "return { status = 205, body = 'x' }")
        .start();
    let mut peer = server.connect();
    peer.send("GET /205 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.expect("205", "").field("content-length"), Some("0"));
    peer.send("GET /bad HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.reply(false).status, 500);
}

#[test]
fn a_script_cannot_split_a_reply_or_frame_it() {
    for header in [
        r"['x'] = 'a\r\nSet-Cookie: b'",
        r"['x'] = 'a\nb'",
        r"['x'] = 'a\rb'",
        r"['x'] = 'a\0b'",
        r"['x\r\ny'] = 'a'",
        r"['x: y'] = 'a'",
        r"['x '] = 'a'",
        r"[''] = 'a'",
        r"['Content-Length'] = '0'",
        r"['transfer-encoding'] = 'chunked'",
        r"['Connection'] = 'close'",
        r"['Date'] = 'now'",
        r"['Trailer'] = 'x'",
        r"['Upgrade'] = 'h2c'",
        r"['x'] = { 'fine', 'a\r\n\r\nHTTP/1.1 200 OK' }",
    ] {
        let server = Site::new()
            .handler("/", &format!("return {{ body = 'x', headers = {{ {header} }} }}"))
            .fixed("/next", "next")
            .start();
        let mut peer = server.connect();
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        let reply = peer.expect("500", "the script failed\n");
        assert!(!reply.head.to_ascii_lowercase().contains("set-cookie"), "{header}: {reply:?}");
        peer.expect("200", "next");
    }
}

#[test]
fn a_script_cannot_repeat_what_a_reply_has_once_nor_say_how_far_a_record_is() {
    for header in [
        "['Content-Type'] = { 'a/b', 'c/d' }",
        "['Content-Type'] = 'a/b', ['content-type'] = 'c/d'",
        "Location = '/a', location = '/b'",
        "['X-Request-Id'] = { 'a', 'b' }",
        "['Tollgate-Ack'] = 'loaded'",
        "['tollgate-outcome'] = 'refused'",
    ] {
        let server = Site::new().handler("/", &format!("return {{ headers = {{ {header} }} }}")).start();
        server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "500", "the script failed\n");
    }
}

#[test]
fn every_405_says_what_is_allowed() {
    let server = Site::new()
        .script("/own", "return { GET = function() return 405 end, PUT = function() return 405 end }")
        .handler("/told", "return { status = 405, headers = { allow = 'GET' } }")
        .fixed("/fixed", "hello")
        .fixed("/closed", "")
        .tune(|options| {
            let content_type = "text/plain".to_owned();
            options.routes[3].handler = HandlerSpec::Reply { status: 405, content_type, body: Bytes::new() };
        })
        .start();
    for (line, allow) in [
        ("GET /own", "GET, HEAD, PUT, OPTIONS"),
        ("GET /told", "GET"),
        ("PUT /fixed", "GET, HEAD, OPTIONS"),
        ("GET /closed", "GET, HEAD, OPTIONS"),
    ] {
        let mut peer = server.connect();
        peer.send(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("allow")), (405, Some(allow)), "{line}: {reply:?}");
        assert_eq!(reply.head.to_ascii_lowercase().matches("\nallow:").count(), 1, "{line}: {reply:?}");
    }
}

#[test]
fn a_redirect_leads_to_this_server_whatever_the_target_looked_like() {
    let server = Site::new().handler("/docs/*", "return ''").handler("/{x}/sub/*", "return ''").start();
    for (target, location) in [
        ("/docs", "/docs/"),
        ("/docs?a=b", "/docs/?a=b"),
        ("//evil.example/../../docs", "/docs/"),
        ("/%64ocs", "/docs/"),
        ("/a%3fb%23%25%20%c3%a9/sub?q", "/a%3Fb%23%25%20%C3%A9/sub/?q"),
    ] {
        let mut peer = server.connect();
        peer.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("location")), (308, Some(location)), "{target}");
    }
}

#[test]
fn nothing_after_a_refusal_is_read_as_a_request() {
    let server = site().start();
    for request in
        ["GET / HTTP/1.1\r\n\r\n", "x\r\n", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"]
    {
        server.check_refused([request.as_bytes(), NEXT].concat(), 400);
        let mut peer = server.connect();
        peer.send(request);
        assert_eq!(peer.reply(false).status, 400);
        peer.send(NEXT);
        peer.expect_end();
    }
}

//! Tests of the replies to request heads. The tests of each byte are in tollgate-http.

use crate::site::Site;

fn site() -> Site {
    Site::new()
        .fixed("/", "hello")
        .handler("/path/*", "return req.method .. ' ' .. req.path .. ' ' .. req.path_info")
}

#[test]
fn a_fixed_reply_has_date_length_and_type_and_stays_open() {
    let server = site().start();
    let mut peer = server.connect();
    for _ in 0..3 {
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let reply = peer.expect("200", "hello");
        assert!(reply.head.starts_with("HTTP/1.1 200 OK\r\n"));
        assert_eq!(reply.field("content-length"), Some("5"));
        assert_eq!(reply.field("content-type"), Some("text/plain"));
        assert_eq!(reply.field("connection"), None);
        assert!(reply.field("date").is_some_and(|date| date.len() == 29 && date.ends_with(" GMT")));
    }
}

#[test]
fn head_is_get_without_the_content() {
    let server = site().start();
    let mut peer = server.connect();
    peer.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let reply = peer.reply(true);
    assert_eq!((reply.status, reply.field("content-length")), (200, Some("5")));
    peer.expect("200", "hello");
}

#[test]
fn a_head_may_come_byte_by_byte() {
    let server = site().start();
    let mut peer = server.connect();
    for byte in b"GET /path/x HTTP/1.1\r\nHost: a\r\n\r\n" {
        peer.send([*byte]);
    }
    peer.expect("200", "GET /path/x /x");
}

#[test]
fn faulty_heads_are_refused_with_their_status_and_the_connection_closed() {
    let server = site().tune(|options| options.connection.head.fields_max = 10).start();
    let long = "x".repeat(20_000);
    for (request, status) in [
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n".to_owned(), 400),
        ("\x16\x03\x01\x02".to_owned(), 400),
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(10)), 431),
        ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 501),
        ("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 501),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), 505),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505),
    ] {
        server.check_refused(request, status);
    }
}

#[test]
fn a_faulty_request_is_answered_after_the_good_ones_before_it() {
    let server = site().start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.expect("200", "hello");
    assert_eq!(peer.reply(false).status, 400);
    peer.expect_end();
}

#[test]
fn http_1_0_closes_unless_it_asks_to_stay() {
    let server = site().start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(peer.expect("200", "hello").field("connection"), Some("keep-alive"));
    peer.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(peer.expect("200", "hello").field("connection"), Some("close"));
    peer.expect_end();
}

#[test]
fn connection_close_is_kept_and_said() {
    let server = site().start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.expect("200", "hello").field("connection"), Some("close"));
    peer.expect_end();
}

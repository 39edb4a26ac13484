//! Tests of deadlines for bytes that do not arrive, or that the peer does not read.

use std::time::{Duration, Instant};

use crate::peer::Peer;
use crate::site::{Running, Site};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

fn site(head: Duration, body: Duration, idle: Duration) -> Running {
    let tune = |options: &mut tollgate_server::ServerOptions| {
        let limits = &mut options.connection;
        (limits.head_timeout, limits.body_pace.timeout, limits.idle_timeout) = (head, body, idle);
    };
    Site::new().handler("/", "return 'hello'").tune(tune).start()
}

/// Checks that the connection ends after the deadline, and not before.
fn expect_end_after(peer: &mut Peer, begun: Instant) {
    peer.expect_end();
    assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
}

#[test]
fn a_head_that_drips_is_408_although_bytes_keep_coming() {
    let server = site(SHORT, LONG, LONG);
    let mut peer = server.connect();
    let begun = Instant::now();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
    while peer.is_silent() {
        peer.send("x");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(peer.reply(false).status, 408);
    expect_end_after(&mut peer, begun);
}

#[test]
fn a_body_that_does_not_come_is_408() {
    let server = site(LONG, SHORT, LONG);
    let mut peer = server.connect();
    let begun = Instant::now();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell");
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("connection")), (408, Some("close")));
    expect_end_after(&mut peer, begun);
}

#[test]
fn a_head_request_that_does_not_come_is_408_without_content() {
    let server = site(SHORT, SHORT, LONG);
    for request in ["HEAD / HTTP/1.1\r\nHost:", "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell"]
    {
        let mut peer = server.connect();
        peer.send(request);
        assert_eq!(peer.reply(true).status, 408);
        peer.expect_end();
    }
}

#[test]
fn a_blank_line_alone_is_closed_without_a_word() {
    let server = site(SHORT, LONG, LONG);
    let mut peer = server.connect();
    let begun = Instant::now();
    peer.send("\r\n");
    expect_end_after(&mut peer, begun);
}

#[test]
fn a_client_that_stays_after_its_refusal_is_let_go() {
    let stay = |options: &mut tollgate_server::ServerOptions| options.drain_timeout = LONG;
    let server = Site::new().fixed("/", "hello").tune(stay).start();
    let mut peers = [server.connect(), server.connect()];
    peers[0].send("x\r\n");
    peers[1].send("GET / HTTP/1.0\r\n\r\nmore");
    assert_eq!(peers[0].reply(false).status, 400);
    peers[1].expect("200", "hello");
    let begun = Instant::now();
    // The drain ends when no connection remains. The peers do not close their side.
    drop(server.drain());
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    drop(peers);
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let server = site(LONG, LONG, SHORT);
    let begun = Instant::now();
    expect_end_after(&mut server.connect(), begun);
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.expect("200", "hello");
    let begun = Instant::now();
    expect_end_after(&mut peer, begun);
}

#[test]
fn a_client_that_takes_nothing_of_its_reply_is_cut_off() {
    let cut = |options: &mut tollgate_server::ServerOptions| {
        options.connection.write_timeout = SHORT;
        options.drain_timeout = LONG;
    };
    let server = Site::new().handler("/big", "return string.rep('x', 1000000)").tune(cut).start();
    let mut peer = server.connect();
    peer.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n".repeat(32));
    let begun = Instant::now();
    // The drain ends when no connection remains. The peer reads nothing, so only the write deadline ends its
    // connection.
    drop(server.drain());
    let took = begun.elapsed();
    assert!((SHORT..LONG).contains(&took), "{took:?}");
    // The system has dropped the bytes that it held for the peer.
    peer.expect_reset();
}

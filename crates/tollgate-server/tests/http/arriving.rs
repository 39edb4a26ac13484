//! Tests of connections that are accepted only when bytes have arrived on them. The first request has arrived
//! completely, or arrives in parts, or later. The tests also check the end of its reply.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_log::Level;
use tollgate_server::{ListenAddress, ListenSpec, ServerOptions};

use crate::peer::PATIENCE;
use crate::peer::Peer;
use crate::site::{Running, Site};

const BIG_BYTES: usize = 4_000_000;

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn big() -> String {
    (0..BIG_BYTES / 8).map(|number| format!("{number:07}\n")).collect()
}

fn site() -> Site {
    Site::new()
        .fixed("/", "hello")
        .handler("/echo", "return req:body()")
        .file("public/big", big())
        .files("/*", |_| {})
        .tune(|options| {
            options.workers = 1;
            options.listen[0].deferred = true;
        })
}

/// Waits until the connection is accepted. The server accepts connections in order, so an answer on a later
/// connection shows this.
fn accepted(server: &Running, peer: Peer) -> Peer {
    (0..3).for_each(|_| server.check(&get("/", ""), "200", "hello"));
    peer
}

#[test]
fn a_request_is_answered_wherever_it_is_cut() {
    let server = site().start();
    let request = "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
    for cut in 0..=request.len() {
        let mut peer = server.connect();
        peer.send(&request[..cut]);
        let mut peer = accepted(&server, peer);
        peer.send(&request[cut..]);
        assert_eq!(peer.expect("200", "hello").field("connection"), Some("close"));
        peer.expect_end();
    }
}

#[test]
fn a_silent_client_is_accepted_and_has_its_time() {
    // The idle timeout is longer than the second after which such a connection is accepted.
    let idle_timeout = Duration::from_secs(2);
    let server = site().tune(|options| options.connection.idle_timeout = idle_timeout).start();
    let begun = Instant::now();
    server.connect().expect_end();
    assert!(begun.elapsed() >= idle_timeout);
}

/// Starts a site on which each client may have one connection.
fn site_with_one_connection_each(deferred: bool) -> Running {
    let tune = |options: &mut ServerOptions| {
        options.listen[0].deferred = deferred;
        options.capacity.connections_per_client_max = Some(1);
    };
    site().tune(tune).start()
}

/// Returns whether a silent connection of a new client counts, so that a second connection is refused.
fn counts_when_silent(server: &Running, client: u8) -> bool {
    let come = || Peer::connect_from(Ipv4Addr::new(127, 1, 0, client), server.address());
    let (_silent, mut other) = (come(), come());
    other.send(get("/", "Connection: close\r\n"));
    let status = other.reply(false).status;
    assert!([200, 429].contains(&status), "{status}");
    status == 429
}

#[test]
fn a_silent_connection_counts_at_once() {
    let server = site_with_one_connection_each(false);
    assert!((1..=20).all(|client| counts_when_silent(&server, client)));
}

#[test]
fn a_silent_connection_of_a_deferred_address_does_not_count_at_once() {
    let server = site_with_one_connection_each(true);
    // The system lets a silent connection be accepted after a second. On a slow machine, the second
    // connection may send its request only after that. One client is therefore enough.
    assert!((1..=20).any(|client| !counts_when_silent(&server, client)));
}

#[test]
fn requests_that_came_with_a_connection_and_later_ones_are_answered_in_their_order() {
    let server = site().start();
    let mut peer = server.connect();
    peer.send([get("/", ""), get("/nothing", ""), get("/", "")].concat());
    for status in [200, 404, 200] {
        assert_eq!(peer.reply(false).status, status);
    }
    for _ in 0..3 {
        peer.send([get("/", ""), get("/", "")].concat());
        peer.expect("200", "hello");
        peer.expect("200", "hello");
    }
}

#[test]
fn a_client_that_sends_its_request_and_then_no_more_is_answered() {
    let server = site().start();
    for fields in ["", "Connection: close\r\n"] {
        let mut peer = server.connect();
        peer.send(get("/", fields));
        peer.finish();
        peer.expect("200", "hello");
        peer.expect_end();
    }
    let mut silent = server.connect();
    silent.finish();
    silent.expect_end();
}

#[test]
fn a_client_that_asks_whether_to_send_its_body_is_told_and_answered() {
    let server = site().start();
    for fields in ["", "Connection: close\r\n"] {
        let mut peer = server.connect();
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n";
        peer.send([head, fields, "\r\n"].concat());
        assert_eq!(peer.head().status, 100);
        peer.send("hello");
        peer.expect("200", "hello");
    }
}

#[test]
fn a_request_that_has_to_wait_is_answered_whatever_it_waits_for() {
    let server = site()
        .stream("all", Level::Synced, &["path text request.path"])
        .fixed("/recorded", "hello")
        .tune_route(|route| route.stream = Some(0))
        .collect("/collected")
        .handler("/slept", "tollgate.sleep(0.001) return 'hello'")
        .start();
    for _ in 0..3 {
        server.check(&get("/recorded", "Connection: close\r\n"), "200", "hello");
        server.check(&get("/slept", "Connection: close\r\n"), "200", "hello");
        let item = "POST /collected HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
        server.check(item, "200", "{\"recorded\":1}\n");
    }
    let each = ["path=/recorded", "path=/slept", "path=/collected"];
    assert_eq!(server.records(), [each; 3].concat());
}

#[test]
fn a_body_that_is_longer_than_a_read_arrives_whole() {
    let server = site().start();
    let body = &big()[..1_000_000];
    let mut peer = server.connect();
    peer.send(format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    peer.send(body);
    peer.expect("200", body);
    peer.expect_end();
}

#[test]
fn a_reply_that_its_client_does_not_take_at_once_arrives_whole() {
    let server = site().start();
    let expect = big();
    for fields in ["", "Connection: close\r\n"] {
        let mut peer = server.connect();
        peer.send(get("/big", fields));
        // Once the connection is accepted, the server fills the socket buffers, and waits.
        let mut peer = accepted(&server, peer);
        assert!(peer.expect("200", &expect).field("connection") == (!fields.is_empty()).then_some("close"));
    }
}

#[test]
fn bytes_behind_the_last_request_do_not_take_its_reply_away() {
    let server = site().start();
    for path in ["/", "/big"] {
        let mut peer = server.connect();
        peer.send([get(path, "Connection: close\r\n"), "x".repeat(100_000)].concat());
        assert_eq!(peer.reply(false).status, 200);
        peer.finish();
        peer.expect_end();
    }
}

#[test]
fn a_client_that_is_gone_before_its_reply_hurts_nobody() {
    let server = site().start();
    for _ in 0..20 {
        let mut peer = server.connect();
        peer.send(get("/big", ""));
        peer.reset();
        server.connect().reset();
        // This client reads only the head, so the remaining reply waits in the server.
        let mut taker = server.connect();
        taker.send(get("/big", ""));
        assert_eq!(taker.head().status, 200);
        taker.reset();
    }
    server.check(&get("/", ""), "200", "hello");
    let begun = Instant::now();
    while server.connections() > 0 {
        assert!(begun.elapsed() < PATIENCE, "{} are still there", server.connections());
        thread::yield_now();
    }
}

#[test]
fn a_unix_socket_answers_what_is_there_and_what_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let address = ListenAddress::Unix { path: path.clone(), mode: 0o600 };
    let spec = ListenSpec::new(address);
    let server = site().tune(|options| options.listen.push(spec)).start();
    let expect = big();
    for (target, content) in [("/", "hello"), ("/big", expect.as_str())] {
        let request = get(target, "Connection: close\r\n");
        for cut in [0, 7, request.len()] {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(&request.as_bytes()[..cut]).unwrap();
            (0..3).for_each(|_| server.check(&get("/", ""), "200", "hello"));
            stream.write_all(&request.as_bytes()[cut..]).unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).unwrap();
            let (head, came) = reply.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200") && came == content, "{head}");
        }
    }
}

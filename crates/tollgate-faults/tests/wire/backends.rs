//! Tests of the bytes that a backend sends for a request, and of the end of the connection.

use std::time::{Duration, Instant};

use tollgate_faults::{Backend, Fault, Step};

use crate::peer::{End, GET, LAST, PATIENCE, Peer};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
const RIGHT: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n0123456789";
const SECOND: &str = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled";
const SILENCE: Duration = Duration::from_millis(200);

fn start(fault: &str) -> Backend {
    Backend::start(fault.parse().unwrap()).unwrap()
}

/// Sends one request on a connection that ends after the reply, and reads until the end.
fn ask(fault: &str, request: &str) -> (String, End) {
    let backend = start(fault);
    // A reset may arrive before the request is sent.
    let Some(mut peer) = Peer::asking(backend.address(), request) else { return (String::new(), End::Reset) };
    let (came, end) = peer.rest();
    (String::from_utf8_lossy(&came).into_owned(), end)
}

#[track_caller]
fn check(fault: &str, says: &str, end: End) {
    assert_eq!(ask(fault, LAST), (says.to_owned(), end), "{fault}");
}

fn right_head(fields: &str) -> String {
    format!("{OK}{fields}\r\n")
}

fn with(fields: &str) -> String {
    format!("{OK}{fields}\r\n0123456789")
}

#[test]
fn right_replies() {
    check("none", RIGHT, End::Closed);
    check("slow:1ms", RIGHT, End::Closed);
    check("content:5", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nxxxxx", End::Closed);
    check("until-close", &with(""), End::Closed);
    check("status:404", &RIGHT.replace("200 OK", "404 As Told"), End::Closed);
    check("status:304", "HTTP/1.1 304 As Told\r\nContent-Type: text/plain\r\n\r\n", End::Closed);
    let chunks = "a\r\n0123456789\r\n0\r\nX-Checksum: 45\r\n\r\n";
    check("trailers", &format!("{}{chunks}", right_head("Transfer-Encoding: chunked\r\n")), End::Closed);
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
    check("early-hints", &format!("{hints}{RIGHT}"), End::Closed);
}

#[test]
fn a_reply_to_head_has_no_content() {
    let request = LAST.replace("GET", "HEAD");
    assert_eq!(ask("none", &request).0, right_head("Content-Length: 10\r\n"));
    assert_eq!(ask("content:1MiB", &request).0, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n");
}

#[test]
fn an_echo_tells_what_came() {
    let request = "POST /b?c HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(ask("echo", request).0, format!("{OK}Content-Length: {}\r\n\r\n{request}", request.len()));
}

#[test]
fn broken_connections() {
    check("close", "", End::Closed);
    check("reset", "", End::Reset);
    check("reset-at-once", "", End::Reset);
    check("close-in-head", "HTTP/1.1 200 OK\r\nContent-Le", End::Closed);
    let promise = right_head("Content-Length: 10\r\n");
    check("reset-after-head", &promise, End::Reset);
    check("reset-in-content", &format!("{promise}01234"), End::Reset);
    check("short-content", &format!("{promise}01234"), End::Closed);
}

#[test]
fn heads_that_are_none() {
    check("bare-lf", "HTTP/1.1 200 OK\nContent-Length: 10\n\n0123456789", End::Closed);
    check("folded-field", &with("X-Folded: a\r\n b\r\nContent-Length: 10\r\n"), End::Closed);
    check("nul-in-field", &with("X-Nul: a\0b\r\nContent-Length: 10\r\n"), End::Closed);
    check("space-before-colon", "HTTP/1.1 200 OK\r\nContent-Length : 10\r\n\r\n0123456789", End::Closed);
    check("bad-version", "HTTP/1.10 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", End::Closed);
    check("bad-status", "HTTP/1.1 20 OK\r\nContent-Length: 10\r\n\r\n0123456789", End::Closed);
    let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n";
    check("switch-protocols", &format!("{switched}{SECOND}"), End::Closed);
    check("interim:3", &format!("{}{RIGHT}", "HTTP/1.1 100 Continue\r\n\r\n".repeat(3)), End::Closed);
}

#[test]
fn long_heads() {
    let long = |bytes| {
        format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\nContent-Length: 10\r\n\r\n0123456789", "x".repeat(bytes))
    };
    check("long-head:200KiB", &long(200 << 10), End::Closed);
    let many =
        format!("HTTP/1.1 200 OK\r\n{}Content-Length: 10\r\n\r\n0123456789", "X-Many: 1\r\n".repeat(7000));
    check("many-fields:7000", &many, End::Closed);
}

#[test]
fn wrong_lengths() {
    check("long-content", &format!("{RIGHT}and more"), End::Closed);
    check("bad-length", &with("Content-Length: 10x\r\n"), End::Closed);
    check("huge-length", &with("Content-Length: 99999999999999999999999\r\n"), End::Closed);
    check("two-lengths", &with("Content-Length: 10\r\nContent-Length: 5\r\n"), End::Closed);
    check("same-length-twice", &with("Content-Length: 10\r\nContent-Length: 10\r\n"), End::Closed);
    check("content-of-204", &format!("HTTP/1.1 204 No Content\r\n\r\n{SECOND}"), End::Closed);
}

#[test]
fn broken_chunks() {
    let chunked = right_head("Transfer-Encoding: chunked\r\n");
    let say = |fault: &str, chunks: &str| check(fault, &format!("{chunked}{chunks}"), End::Closed);
    say("bad-chunk-size", "a\r\n0123456789\r\nzz\r\n");
    say("huge-chunk-size", "a\r\n0123456789\r\nffffffffffffffffff\r\n");
    say("long-chunk", "5\r\n0123456789\r\n0\r\n\r\n");
    say("cut-chunks", "a\r\n0123456789\r\n");
    say("long-chunk-extension:100", &format!("a;x={}\r\n0123456789\r\n0\r\n\r\n", "x".repeat(100)));
    say("long-trailers:100", &format!("a\r\n0123456789\r\n0\r\nX-Long: {}\r\n\r\n", "x".repeat(100)));
    let both = right_head("Content-Length: 10\r\nTransfer-Encoding: chunked\r\n");
    check("length-and-chunked", &format!("{both}a\r\n0123456789\r\n0\r\n\r\n"), End::Closed);
    let unknown = right_head("Transfer-Encoding: unheard-of, chunked\r\n");
    check("unknown-coding", &format!("{unknown}a\r\n0123456789\r\n0\r\n\r\n"), End::Closed);
}

#[test]
fn replies_that_nobody_asked_for() {
    check("second-reply", &format!("{RIGHT}{SECOND}"), End::Closed);
    check("late-second-reply:1ms", &format!("{RIGHT}{SECOND}"), End::Closed);
    let backend = start("speak-first");
    let mut peer = Peer::connect(backend.address());
    assert_eq!(peer.read(RIGHT.len()), RIGHT);
    assert_eq!(backend.seen().requests, 0);
}

#[test]
fn garbage_is_as_much_as_it_says_and_no_http() {
    let (came, end) = ask("garbage:5000", LAST);
    assert!(end == End::Closed && !came.contains("HTTP/"), "{came}");
    let backend = start("garbage:5000");
    let mut peer = Peer::connect(backend.address());
    peer.send(GET);
    assert_eq!(peer.rest().0.len(), 5000);
}

#[test]
fn silence_at_each_stage() {
    for (fault, requests, says) in [
        ("silent", 1, ""),
        ("frozen", 0, ""),
        ("silent-after-head", 1, &*right_head("Content-Length: 10\r\n")),
    ] {
        let backend = start(fault);
        let mut peer = Peer::connect(backend.address());
        peer.send(GET);
        assert_eq!(peer.read(says.len()), says, "{fault}");
        assert!(peer.is_silent_for(SILENCE), "{fault}");
        assert_eq!(backend.seen().requests, requests, "{fault}");
        drop(peer);
        backend.wait_until(PATIENCE, |seen| seen.open == 0).expect(fault);
    }
}

#[test]
fn a_backend_that_reads_nothing_takes_no_more_than_the_buffers_of_the_kernel() {
    use std::io::Write;
    let backend = start("frozen");
    let mut peer = Peer::connect(backend.address());
    peer.stream.set_write_timeout(Some(SILENCE)).unwrap();
    let part = [b'x'; 1 << 20];
    let sent = (0..1000).take_while(|_| peer.stream.write_all(&part).is_ok()).count();
    assert!(sent < 100, "{sent} MiB");
}

#[test]
fn drops_come_one_by_one() {
    let pause = Duration::from_millis(2);
    for (fault, drops) in [("drip:2ms", RIGHT.len()), ("drip-content:2ms", 10)] {
        let begun = Instant::now();
        check(fault, RIGHT, End::Closed);
        assert!(begun.elapsed() >= pause * (drops as u32 - 1), "{fault}");
    }
}

#[test]
fn slow_faults_take_their_time() {
    let begun = Instant::now();
    check("slow:300ms", RIGHT, End::Closed);
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn content_without_end() {
    let backend = start("endless");
    let mut peer = Peer::connect(backend.address());
    peer.send(GET);
    peer.read(10 << 20);
    drop(peer);
    backend.wait_until(PATIENCE, |seen| seen.open == 0).unwrap();
}

#[test]
fn a_reply_can_come_before_the_body() {
    let backend = start("reply-early");
    let mut peer = Peer::connect(backend.address());
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    assert_eq!(peer.rest(), (RIGHT.into(), End::Closed));
    assert!(backend.requests()[0].body.is_empty());
}

#[test]
fn kept_connections_die() {
    for (fault, end) in [("close-idle:1ms", End::Closed), ("reset-idle:1ms", End::Reset)] {
        let backend = start(fault);
        let mut peer = Peer::connect(backend.address());
        peer.send(GET);
        assert_eq!(peer.rest(), (RIGHT.into(), end), "{fault}");
    }
    let backend = start("close-after:2");
    let mut peer = Peer::connect(backend.address());
    for _ in 0..2 {
        peer.send(GET);
        assert_eq!(peer.read(RIGHT.len()), RIGHT);
    }
    peer.send(GET);
    assert_eq!(peer.rest(), (Vec::new(), End::Closed));
    assert_eq!(backend.seen().requests, 3);
}

#[test]
fn the_same_requests_fail_again() {
    let fates = || {
        let backend = start("sometimes:30%:status:500");
        let mut peer = Peer::connect(backend.address());
        let ask = |_| {
            peer.send(GET);
            peer.read_until("0123456789").starts_with("HTTP/1.1 500 ")
        };
        (0..200).map(ask).collect::<Vec<_>>()
    };
    let failed = fates();
    let count = failed.iter().filter(|failed| **failed).count();
    assert!((30..90).contains(&count), "{count}");
    assert_eq!(fates(), failed);
}

#[test]
fn steps_of_ones_own() {
    let steps = [Step::Send(b"a".to_vec()), Step::Repeat(b"b".to_vec(), 3, Duration::ZERO), Step::Reset];
    let backend = Backend::start(Fault::Steps(steps.to_vec())).unwrap();
    let mut peer = Peer::connect(backend.address());
    peer.send(GET);
    assert_eq!(peer.rest(), (b"abbb".to_vec(), End::Reset));
}

#[test]
fn a_backend_counts_connections_and_requests() {
    let backend = start("slow:1s");
    let mut peers: Vec<_> = (0..20).map(|_| Peer::connect(backend.address())).collect();
    peers.iter_mut().for_each(|peer| peer.send(GET));
    let seen = backend.wait_until(PATIENCE, |seen| seen.requests == 20).unwrap();
    assert_eq!((seen.connections, seen.open, seen.in_flight_max), (20, 20, seen.in_flight_max.max(1)));
    peers.iter_mut().for_each(|peer| assert_eq!(peer.read(RIGHT.len()), RIGHT));
    backend.wait_until(PATIENCE, |seen| seen.in_flight == 0).unwrap();
    drop(peers);
    let seen = backend.wait_until(PATIENCE, |seen| seen.open == 0).unwrap();
    assert_eq!((seen.connections, seen.requests), (20, 20));
}

#[test]
fn requests_are_remembered_as_they_came() {
    let backend = start("none");
    let mut peer = Peer::connect(backend.address());
    let chunked = "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n";
    peer.send(&format!("{GET}{chunked}"));
    assert_eq!(peer.read(RIGHT.len() * 2), RIGHT.repeat(2));
    let requests = backend.requests();
    assert_eq!(requests[0].head, GET.trim_end());
    assert_eq!((requests[1].method(), requests[1].target()), ("POST", "/b"));
    assert_eq!((&*requests[1].body, &*requests[1].trailers), (&b"abcde"[..], "X-Sum: 1\r\n"));
    assert_eq!(requests[1].connection, 0);
    let mut other = Peer::connect(backend.address());
    other.send(LAST);
    other.rest();
    assert_eq!(backend.requests()[2].connection, 1);
}

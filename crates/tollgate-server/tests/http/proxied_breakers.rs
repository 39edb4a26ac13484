//! Tests of the result that a breaker counts if a client does not read a reply to its end. A working backend
//! must not count as failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_server::{BackendOptions, BreakerOptions, BreakerState, ProxySpec, Timeouts};

use crate::asking::ask;
use crate::backend::{FakeBackend, Taken};
use crate::peer::PATIENCE;
use crate::site::{Running, Site};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SHORT: Duration = Duration::from_millis(50);
/// Time that is longer than any client of these tests stays connected.
const LONG: Duration = Duration::from_secs(2);

/// Starts a server whose backend fails until its breaker opens, and then waits until it is half-open. From
/// then on the backend runs the function `sound`. The breaker admits one probe.
fn tried(
    open: Duration,
    timeouts: Timeouts,
    sound: impl Fn(&mut Taken) + Send + Sync + 'static,
) -> (FakeBackend, Running) {
    let is_ill = Arc::new(AtomicBool::new(true));
    let ill = is_ill.clone();
    let backend = FakeBackend::start(move |taken| {
        taken.request();
        if ill.load(Ordering::SeqCst) {
            return taken.reset();
        }
        sound(taken);
    });
    let breaker = BreakerOptions { requests_min: 5, open, probes: 1, ..BreakerOptions::default() };
    let options = BackendOptions { breaker, timeouts, reply_bytes_max: 4, ..backend.options() };
    let server = Site::new()
        .proxy("/*", options, |_: &mut ProxySpec| {})
        .handler("/fetched", "return tollgate.fetch('app').error")
        .start();
    while breaker_of(&server) == BreakerState::Closed {
        let mut peer = server.connect();
        peer.send(GET);
        assert_eq!(peer.reply(false).status, 502);
    }
    is_ill.store(false, Ordering::SeqCst);
    await_state(&server, BreakerState::HalfOpen);
    (backend, server)
}

fn breaker_of(server: &Running) -> BreakerState {
    server.backends()[0].addresses[0].breaker
}

fn await_state(server: &Running, state: BreakerState) {
    let begun = Instant::now();
    while breaker_of(server) != state {
        assert!(begun.elapsed() < PATIENCE, "{:?}, not {state:?}", breaker_of(server));
        thread::sleep(Duration::from_millis(5));
    }
}

/// Repeats a request until the breaker closes.
fn closes_by(server: &Running, request: impl Fn()) {
    let begun = Instant::now();
    while breaker_of(server) != BreakerState::Closed {
        assert!(begun.elapsed() < PATIENCE, "it stays {:?}", breaker_of(server));
        request();
        server.await_idle_backends();
    }
}

/// Sends content without an end, and reports to the test when the server accepts no more bytes.
fn send_until_nobody_reads(taken: &mut Taken) {
    taken.set_write_timeout(2 * SHORT);
    taken.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    taken.fill(&[b'x'; 16 << 10]);
    taken.requests_done(0);
    taken.wait_for_end();
}

#[test]
fn a_reply_whose_backend_is_quiet_after_its_head_does_not_keep_others_from_trying() {
    for piece in ["", "1\r\nx\r\n"] {
        let (_backend, server) = tried(SHORT, Timeouts::default(), move |taken| {
            taken.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            taken.send(piece);
            taken.wait_for_end();
        });
        let mut peer = server.connect();
        peer.send(GET);
        assert_eq!(peer.head().status, 200);
        if !piece.is_empty() {
            peer.through(piece.as_bytes());
        }
        await_state(&server, BreakerState::Closed);
        assert!(peer.is_silent(), "its reply is still coming");
    }
}

#[test]
fn a_client_that_leaves_while_its_backend_keeps_up_says_nothing_against_it() {
    let (backend, server) = tried(LONG, Timeouts::default(), send_until_nobody_reads);
    closes_by(&server, || {
        let mut peer = server.connect();
        peer.send(GET);
        assert_eq!(peer.head().status, 200);
        while backend.request() != "0" {}
        peer.reset();
    });
}

#[test]
fn a_client_that_leaves_a_backend_that_lets_it_wait_says_nothing_for_it() {
    let (_backend, server) = tried(LONG, Timeouts::default(), |taken| {
        taken.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
        taken.wait_for_end();
    });
    for _ in 0..3 {
        let begun = Instant::now();
        let mut peer = server.connect();
        peer.send(GET);
        assert_eq!(peer.head().status, 200);
        peer.reset();
        server.await_idle_backends();
        // If the client stayed for longer than `LONG`, the request counted as a success.
        assert!(breaker_of(&server) == BreakerState::HalfOpen || begun.elapsed() >= LONG);
    }
}

#[test]
fn a_reply_that_is_not_taken_in_time_says_nothing_against_its_backend() {
    let timeouts = Timeouts { total: 10 * SHORT, ..Timeouts::default() };
    let (_backend, server) = tried(LONG, timeouts, send_until_nobody_reads);
    closes_by(&server, || {
        let mut peer = server.connect();
        peer.send(GET);
        assert_eq!(peer.head().status, 200);
        server.await_idle_backends();
    });
}

#[test]
fn a_reply_whose_content_is_not_passed_on_is_a_success() {
    let (_backend, server) = tried(SHORT, Timeouts::default(), |taken| {
        taken.send("HTTP/1.1 205 Reset Content\r\nContent-Length: 5\r\n\r\nhello");
        taken.wait_for_end();
    });
    closes_by(&server, || {
        let mut peer = server.connect();
        peer.send(GET);
        assert_eq!(peer.reply(false).status, 205);
    });
}

#[test]
fn a_reply_that_is_larger_than_a_script_may_have_is_a_success() {
    for head in ["Content-Length: 5", "Connection: close"] {
        let (_backend, server) = tried(SHORT, Timeouts::default(), move |taken| {
            taken.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\nhello"));
            taken.wait_for_end();
        });
        closes_by(&server, || assert_eq!(ask(&server, "/fetched"), "too_large"));
    }
}

//! Tests of the content of a proxied reply, which is forwarded while it arrives, breaks off, or waits for a
//! client that reads slowly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_faults::{Backend, Fault};
use tollgate_server::{BackendOptions, BreakerOptions, BreakerState, ProxySpec, Timeouts};

use crate::backend::FakeBackend;
use crate::peer::PATIENCE;
use crate::peer::Peer;
use crate::site::{Running, Site};

const GET: &str = "GET /app HTTP/1.1\r\nHost: a\r\n\r\n";
const SHORT: Duration = Duration::from_millis(200);

fn plain(_: &mut ProxySpec) {}

fn status(server: &Running) -> u16 {
    let mut peer = server.connect();
    peer.send(GET);
    peer.reply(false).status
}

#[test]
fn content_that_comes_after_its_head_is_waited_for() {
    for content in ["hello", &"0123456789".repeat(10_000)] {
        let (release, gate) = std::sync::mpsc::channel::<()>();
        let gate = std::sync::Mutex::new(gate);
        let (head, sent) =
            (format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len()), content.to_owned());
        let backend = FakeBackend::start(move |taken| {
            while taken.request().is_some() {
                for piece in [head.as_bytes(), &sent.as_bytes()[..2], &sent.as_bytes()[2..]] {
                    taken.send(piece);
                    gate.lock().unwrap().recv().unwrap();
                }
            }
        });
        let server = Site::new().proxy("/*", backend.options(), plain).start();
        let mut peer = server.connect();
        for _ in 0..2 {
            peer.send(GET);
            for _ in 0..3 {
                // The pause lets the server read the earlier part in a separate turn.
                thread::sleep(Duration::from_millis(20));
                release.send(()).unwrap();
            }
            peer.expect("200", content);
        }
        assert_eq!(backend.connections(), 1, "the connection is kept");
    }
}

#[test]
fn bytes_that_come_while_a_content_is_passed_on_count_as_received() {
    let long = "x".repeat(300_000);
    let (length, size) = (long.len() + 5, long.len() + 3);
    for (begun, rest) in [
        (format!("Content-Length: {length}\r\n\r\n{long}hel"), "lo"),
        (format!("Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{long}hel\r\n"), "2\r\nlo\r\n0\r\n\r\n"),
    ] {
        let (release, gate) = std::sync::mpsc::channel::<()>();
        let gate = std::sync::Mutex::new(gate);
        let backend = FakeBackend::start(move |taken| {
            while taken.request().is_some() {
                taken.send(format!("HTTP/1.1 200 OK\r\n{begun}"));
                gate.lock().unwrap().recv().unwrap();
                taken.send(rest);
            }
        });
        let server = Site::new().proxy("/*", backend.options(), plain).start();
        let mut peer = server.connect();
        peer.send(GET);
        peer.through(b"hel");
        peer.send(GET);
        let asked = Instant::now();
        while server.watch().status().received_bytes < 2 * GET.len() as u64 {
            assert!(asked.elapsed() < PATIENCE, "{rest}");
        }
        release.send(()).unwrap();
        release.send(()).unwrap();
    }
}

#[test]
fn a_backend_that_flushes_each_byte_is_heard_to_its_end() {
    const BYTES: usize = 100_000;
    let backend = FakeBackend::start(|taken| {
        taken.request();
        let chunks = "00000001\r\nx\r\n".repeat(BYTES);
        taken.send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"));
        taken.wait_for_end();
    });
    let server = Site::new().proxy("/*", backend.options(), plain).start();
    let mut peer = server.connect();
    // The reply to HTTP/1.0 has no chunks.
    peer.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(peer.head().status, 200);
    assert_eq!(peer.rest().len(), BYTES);
}

fn serve(backend: &Backend, failure_percent: u32, open: Duration) -> Running {
    let url = format!("http://{}", backend.address()).parse().unwrap();
    let mut options = BackendOptions::new("app", vec![url]);
    options.timeouts.idle = SHORT;
    options.breaker =
        BreakerOptions { requests_min: 5, failure_percent, open, probes: 2, ..BreakerOptions::default() };
    Site::new().proxy("/*", options, plain).start()
}

fn breaker(server: &Running) -> BreakerState {
    server.backends()[0].addresses[0].breaker
}

#[test]
fn a_reply_that_breaks_off_is_one_failure_and_no_success() {
    for fault in [Fault::ResetInContent, Fault::ShortContent, Fault::SilentAfterHead, Fault::CutChunks] {
        let backend = Backend::start(fault.clone()).unwrap();
        let server = serve(&backend, 100, Duration::from_secs(60));
        for _ in 0..5 {
            assert_eq!(breaker(&server), BreakerState::Closed, "{fault:?}");
            let mut peer = server.connect();
            peer.send("GET /app HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            assert!(!peer.until_end_or(b"a whole content"));
            server.await_idle_backends();
        }
        assert_eq!(breaker(&server), BreakerState::Open, "{fault:?}");
        assert_eq!(server.backends()[0].failures, 5, "{fault:?}");
    }
}

#[test]
fn a_probe_of_a_backend_is_judged_by_its_content_too() {
    let backend = Backend::start(Fault::ShortContent).unwrap();
    let server = serve(&backend, 50, SHORT);
    let mut statuses = Vec::new();
    while statuses.iter().filter(|status| **status == 503).count() < 3 {
        statuses.push(status(&server));
        if statuses.last() == Some(&503) {
            thread::sleep(SHORT);
        }
    }
    // Five failures open the breaker. After that, each probe is one failure.
    let tries = statuses.iter().filter(|status| **status == 502).count();
    assert!((5..=5 + 3).contains(&tries), "{statuses:?}");
    backend.turn(Fault::None).unwrap();
    while status(&server) != 200 {
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_reply_that_goes_on_for_long_does_not_keep_others_from_trying() {
    let (is_ill, is_over) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let (ill, over) = (is_ill.clone(), is_over.clone());
    let backend = FakeBackend::start(move |taken| {
        taken.request();
        if ill.load(Ordering::SeqCst) {
            return;
        }
        taken.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while !over.load(Ordering::SeqCst) && taken.fill_once(b"1\r\nx\r\n") {
            thread::sleep(Duration::from_millis(10));
        }
    });
    let breaker_options =
        BreakerOptions { requests_min: 5, open: SHORT, probes: 1, ..BreakerOptions::default() };
    let options = BackendOptions { breaker: breaker_options, ..backend.options() };
    let server = Site::new().proxy("/*", options, plain).start();
    while breaker(&server) != BreakerState::Open {
        assert_eq!(status(&server), 502);
    }
    is_ill.store(false, Ordering::SeqCst);
    let mut peer = server.connect();
    while breaker(&server) == BreakerState::Open {
        thread::sleep(Duration::from_millis(10));
    }
    peer.send(GET);
    assert_eq!(peer.head().status, 200);
    while breaker(&server) != BreakerState::Closed {
        peer.through(b"x\r\n");
    }
    is_over.store(true, Ordering::SeqCst);
}

const BIG_BYTES: usize = 8 << 20;

/// Requests two replies without an end after a large one, on one connection. The client reads nothing.
fn ask_and_take_nothing(server: &Running) -> Peer {
    let mut peer = server.connect();
    peer.send(format!("GET /big HTTP/1.1\r\nHost: a\r\n\r\n{GET}{GET}"));
    peer
}

#[test]
fn the_time_of_a_reply_goes_on_while_replies_before_it_leave() {
    for framing in ["Content-Length: 1000000000", "Transfer-Encoding: chunked"] {
        let backend = FakeBackend::endless(framing);
        let timeouts = Timeouts { total: 4 * SHORT, ..Timeouts::default() };
        let big = format!("tollgate.sleep(0.3) return string.rep('x', {BIG_BYTES})");
        let server = Site::new()
            .tune(|options| options.connection.write_timeout = Duration::from_secs(600))
            .handler("/big", &big)
            .proxy("/app", BackendOptions { timeouts, ..backend.options() }, plain)
            .start();
        let mut peer = ask_and_take_nothing(&server);
        // Both connections to the backend are closed although the client has not read the earlier reply.
        let heard: Vec<_> = (0..4).map(|_| backend.request()).collect();
        assert_eq!(heard.iter().filter(|heard| *heard == "0").count(), 2, "{heard:?}");
        server.await_idle_backends();
        assert_eq!(server.backends()[0].addresses[0].breaker, BreakerState::Closed);
        assert_eq!(peer.binary_reply().1.len(), BIG_BYTES);
        assert_eq!(peer.head().status, 200);
        assert!(!peer.until_end_or(b"\r\n0\r\n\r\n"), "its content is cut");
    }
}

//! Tests of bodies that are forwarded to a backend while they arrive. The tests check the pace of both sides,
//! and the early end of one side.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use tollgate_log::Level;
use tollgate_server::{BackendOptions, ProxySpec};

use crate::backend::{FakeBackend, Taken, field};
use crate::peer::Peer;
use crate::site::{Running, Site};
use crate::spool::wait_for_files as wait_for_spooled;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const BODY_BYTES: usize = 700_000;
/// Number of bytes that exceeds the limit for a body in memory, so that forwarding begins.
const FIRST_BYTES: usize = 100_000;

fn plain(_: &mut ProxySpec) {}

fn site() -> Site {
    Site::new().tune(|options| options.connection.body_memory_max = 4 << 10)
}

fn serve(options: BackendOptions) -> Running {
    site().proxy("/*", options, plain).tune_route(|route| route.body_bytes_max = 1 << 30).start()
}

fn content() -> String {
    (0..BODY_BYTES).map(|number| char::from(b'a' + (number % 19) as u8)).collect()
}

fn put(bytes: usize) -> String {
    format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n")
}

fn in_chunks(content: &str) -> String {
    let chunks = content.as_bytes().chunks(30_000);
    let chunks = chunks.map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)));
    chunks.collect::<String>() + "0\r\n\r\n"
}

/// Starts a backend that reports the first bytes of each request to the test, and answers after the whole
/// request.
fn reading() -> FakeBackend {
    FakeBackend::start(|taken| {
        while taken.has(FIRST_BYTES / 2) {
            taken.requests_done(taken.number);
            if taken.request().is_none() {
                break;
            }
            taken.send(OK);
        }
        taken.requests_done(usize::MAX);
    })
}

#[test]
fn a_long_body_goes_on_while_it_comes() {
    let backend = reading();
    let server = serve(backend.options());
    let content = content();
    let mut peer = server.connect();
    for _ in 0..2 {
        peer.send(put(content.len()) + &content[..FIRST_BYTES]);
        assert_eq!(backend.request(), "0", "it has the first bytes");
        peer.send(&content[FIRST_BYTES..]);
        peer.expect("200", "hello");
        let got = backend.request();
        assert_eq!(field(&got, "content-length"), Some("700000"));
        assert!(got.ends_with(&format!("\r\n\r\n{content}")));
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn one_that_goes_on_is_brought_to_its_end_however_short_memory_is() {
    let content = content();
    for method in ["GET", "HEAD", "OPTIONS", "PUT"] {
        let backend = reading();
        let server = site()
            .tune(|options| options.capacity.in_flight_bytes_max = 200_000)
            .proxy("/*", backend.options(), plain)
            .tune_route(|route| route.body_bytes_max = 1 << 30)
            .start();
        let mut peer = server.connect();
        peer.send(put(content.len()).replace("PUT", method) + &content[..FIRST_BYTES]);
        assert_eq!(backend.request(), "0", "it has the first bytes");
        let hoarders = hold_memory(&server);
        peer.send(&content[FIRST_BYTES..]);
        assert_eq!(peer.reply(method == "HEAD").status, 200, "{method}");
        assert!(backend.request().ends_with(&content));
        drop(hoarders);
    }
}

/// Connects clients that together hold all the allowed memory, by heads that do not end. The last client is
/// refused.
fn hold_memory(server: &Running) -> Vec<Peer> {
    let mut hoarders: Vec<_> = (0..40).map(|_| server.connect()).collect();
    for peer in &mut hoarders {
        peer.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(6000)));
    }
    assert_eq!(hoarders.last_mut().unwrap().reply(false).status, 503);
    hoarders
}

#[test]
fn one_of_unknown_length_goes_on_in_chunks() {
    let content = content();
    let backend = FakeBackend::start(|taken| {
        while let Some(request) = taken.chunked_request() {
            taken.requests_done(request.len());
            taken.send(OK);
        }
    });
    let server = serve(backend.options());
    let mut peer = server.connect();
    for _ in 0..2 {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
        peer.send(head);
        peer.expect_bytes(b"HTTP/1.1 100 Continue\r\n\r\n");
        peer.send(in_chunks(&content));
        peer.expect("200", "hello");
        assert_eq!(backend.request(), BODY_BYTES.to_string());
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn a_short_one_and_one_that_is_recorded_come_whole_first() {
    let backend = FakeBackend::replying(OK);
    let server = site()
        .stream("s", Level::Received, &["path text request.path"])
        .proxy("/*", backend.options(), plain)
        .start();
    let content = content();
    let mut peer = server.connect();
    let chunked = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for sent in [in_chunks("abc"), in_chunks(&content)] {
        peer.send(chunked.to_owned() + &sent);
        peer.expect("200", "hello");
    }
    let lengths = [backend.request(), backend.request()]
        .map(|got| field(&got, "content-length").and_then(|length| length.parse::<usize>().ok()));
    assert_eq!(lengths, [Some(3), Some(BODY_BYTES)]);
}

#[test]
fn a_backend_that_takes_nothing_slows_the_client() {
    let backend = FakeBackend::start(|taken| {
        taken.head();
        taken.requests_done(0);
        loop {
            thread::park();
        }
    });
    let server = site()
        .tune(|options| options.workers = 1)
        .proxy("/*", backend.options(), plain)
        .tune_route(|route| route.body_bytes_max = 1 << 30)
        .fixed("/turn", "turn")
        .start();
    let mut peer = server.connect();
    peer.send(put(256 << 20));
    // The buffers of the system hold only a small part of the body. Each reply to another request shows that
    // the worker also had a turn for this one.
    let turn = || server.check("GET /turn HTTP/1.1\r\nHost: a\r\n\r\n", "200", "turn");
    let sent = peer.fill(&vec![b'x'; 64 << 10], turn);
    assert!(sent < 1024, "the server took {sent} times 64 KiB that no backend took");
    assert_eq!(backend.request(), "0");
}

#[test]
fn a_client_that_ends_in_mid_body_ends_the_request_to_the_backend() {
    let backend = reading();
    let server = serve(backend.options());
    let content = content();
    for (field, ends_by_reset) in [("", false), ("", true), ("Connection: close\r\n", false)] {
        let mut peer = server.connect();
        let head = put(content.len()).replace("\r\n\r\n", &format!("\r\n{field}\r\n"));
        peer.send(head + &content[..FIRST_BYTES]);
        assert_ne!(backend.request(), usize::MAX.to_string());
        if ends_by_reset {
            peer.reset();
        } else {
            peer.finish();
            peer.expect("400", "incomplete content\n");
            peer.expect_end();
        }
        // No later request uses that connection.
        assert_eq!(backend.request(), usize::MAX.to_string(), "the connection is closed");
    }
    server.await_idle_backends();
    assert_eq!((backend.connections(), server.backends()[0].failures), (3, 0));
}

#[test]
fn one_that_is_taken_while_the_reply_before_it_is_sent_comes_whole() {
    let [has_come, has_most] = [(); 2].map(|()| Arc::new(Barrier::new(2)));
    let came = has_come.clone();
    let backend = FakeBackend::start(move |taken| {
        taken.head();
        if taken.came_with("GET") {
            came.wait();
            taken.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
            has_most.wait();
            taken.send("0\r\n\r\n");
        } else {
            taken.has(90_000);
            has_most.wait();
            taken.request();
            taken.send(OK);
        }
    });
    let tuned = Site::new().tune(|options| options.connection.body_memory_max = 100_000);
    let server = tuned
        .proxy("/*", backend.options(), plain)
        .tune_route(|route| route.body_bytes_max = 1 << 30)
        .start();
    for field in ["", "Connection: close\r\n"] {
        let received_before = server.watch().status().received_bytes;
        let mut peer = server.connect();
        let head = put(150_000).replace("\r\n\r\n", &format!("\r\n{field}\r\n"));
        peer.send(format!("GET / HTTP/1.1\r\nHost: a\r\n\r\n{head}{}", &content()[..150_000]));
        // Forwarding begins at this size, and the remaining bytes stay in the socket.
        while server.watch().status().received_bytes < received_before + 100_000 {
            thread::yield_now();
        }
        has_come.wait();
        peer.through(b"\r\n0\r\n\r\n");
        peer.expect("200", "hello");
    }
}

#[test]
fn chunks_that_are_none_in_mid_body_are_the_clients_fault() {
    let backend = FakeBackend::start(|taken| {
        taken.head();
        taken.wait_for_end();
        taken.requests_done(0);
    });
    let server = serve(backend.options());
    let mut peer = server.connect();
    let chunked = in_chunks(&content());
    peer.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    peer.send(&chunked[..chunked.len() - 5]);
    peer.send("xyz\r\n");
    assert_eq!(peer.reply(false).status, 400);
    peer.expect_end();
    assert_eq!(backend.request(), "0");
    let server = serve(backend.options());
    assert_eq!(server.backends()[0].failures, 0);
}

#[test]
fn a_reply_that_comes_before_the_body_is_passed_on_and_ends_the_connection() {
    let backend = FakeBackend::start(|taken: &mut Taken| {
        taken.head();
        taken.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nmuch");
        taken.wait_for_end();
        taken.requests_done(0);
    });
    let server = serve(backend.options());
    let mut peer = server.connect();
    peer.send(put(256 << 20));
    peer.send("x".repeat(FIRST_BYTES));
    let reply = peer.expect("413", "much");
    assert_eq!(reply.field("connection"), Some("close"));
    assert_eq!(backend.request(), "0", "a connection that did not take its request is not used again");
}

#[test]
fn one_that_does_not_come_in_time_is_408_and_no_fault_of_the_backend() {
    let backend = reading();
    let options = BackendOptions {
        timeouts: tollgate_server::Timeouts {
            first_byte: Duration::from_millis(1),
            total: Duration::from_millis(700),
            ..tollgate_server::Timeouts::default()
        },
        ..backend.options()
    };
    let server = serve(options);
    let content = content();
    let mut peer = server.connect();
    peer.send(put(content.len()) + &content[..FIRST_BYTES]);
    peer.expect("408", "the request did not arrive in time\n");
    peer.expect_end();
    assert_eq!(server.backends()[0].addresses[0].breaker, tollgate_server::BreakerState::Closed);
}

#[test]
fn slow_uploads_leave_half_of_the_places_and_further_ones_come_whole_first() {
    let backend = FakeBackend::replying(OK);
    let mut options = backend.options();
    options.concurrency_max = 2;
    options.queue_timeout = Duration::from_millis(1);
    let server = serve(options);
    let content = content();
    let begin = || {
        let mut peer = server.connect();
        peer.send(put(content.len()) + &content[..FIRST_BYTES]);
        peer
    };
    let await_upload = || {
        while server.backends()[0].in_flight == 0 {
            thread::yield_now();
        }
    };
    let mut passed_on = begin();
    await_upload();
    let mut spooled = begin();
    wait_for_spooled(&server, 1);
    assert_eq!(server.backends()[0].in_flight, 1, "the second is not there yet");
    server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200", "hello");
    for peer in [&mut spooled, &mut passed_on] {
        peer.send(&content[FIRST_BYTES..]);
        peer.expect("200", "hello");
    }
    let mut lengths: Vec<_> = (0..3).map(|_| backend.request().len()).collect();
    lengths.sort_unstable();
    assert!(lengths[0] < BODY_BYTES && lengths[1] > BODY_BYTES, "{lengths:?}");
    // The last byte of the body frees the permit for an upload to the backend.
    server.await_idle_backends();
    let mut again = begin();
    await_upload();
    wait_for_spooled(&server, 0);
    again.send(&content[FIRST_BYTES..]);
    again.expect("200", "hello");
}

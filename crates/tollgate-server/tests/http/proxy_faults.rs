//! Tests of backends that misbehave: the reply to the client, the requests that are sent again, and the
//! connections that are closed.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_server::{BackendOptions, BreakerOptions, ProxySpec};

use crate::backend::{FakeBackend, Taken, field};
use crate::peer::Reply;
use crate::site::{Running, Site};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
const SHORT: Duration = Duration::from_millis(50);

/// Returns the status, the outcome and the time to retry of a reply.
fn refusal(reply: &Reply) -> (u16, Option<&str>, Option<&str>) {
    (reply.status, reply.field("tollgate-outcome"), reply.field("retry-after"))
}

fn plain(_: &mut ProxySpec) {}

fn serve(options: BackendOptions) -> Running {
    Site::new().proxy("/*", options, plain).fixed("/health", "fine").start()
}

/// Returns the options of one backend with the addresses of both. The first address is tried first.
fn both(first: &FakeBackend, second: &FakeBackend) -> BackendOptions {
    let addresses = [first, second].map(|backend| format!("http://{}", backend.address).parse().unwrap());
    BackendOptions::new("app", addresses.to_vec())
}

/// Returns the status of the reply to one request on a new connection.
fn status(server: &Running, request: &str) -> u16 {
    let mut peer = server.connect();
    peer.send(request);
    let reply = peer.reply(false);
    peer.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.expect("200", "fine");
    reply.status
}

#[test]
fn a_client_that_reads_nothing_keeps_the_backend_no_longer_than_its_timeout() {
    for framing in ["Content-Length: 1000000000", "Transfer-Encoding: chunked"] {
        let backend = FakeBackend::endless(framing);
        let timeouts = tollgate_server::Timeouts { total: 6 * SHORT, ..tollgate_server::Timeouts::default() };
        let server = serve(BackendOptions { timeouts, ..backend.options() });
        let mut peer = server.connect();
        peer.send(GET);
        assert!(backend.request().starts_with("GET "));
        // The connection to the backend is closed although the client reads nothing.
        assert_eq!(backend.request(), "0");
        server.await_idle_backends();
        assert!(peer.sip(1 << 20, Duration::ZERO) < 1_000_000_000, "the reply is cut");
    }
}

#[test]
fn a_malformed_reply_is_502_and_its_connection_is_not_used_again() {
    for bytes in [
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
    ] {
        let backend = FakeBackend::start(move |taken| {
            let Some(_) = taken.request() else { return };
            taken.send(if taken.number == 0 { bytes } else { OK });
            if bytes.ends_with("hel") && taken.number == 0 {
                return;
            }
            taken.wait_for_end();
        });
        let server = serve(backend.options());
        assert_eq!(status(&server, POST), 502, "{bytes:?}");
        assert_eq!(status(&server, POST), 200, "{bytes:?}");
        assert_eq!(backend.connections(), 2, "{bytes:?}");
    }
}

#[test]
fn a_head_that_is_too_long_is_502() {
    let backend = FakeBackend::start(|taken| {
        taken.request();
        taken.send(format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(40 << 10)));
        taken.wait_for_end();
    });
    let server = serve(backend.options());
    assert_eq!(status(&server, POST), 502);
}

#[test]
fn bytes_that_follow_a_reply_are_no_reply_to_anybody() {
    let backend = FakeBackend::start(|taken| {
        while taken.request().is_some() {
            let more = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
            taken.send(format!("{OK}{}", if taken.number == 0 { more } else { "" }));
        }
    });
    let server = serve(backend.options());
    let mut peer = server.connect();
    for _ in 0..3 {
        peer.send(GET);
        peer.expect("200", "hello");
    }
    assert_eq!(backend.connections(), 2);
}

#[test]
fn a_backend_that_is_not_there_is_502_and_one_that_hangs_is_504() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = BackendOptions::new("app", vec![format!("http://{closed}").parse().unwrap()]);
    let server = serve(options);
    assert_eq!((status(&server, GET), status(&server, POST)), (502, 502));
    let silent = FakeBackend::start(Taken::wait_for_end);
    let mut options = silent.options();
    options.timeouts.first_byte = SHORT;
    assert_eq!(status(&serve(options), GET), 504);
    let half = FakeBackend::start(|taken| {
        taken.request();
        taken.send("HTTP/1.1 200 OK\r\nContent-");
        taken.wait_for_end();
    });
    let mut options = half.options();
    options.timeouts.idle = SHORT;
    assert_eq!(status(&serve(options), GET), 504);
    let dripping = FakeBackend::start(|taken| {
        taken.request();
        taken.send("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n");
        while taken.fill_once(b"x") {
            thread::sleep(Duration::from_millis(1));
        }
    });
    let mut options = dripping.options();
    options.timeouts.total = SHORT;
    assert_eq!(status(&serve(options), GET), 504);
}

#[test]
fn a_long_reply_that_breaks_off_is_cut_for_the_client_too() {
    for head in ["Content-Length: 1000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\n"] {
        let backend = FakeBackend::start(move |taken| {
            taken.request();
            taken.send(format!("HTTP/1.1 200 OK\r\n{head}hello"));
            thread::sleep(Duration::from_millis(10));
            taken.reset();
        });
        let server = serve(backend.options());
        let mut peer = server.connect();
        peer.send(GET);
        assert_eq!(peer.head().status, 200);
        let rest = peer.rest();
        assert!(rest.contains("hello") && !rest.ends_with("0\r\n\r\n"), "{rest:?}");
    }
}

#[test]
fn a_kept_connection_that_was_closed_costs_an_idempotent_request_nothing() {
    // The backend answers one request, and closes the connection when the next request arrives.
    let backend = FakeBackend::start(|taken| {
        taken.request();
        taken.send(OK);
        taken.head();
    });
    let server = serve(backend.options());
    let mut peer = server.connect();
    for connections in 1..=3 {
        peer.send(GET);
        peer.expect("200", "hello");
        assert_eq!(backend.connections(), connections);
    }
    // A request that may have had an effect is not sent again.
    peer.send(POST);
    assert_eq!(peer.reply(false).status, 502);
    assert_eq!(backend.connections(), 3);
}

#[test]
fn closed_connections_of_all_addresses_cost_a_request_one_resend_and_its_retries() {
    const PUT: &str = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    for (request, retries_max, sent) in [(GET, 1, 3), (PUT, 1, 3), (GET, 0, 2), (POST, 1, 1)] {
        let later = Arc::new(AtomicUsize::new(0));
        let backend = || {
            let later = later.clone();
            // Each backend answers one request, on its first connection.
            FakeBackend::start(move |taken| {
                if taken.number == 0 {
                    taken.request();
                    taken.send(OK);
                }
                taken.head();
                later.fetch_add(1, Ordering::SeqCst);
            })
        };
        let (first, second) = (backend(), backend());
        let mut options = both(&first, &second);
        options.retries.max = retries_max;
        let server = serve(options);
        assert_eq!((status(&server, GET), status(&server, GET)), (200, 200));
        assert_eq!((first.connections(), second.connections()), (1, 1), "both have one that is kept");
        assert_eq!(status(&server, request), 502);
        assert_eq!(later.load(Ordering::SeqCst), sent, "{request} with {retries_max}");
        let counted = &server.backends()[0];
        let again = sent as u64 - 1;
        assert_eq!((counted.resends, counted.retries), (again.min(1), again.saturating_sub(1)));
    }
}

#[test]
fn an_idempotent_request_that_failed_goes_to_another_address_once() {
    let failing = FakeBackend::start(|taken| {
        taken.request();
        taken.reset();
    });
    let sound = FakeBackend::replying(OK);
    let server = serve(both(&failing, &sound));
    for _ in 0..4 {
        assert_eq!(status(&server, GET), 200);
    }
    assert!(failing.connections() > 0, "it was asked");
    let failing_too = FakeBackend::start(|taken| {
        taken.request();
        taken.reset();
    });
    let server = serve(both(&failing, &failing_too));
    assert_eq!(status(&server, GET), 502);
    assert_eq!(failing_too.connections(), 1);
}

#[test]
fn a_request_that_changes_something_is_sent_once_but_for_one_of_which_nothing_was() {
    let failing = FakeBackend::start(|taken| {
        taken.request();
        taken.reset();
    });
    let sound = FakeBackend::replying(OK);
    let server = serve(both(&failing, &sound));
    let mut found = [status(&server, POST), status(&server, POST)];
    found.sort_unstable();
    assert_eq!(found, [200, 502], "each address was asked once");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut options = sound.options();
    options.addresses.push(format!("http://{closed}").parse().unwrap());
    let server = serve(options);
    for _ in 0..4 {
        assert_eq!(status(&server, POST), 200, "no connection: nothing was sent");
    }
}

#[test]
fn retries_end_with_their_budget() {
    let failing = FakeBackend::start(|taken| {
        taken.request();
        taken.reset();
    });
    let failing_too = FakeBackend::start(|taken| {
        taken.request();
        taken.reset();
    });
    let mut options = both(&failing, &failing_too);
    options.breaker.requests_min = 1000;
    options.retries.percent = 10;
    let server = serve(options);
    for _ in 0..50 {
        assert_eq!(status(&server, GET), 502);
    }
    let asked = failing.connections() + failing_too.connections();
    assert!(
        (60..=65).contains(&asked),
        "50 requests, 10 retries that were saved, and one for every ten: {asked}"
    );
}

#[test]
fn a_breaker_opens_refuses_at_once_and_closes_when_the_backend_is_back() {
    let is_back = Arc::new(AtomicUsize::new(0));
    let back = is_back.clone();
    let backend = FakeBackend::start(move |taken| {
        while taken.request().is_some() {
            if back.load(Ordering::SeqCst) == 0 {
                return taken.reset();
            }
            taken.send(OK);
        }
    });
    let mut options = backend.options();
    options.breaker = BreakerOptions {
        requests_min: 5,
        open: Duration::from_millis(300),
        probes: 2,
        ..BreakerOptions::default()
    };
    let server = serve(options);
    for _ in 0..5 {
        assert_eq!(status(&server, GET), 502);
    }
    let asked = backend.connections();
    let mut peer = server.connect();
    peer.send(GET);
    let reply = peer.reply(false);
    assert_eq!(refusal(&reply), (503, Some("refused"), Some("1")), "{reply:?}");
    assert_eq!(backend.connections(), asked, "nobody was asked");
    is_back.store(1, Ordering::SeqCst);
    // Refusals end when the breaker admits a probe.
    while status(&server, GET) == 503 {
        thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..10 {
        assert_eq!(status(&server, GET), 200);
    }
}

#[test]
fn statuses_by_which_a_backend_fails_open_its_breaker_and_others_do_not() {
    let replying =
        |status: &str| FakeBackend::replying(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
    for (line, last) in
        [("503 Service Unavailable", 503), ("500 Internal Server Error", 500), ("404 Not Found", 404)]
    {
        let backend = replying(line);
        let mut options = backend.options();
        options.breaker.requests_min = 3;
        let server = serve(options);
        for _ in 0..3 {
            assert_eq!(status(&server, GET).to_string(), line[..3]);
        }
        let mut peer = server.connect();
        peer.send(GET);
        let reply = peer.reply(false);
        assert_eq!(reply.status, last);
        assert_eq!(reply.field("retry-after").is_some(), line.starts_with("503"), "{reply:?}");
    }
}

#[test]
fn requests_beyond_those_that_the_backend_takes_wait_in_turn_and_then_are_refused() {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let backend = FakeBackend::start(move |taken| {
        while taken.request().is_some() {
            gate.lock().unwrap().recv().unwrap();
            taken.send(OK);
        }
    });
    let mut options = backend.options();
    (options.concurrency_max, options.queue_max) = (1, 1);
    options.queue_timeout = Duration::from_secs(20);
    let server = serve(options);
    let (mut first, mut second) = (server.connect(), server.connect());
    first.send(GET);
    assert!(backend.request().starts_with("GET"));
    second.send(GET);
    // When the second request waits, the next request is refused.
    let refused = loop {
        let mut third = server.connect();
        third.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        thread::sleep(Duration::from_millis(20));
        if !third.is_silent() {
            break third.reply(true);
        }
    };
    assert_eq!(refusal(&refused), (503, Some("refused"), Some("1")));
    assert_eq!(status_of_health(&server), 200, "another route is not held up");
    release.send(()).unwrap();
    first.expect("200", "hello");
    release.send(()).unwrap();
    release.send(()).unwrap();
    second.expect("200", "hello");
    assert_eq!(backend.connections(), 1);
}

fn status_of_health(server: &Running) -> u16 {
    let mut peer = server.connect();
    peer.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.reply(false).status
}

#[test]
fn a_request_that_waits_too_long_for_a_place_is_refused() {
    let backend = FakeBackend::start(Taken::wait_for_end);
    let mut options = backend.options();
    (options.concurrency_max, options.queue_timeout) = (1, SHORT);
    let server = serve(options);
    let mut first = server.connect();
    first.send(GET);
    while backend.connections() == 0 {
        thread::yield_now();
    }
    let mut second = server.connect();
    second.send(GET);
    assert_eq!(second.reply(false).status, 503);
}

#[test]
fn a_client_that_is_gone_takes_its_request_with_it() {
    let (ended, end) = std::sync::mpsc::channel();
    let ended = std::sync::Mutex::new(ended);
    let backend = FakeBackend::start(move |taken| {
        taken.request();
        taken.wait_for_end();
        ended.lock().unwrap().send(()).unwrap();
    });
    let server = serve(backend.options());
    // Before the reset, the client sends nothing more, ends its sending half, or sends more bytes than the
    // server reads.
    for more in [None, Some(""), Some(GET)] {
        let mut peer = server.connect();
        peer.send(POST);
        backend.request();
        match more {
            Some("") => peer.finish(),
            more => peer.send(more.unwrap_or_default().repeat(2000)),
        }
        assert!(peer.is_silent(), "what was asked is still awaited");
        peer.reset();
        end.recv_timeout(Duration::from_secs(20)).expect("the request to the backend is cancelled");
    }
    server.await_idle_backends();
}

#[test]
fn a_backend_that_answers_before_it_has_the_request_is_heard() {
    let backend = FakeBackend::start(|taken| {
        taken.head();
        taken.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig");
        thread::sleep(Duration::from_millis(50));
    });
    let server = Site::new()
        .proxy("/*", backend.options(), plain)
        .tune_route(|route| route.body_bytes_max = 64 << 20)
        .start();
    let mut peer = server.connect();
    let content = "x".repeat(16 << 20);
    peer.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{content}", content.len()));
    peer.expect("413", "big");
}

#[test]
fn a_reload_keeps_what_did_not_change_and_takes_the_rest() {
    let backend = FakeBackend::replying(OK);
    let site = Site::new().proxy("/*", backend.options(), plain);
    let mut options = site.options.clone();
    let server = site.start();
    server.check(GET, "200", "hello");
    server.reload(options.clone());
    server.check(GET, "200", "hello");
    assert_eq!(backend.connections(), 1, "the connection was kept");
    let snapshot = &server.backends()[0];
    assert_eq!((snapshot.requests, snapshot.connects, snapshot.addresses[0].idle), (2, 1, 1));
    let other = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother");
    options.backends[0] = other.options();
    server.reload(options);
    server.check(GET, "200", "other");
    assert_eq!(server.backends()[0].requests, 1);
    assert_eq!(field(&other.request(), "host"), Some("a"));
}

//! Tests of proxied routes: the request that a backend gets, and the parts of its reply that the client gets.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use tollgate_log::Level;
use tollgate_server::{BackendOptions, HostSent, ProxySpec, RequestIds};

use crate::backend::{FakeBackend, field};
use crate::site::{Running, Site};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn plain(_: &mut ProxySpec) {}

fn serve(backend: &FakeBackend) -> Running {
    Site::new().proxy("/*", backend.options(), plain).start()
}

/// Returns the request that the backend gets.
fn forwarded(request: &str, tune: impl FnOnce(&mut ProxySpec)) -> String {
    let backend = FakeBackend::replying(OK);
    let server = Site::new().proxy("/app/*", backend.options(), tune).start();
    server.check(request, "200", "hello");
    backend.request()
}

#[test]
fn a_request_goes_to_the_backend_and_its_reply_to_the_client() {
    let backend = FakeBackend::replying(
        "HTTP/1.1 201 Created\r\nContent-Type: text/x\r\nETag: \"1\"\r\nDate: long ago\r\nServer: app\r\n\
         Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 5\r\n\r\nhello",
    );
    let server = serve(&backend);
    let mut peer = server.connect();
    peer.send("POST /a?b=c HTTP/1.1\r\nHost: x.example\r\nContent-Length: 3\r\nA: b\r\n\r\nabc");
    let reply = peer.expect("201", "hello");
    assert_eq!(
        [reply.field("content-type"), reply.field("etag"), reply.field("server")],
        [Some("text/x"), Some("\"1\""), Some("app")]
    );
    assert_eq!(reply.head.matches("Date: ").count(), 1);
    assert!(!reply.head.contains("long ago") && reply.head.contains("a=1") && reply.head.contains("b=2"));
    let id = reply.field("x-request-id").unwrap();
    let expected = format!(
        "POST /a?b=c HTTP/1.1\r\nHost: x.example\r\nA: b\r\n\
         Forwarded: for=127.0.0.1;host=\"x.example\";proto={scheme}\r\nX-Forwarded-For: 127.0.0.1\r\n\
         X-Forwarded-Proto: {scheme}\r\nX-Forwarded-Host: x.example\r\nVia: 1.1 tollgate\r\n\
         X-Request-Id: {id}\r\nContent-Length: 3\r\n\r\nabc",
        scheme = server.scheme()
    );
    assert_eq!(backend.request(), expected);
}

#[test]
fn a_request_that_went_through_here_eight_times_goes_no_further() {
    let backend = FakeBackend::replying(OK);
    let server = serve(&backend);
    let ask = |rounds: usize, status: &str, content: &str| {
        let others = "Via: 1.1 other (tollgate), 1.0 tollgate.example\r\n";
        let listed = vec!["1.1 tollgate"; rounds - 1].join(", ");
        let via = format!("{others}Via: {listed}\r\nvia: 1.0 Tollgate (first)\r\n");
        server.check(&format!("GET / HTTP/1.1\r\nHost: a\r\n{via}\r\n"), status, content);
    };
    ask(7, "200", "hello");
    ask(8, "508", "a backend sends the request back to this server in a loop\n");
    assert_eq!(backend.connections(), 1);
}

#[test]
fn fields_about_a_request_and_its_record_come_from_no_backend() {
    let backend = || {
        FakeBackend::replying(
            "HTTP/1.1 200 OK\r\nTollgate-Outcome: refused\r\nX-Request-Id: theirs\r\nContent-Length: 5\r\n\r\nhello",
        )
    };
    let ask = |server: &Running| {
        let mut peer = server.connect();
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let reply = peer.expect("200", "hello");
        [reply.field("tollgate-outcome"), reply.field("x-request-id")].map(|field| field.map(str::to_owned))
    };
    let told = backend();
    let [outcome, id] = ask(&serve(&told));
    assert_eq!(outcome.as_deref(), Some("refused"));
    assert!(id.is_some_and(|id| id != "theirs"));
    let told = backend();
    let recorded = Site::new().stream("visits", Level::Written, &["path text request.path"]);
    let recorded =
        recorded.proxy("/*", told.options(), plain).tune(|options| options.routes[0].stream = Some(0));
    assert_eq!(ask(&recorded.start())[0], None);
    let told = backend();
    let silent = Site::new().proxy("/*", told.options(), plain);
    let silent = silent.tune(|options| options.request_ids = RequestIds::Silent);
    assert_eq!(ask(&silent.start())[1].as_deref(), Some("theirs"));
}

#[test]
fn fields_that_a_route_sets_stand_in_place_of_those_of_the_server() {
    let backend = FakeBackend::replying("HTTP/1.1 405 No\r\nAllow: PUT\r\nContent-Length: 5\r\n\r\nhello");
    let pairs = |fields: &[(&str, &str)]| -> Vec<(String, String)> {
        fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let tune = |proxy: &mut ProxySpec| {
        proxy.set_headers = pairs(&[("x-request-id", "mine")]);
        proxy.set_reply_headers = pairs(&[("x-request-id", "ours"), ("allow", "GET")]);
    };
    let server = Site::new().proxy("/*", backend.options(), tune).start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let reply = peer.expect("405", "hello");
    let values = |head: &str, name: &str| -> Vec<String> {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned()).collect()
    };
    assert_eq!(values(&reply.head, "x-request-id"), ["ours"]);
    assert_eq!(values(&reply.head, "allow"), ["GET"]);
    assert_eq!(values(&backend.request(), "x-request-id"), ["mine"]);
}

#[test]
fn one_connection_serves_request_after_request() {
    let backend = FakeBackend::replying(OK);
    let server = serve(&backend);
    for _ in 0..5 {
        server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200", "hello");
    }
    let mut peer = server.connect();
    peer.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.expect("200", "hello");
    assert_eq!(backend.connections(), 1);
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let backend = FakeBackend::start(|taken| {
        while let Some(request) = taken.request() {
            let path = request.split(' ').nth(1).unwrap().to_owned();
            if path == "/slow" {
                thread::sleep(Duration::from_millis(20));
            }
            taken.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()));
        }
    });
    let server = serve(&backend);
    let mut peer = server.connect();
    for path in ["/slow", "/a", "/slow", "/b"] {
        peer.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    for path in ["/slow", "/a", "/slow", "/b"] {
        peer.expect("200", path);
    }
}

#[test]
fn fields_of_the_connection_end_here() {
    let got = forwarded(
        "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: X-Own, keep-alive\r\nX-Own: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n\
         Proxy-Authorization: x\r\nUpgrade: websocket\r\nProxy-Connection: x\r\nHTTP2-Settings: x\r\nX-Kept: 2\r\n\r\n",
        plain,
    );
    for name in
        ["connection", "x-own", "keep-alive", "te", "proxy-authorization", "upgrade", "http2-settings"]
    {
        assert_eq!(field(&got, name), None, "{got}");
    }
    assert_eq!(field(&got, "x-kept"), Some("2"));
}

#[test]
fn a_chunked_request_is_framed_anew_and_expectations_are_answered_here() {
    let backend = FakeBackend::replying(OK);
    let server = serve(&backend);
    let mut peer = server.connect();
    peer.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    peer.expect_bytes(b"HTTP/1.1 100 Continue\r\n\r\n");
    peer.send("3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n");
    peer.expect("200", "hello");
    let got = backend.request();
    assert_eq!((field(&got, "content-length"), field(&got, "transfer-encoding")), (Some("5"), None));
    assert!(got.ends_with("\r\n\r\nabcde") && field(&got, "expect").is_none() && !got.contains("X-Trailer"));
}

#[test]
fn a_content_coding_is_the_backends_to_undo() {
    let got = forwarded(
        "POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
        plain,
    );
    assert_eq!(field(&got, "content-encoding"), Some("gzip"));
    assert!(got.ends_with("\r\n\r\nabcd"));
}

#[test]
fn methods_with_content_say_its_length_and_others_do_not() {
    let length = |method: &str| {
        let got = forwarded(&format!("{method} /app/ HTTP/1.1\r\nHost: a\r\n\r\n"), plain);
        field(&got, "content-length").map(str::to_owned)
    };
    assert_eq!(length("POST").as_deref(), Some("0"));
    assert_eq!((length("GET"), length("DELETE"), length("OPTIONS")), (None, None, None));
}

#[test]
fn a_target_is_sent_as_it_came_but_for_what_no_uri_has() {
    let target = |sent: &str| {
        let got = forwarded(&format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"), plain);
        got.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(target("/app/a%2Bb;c=d/?x=%20&y"), "/app/a%2Bb;c=d/?x=%20&y");
    assert_eq!(target("/app/a|b?q={x}"), "/app/a%7Cb?q=%7Bx%7D");
    assert_eq!(target("http://a/app/x"), "/app/x");
    // The target is forwarded without its dot segments, and an escape stays an escape.
    assert_eq!(target("/app/./a%3Badmin%2cb"), "/app/a%3Badmin%2cb");
    assert_eq!(target("/app/x%3B/%2e./%40"), "/app/%40");
    assert_eq!(target("/app/x/../y"), "/app/y");
    assert_eq!(target("/app/%2e%2E/app/y"), "/app/y");
}

#[test]
fn a_route_may_leave_out_its_prefix_and_add_another() {
    let target = |sent: &str, tune: fn(&mut ProxySpec)| {
        let got = forwarded(&format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"), tune);
        got.split(' ').nth(1).unwrap().to_owned()
    };
    let strip = |spec: &mut ProxySpec| spec.strip_prefix = true;
    assert_eq!(target("/app/a/b?c", strip), "/a/b?c");
    assert_eq!(target("/app/", strip), "/");
    assert_eq!(target("/%61pp/%61", strip), "/%61");
    let both = |spec: &mut ProxySpec| (spec.strip_prefix, spec.prefix) = (true, "/v2".to_owned());
    assert_eq!(target("/app/a", both), "/v2/a");
}

#[test]
fn host_is_the_clients_or_the_backends() {
    let backend = FakeBackend::replying(OK);
    let tune = |spec: &mut ProxySpec| spec.host = HostSent::Backend;
    let server = Site::new().proxy("/*", backend.options(), tune).start();
    server.check("GET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n", "200", "hello");
    let got = backend.request();
    assert_eq!(field(&got, "host"), Some(backend.address.to_string().as_str()));
    assert_eq!(field(&got, "x-forwarded-host"), Some("a.example:81"));
}

#[test]
fn a_route_sets_and_removes_fields_both_ways() {
    let backend = FakeBackend::replying(
        "HTTP/1.1 200 OK\r\nX-Powered-By: x\r\nX-Old: 1\r\nContent-Length: 5\r\n\r\nhello",
    );
    let server = Site::new()
        .proxy("/*", backend.options(), |spec| {
            spec.set_headers = vec![("X-Key".to_owned(), "secret".to_owned())];
            spec.remove_headers = vec!["cookie".to_owned(), "X-Forwarded-For".to_owned()];
            spec.set_reply_headers = vec![("x-old".to_owned(), "2".to_owned())];
            spec.remove_reply_headers = vec!["x-powered-by".to_owned()];
        })
        .start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nCookie: a\r\nx-key: forged\r\n\r\n");
    let reply = peer.expect("200", "hello");
    let got = backend.request();
    assert_eq!((field(&got, "x-key"), field(&got, "cookie")), (Some("secret"), None));
    assert_eq!((field(&got, "x-forwarded-for"), got.contains("forged")), (None, false));
    assert_eq!((reply.field("x-old"), reply.field("x-powered-by")), (Some("2"), None));
}

#[test]
fn head_204_and_304_end_with_their_head() {
    let backend = FakeBackend::start(|taken| {
        while let Some(request) = taken.request() {
            taken.send(match request.split(' ').nth(1).unwrap() {
                "/204" => "HTTP/1.1 204 No Content\r\n\r\n",
                "/304" => "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nContent-Length: 9\r\n\r\n",
                "/chunked" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
            });
        }
    });
    let server = serve(&backend);
    let mut peer = server.connect();
    peer.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /chunked HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.reply(true).field("content-length"), Some("9"));
    let chunked = peer.reply(true);
    assert_eq!((chunked.status, chunked.field("content-length")), (200, None));
    peer.send("GET /204 HTTP/1.1\r\nHost: a\r\n\r\nGET /304 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.expect("204", "").field("content-length"), None);
    assert_eq!(peer.expect("304", "").field("etag"), Some("\"1\""));
    peer.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.reply(true).status, 200);
}

#[test]
fn bytes_that_come_with_a_205_are_no_content() {
    let backend = FakeBackend::start(|taken| {
        while taken.request().is_some() {
            taken.send(format!(
                "HTTP/1.1 205 Reset Content\r\nContent-Length: 100000\r\n\r\n{}",
                "x".repeat(100_000)
            ));
        }
    });
    let server = serve(&backend);
    let mut peer = server.connect();
    for _ in 0..2 {
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(peer.expect("205", "").field("content-length"), Some("0"));
    }
    assert!(peer.is_silent());
    assert_eq!(backend.connections(), 2);
}

#[test]
fn a_chunked_reply_comes_whole_or_in_chunks_and_its_trailers_end_here() {
    let has_head = Arc::new(Barrier::new(2));
    let head = has_head.clone();
    let backend = FakeBackend::start(move |taken| {
        while taken.request().is_some() {
            taken.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n");
            head.wait();
            taken.send("3\r\nabc\r\n");
            taken.send("2\r\nde\r\n0\r\nX-T: 1\r\n\r\n");
        }
    });
    let server = serve(&backend);
    let mut peer = server.connect();
    for _ in 0..2 {
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = peer.head();
        assert_eq!(head.field("transfer-encoding"), Some("chunked"), "{head:?}");
        has_head.wait();
        let rest = peer.through(b"0\r\n\r\n");
        let content: String = rest.split("\r\n").filter(|line| line.starts_with(['a', 'd'])).collect();
        assert!(content == "abcde" && !rest.contains("X-T"), "{rest}");
    }
    assert_eq!(backend.connections(), 1);
    // A reply that arrives in one piece is forwarded with a length.
    let backend =
        FakeBackend::replying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    let server = serve(&backend);
    server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200", "abc");
}

#[test]
fn trailers_go_to_a_client_that_asks_for_them_but_for_those_that_none_may_be() {
    let end = "0\r\nX_Sum: 9\r\nContent-Length: 5\r\nSet-Cookie: a=1\r\nX-Debug: 1\r\nX-Hop: 1\r\nServer-Timing: a\r\n\r\n";
    let has_first = Arc::new(Barrier::new(2));
    let first = has_first.clone();
    let backend = FakeBackend::start(move |taken| {
        while let Some(request) = taken.request() {
            let head =
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: x-hop\r\n\r\n3\r\nabc\r\n";
            if request.starts_with("GET /at-once") {
                taken.send(head.to_owned() + end);
                continue;
            }
            taken.send(head);
            first.wait();
            taken.send(end);
        }
    });
    let remove = |spec: &mut ProxySpec| spec.remove_reply_headers = vec!["x-debug".to_owned()];
    let server = Site::new().proxy("/*", backend.options(), remove).start();
    let mut peer = server.connect();
    let asking = "HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n";
    for path in ["/", "/at-once"] {
        peer.send(format!("GET {path} {asking}"));
        assert_eq!(peer.head().field("transfer-encoding"), Some("chunked"));
        assert_eq!(peer.through(b"c\r\n"), "3\r\nabc\r\n");
        if path == "/" {
            has_first.wait();
        }
        assert_eq!(peer.through(b"\r\n\r\n"), "0\r\nX_Sum: 9\r\nServer-Timing: a\r\n\r\n");
        let got = backend.request();
        assert_eq!((field(&got, "te"), field(&got, "connection")), (Some("trailers"), Some("TE")));
    }
    // A client gets trailers only with HTTP/1.1, `TE: trailers`, and a `Connection` field that names TE.
    for silent in ["TE: trailers", "Connection: TE", "TE: deflate\r\nConnection: te"] {
        peer.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{silent}\r\n\r\n"));
        peer.head();
        assert_eq!(peer.through(b"c\r\n"), "3\r\nabc\r\n");
        has_first.wait();
        assert_eq!(peer.through(b"\r\n\r\n"), "0\r\n\r\n");
        assert_eq!(field(&backend.request(), "te"), None);
    }
    let mut old = server.connect();
    old.send("GET / HTTP/1.0\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    old.head();
    assert_eq!(old.through(b"c"), "abc");
    has_first.wait();
    assert_eq!(old.rest(), "");
}

#[test]
fn an_http_1_0_client_gets_its_reply_up_to_the_end_or_by_length() {
    let backend = FakeBackend::start(|taken| {
        while let Some(request) = taken.request() {
            if request.starts_with("GET /length") {
                taken.send(OK);
                continue;
            }
            taken.send("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            thread::sleep(Duration::from_millis(5));
            taken.send("3\r\nabc\r\n0\r\n\r\n");
        }
    });
    let server = serve(&backend);
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.0\r\n\r\n");
    let reply = peer.head();
    assert_eq!((reply.field("transfer-encoding"), reply.status), (None, 200));
    assert_eq!(peer.rest(), "abc");
    let mut peer = server.connect();
    peer.send("GET /length HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(peer.expect("200", "hello").field("connection"), Some("keep-alive"));
    let got = backend.request();
    assert_eq!(field(&got, "via"), Some("1.0 tollgate"));
    assert_eq!(field(&got, "host"), Some(backend.address.to_string().as_str()), "it named none");
}

#[test]
fn interim_replies_go_before_the_final_one_but_for_100() {
    let backend = FakeBackend::replying(format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: x\r\nX: 1\r\n\r\n{OK}"
    ));
    let server = serve(&backend);
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let interim = peer.head();
    assert_eq!((interim.status, interim.field("link"), interim.field("x")), (103, Some("</a.css>"), None));
    peer.expect("200", "hello");
}

#[test]
fn a_long_reply_passes_through_and_a_slow_client_slows_the_backend() {
    let backend = FakeBackend::start(|taken| {
        taken.request();
        taken.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 64 << 20));
        taken.set_write_timeout(Duration::from_millis(300));
        let sent = taken.fill(&vec![b'x'; 64 << 10]);
        // The buffers of the system hold only a small part of the reply.
        assert!(sent < 32 << 20, "the server took {sent} bytes that nobody read");
        taken.requests_done(sent);
    });
    let server = serve(&backend);
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = peer.head();
    assert_eq!(head.field("content-length"), Some((64 << 20).to_string().as_str()));
    assert_eq!(backend.request().split(' ').next(), Some("GET"));
    let sent: usize = backend.request().parse().unwrap();
    assert!(sent > 0);
    // The backend gave up, so the reply ends early, and the client can see this.
    assert!(peer.sip(1 << 20, Duration::ZERO) < 64 << 20);
}

#[test]
fn a_long_reply_is_passed_on_byte_for_byte() {
    let content: String = (0..300_000).map(|number: u32| char::from(b'a' + (number % 23) as u8)).collect();
    let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{content}", content.len());
    let backend = FakeBackend::replying(reply);
    let server = serve(&backend);
    let mut peer = server.connect();
    for _ in 0..3 {
        peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        peer.expect("200", &content);
    }
    assert_eq!(backend.connections(), 1);
    let closing = FakeBackend::start(move |taken| {
        taken.request();
        taken.send("HTTP/1.0 200 OK\r\n\r\nup to the end");
    });
    let server = serve(&closing);
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = peer.head();
    assert!(
        head.field("transfer-encoding").is_some() || head.field("content-length") == Some("13"),
        "{head:?}"
    );
}

#[test]
fn a_long_request_of_a_recorded_route_goes_through_the_spool() {
    let backend = FakeBackend::replying(OK);
    let server = Site::new()
        .stream("s", tollgate_log::Level::Received, &["path text request.path"])
        .proxy("/*", backend.options(), plain)
        .tune(|options| options.connection.body_memory_max = 4 << 10)
        .tune_route(|route| route.body_bytes_max = 4 << 20)
        .start();
    let content: String = (0..700_000).map(|number: u32| char::from(b'a' + (number % 19) as u8)).collect();
    let mut peer = server.connect();
    peer.send(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{content}", content.len()));
    peer.expect("200", "hello");
    assert!(backend.request().ends_with(&content));
}

#[test]
fn a_backend_may_be_behind_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
            stream.write_all(OK.as_bytes()).unwrap();
        }
    });
    let options = BackendOptions::new("app", vec![format!("unix:{}", path.display()).parse().unwrap()]);
    let server = Site::new().proxy("/*", options, plain).start();
    for _ in 0..3 {
        server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200", "hello");
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_proxied_route_records_its_transactions() {
    let backend = FakeBackend::start(|taken| {
        while let Some(request) = taken.request() {
            if request.starts_with("HEAD /sized") {
                taken.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
            } else if request.starts_with("HEAD /chunked") {
                taken.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            } else if request.starts_with("GET /long") {
                taken.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}",
                    "x".repeat(100_000)
                ));
            } else if request.starts_with("GET /bad") {
                taken.send("nonsense\r\n\r\n");
            } else {
                taken.send("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno");
            }
        }
    });
    let columns = [
        "path text request.path",
        "status int reply.status",
        "outcome text reply.outcome",
        "bytes int reply.bytes",
    ];
    let server = Site::new()
        .stream("s", tollgate_log::Level::Synced, &columns)
        .proxy("/*", backend.options(), plain)
        .start();
    let mut peer = server.connect();
    for (path, status) in [("/a", 404), ("/long", 200), ("/bad", 502)] {
        peer.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(peer.reply(false).status, status);
    }
    for path in ["/sized", "/chunked"] {
        peer.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(peer.reply(true).status, 200);
    }
    drop(peer);
    assert_eq!(
        server.records(),
        [
            "path=/a status=404 outcome=complete bytes=2",
            "path=/long status=200 outcome=streamed bytes=null",
            "path=/bad status=502 outcome=complete bytes=32",
            "path=/sized status=200 outcome=complete bytes=5",
            "path=/chunked status=200 outcome=complete bytes=null",
        ]
    );
}

#[test]
fn a_policy_for_other_origins_holds_on_a_proxied_route() {
    let backend = FakeBackend::replying(OK);
    let server = Site::new()
        .proxy("/*", backend.options(), plain)
        .tune_route(|route| {
            route.cors = Some(tollgate_server::CorsSpec {
                origins: tollgate_server::Origins::Any,
                methods: None,
                headers: tollgate_server::AnyOr::Any,
                expose: tollgate_server::AnyOr::Listed(Vec::new()),
                credentials: false,
                max_age: Duration::ZERO,
            });
        })
        .start();
    let mut peer = server.connect();
    peer.send(
        "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\nAccess-Control-Request-Method: PUT\r\n\r\n",
    );
    assert_eq!(peer.expect("204", "").field("access-control-allow-origin"), Some("*"));
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n");
    assert_eq!(peer.expect("200", "hello").field("access-control-allow-origin"), Some("*"));
    assert!(backend.request().starts_with("GET "), "the preflight is answered here");
    peer.send("OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n");
    peer.expect("200", "hello");
    assert!(backend.request().starts_with("OPTIONS "), "without a method to ask for it is no preflight");
}

#[test]
fn a_trace_goes_on_with_a_span_of_ours_and_what_is_none_ends_here() {
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let ask = |fields: &str| format!("GET /app/a HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let sent = forwarded(&ask(&format!("TraceParent: 00-{trace}-{parent}-01\r\nTracestate: a=1\r\n")), plain);
    let passed = field(&sent, "traceparent").unwrap();
    let [version, id, span, flags] = passed.split('-').collect::<Vec<_>>()[..] else { panic!("{passed}") };
    assert_eq!((version, id, flags), ("00", trace, "01"), "{passed}");
    assert!(span.len() == 16 && span != parent, "{passed}");
    assert_eq!(field(&sent, "tracestate"), Some("a=1"));
    assert_eq!(sent.to_ascii_lowercase().matches("traceparent").count(), 1);
    let sent = forwarded(&ask("Traceparent: 00-nonsense\r\nTracestate: a=1\r\n"), plain);
    assert!(!sent.to_ascii_lowercase().contains("trace"), "{sent}");
}

//! Tests of backends over TLS: the backends that are trusted, and the failures of all others. Everything else
//! must be the same as without TLS.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ProtocolVersion, ServerConfig, ServerConnection};
use tollgate_server::{BackendOptions, ClientIdentity, ProxySpec, TlsFiles};

use crate::backend::{FakeBackend, Taken, field};
use crate::peer::PATIENCE;
use crate::site::{Running, Site};
use crate::terminator::{Authority, Ending, LONG, OVER, ServerSide, Shaken, Terminator, options};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
const REFUSED: &str = "the TLS handshake with the backend failed\n";

fn plain(_: &mut ProxySpec) {}

fn serve(options: BackendOptions) -> Running {
    Site::new().proxy("/*", options, plain).start()
}

/// Starts a server with a script that returns the reason why it got no reply.
fn asking(options: BackendOptions) -> Running {
    let script = "local r = tollgate.fetch('app') return r.error and r.error .. ': ' .. r.message or r.body";
    Site::new().proxy("/proxied", options, plain).handler("/", script).start()
}

fn failures(server: &Running) -> Vec<(&'static str, u64)> {
    let failures = server.backends()[0].handshake_failures;
    failures.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Returns the error that a script gets from a backend, and checks that a proxied route refuses for the same
/// fault.
fn script_error(options: BackendOptions, fault: &'static str) -> String {
    let server = asking(options);
    server.check("GET /proxied HTTP/1.1\r\nHost: a\r\n\r\n", "502", REFUSED);
    let mut peer = server.connect();
    peer.send(GET);
    let text = peer.reply(false).content;
    assert_eq!(failures(&server), [(fault, 2)], "{text}");
    assert!(text.starts_with("tls: backend \"app\" at 127.0.0.1:"), "{text}");
    text
}

#[test]
fn requests_go_over_tls_of_both_versions_on_one_connection() {
    let authority = Authority::new();
    for (version, known) in [
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
    ] {
        let backend = FakeBackend::replying(OK);
        let side = ServerSide { versions: vec![version], ..authority.server() };
        let terminator = Terminator::start(backend.address, side);
        let server = serve(authority.options(&terminator));
        for request in [GET, POST, GET, POST] {
            server.check(request, "200", "hello");
            let got = backend.request();
            assert_eq!(got.split(' ').next(), request.split(' ').next());
            assert_eq!(got.ends_with("\r\n\r\nabc"), request == POST);
        }
        assert_eq!((terminator.connections(), server.backends()[0].connects), (1, 1));
        let expected = Shaken {
            version: Some(known),
            server_name: Some("localhost".to_owned()),
            protocol: Some(b"http/1.1".to_vec()),
            is_resumed: false,
        };
        assert_eq!(terminator.shaken(), expected);
    }
}

#[test]
fn sessions_are_resumed_on_new_connections() {
    let authority = Authority::new();
    let backend = FakeBackend::replying(OK);
    let terminator = Terminator::start(backend.address, authority.server());
    let mut options = authority.options(&terminator);
    options.pool.idle_max = 0;
    let server = serve(options);
    let resumed = [(); 3].map(|()| {
        server.check(GET, "200", "hello");
        terminator.shaken().is_resumed
    });
    assert_eq!(resumed, [false, true, true]);
}

#[test]
fn a_certificate_is_for_the_name_or_the_address_that_is_asked() {
    let authority = Authority::new();
    let backend = FakeBackend::replying(OK);
    let terminator = Terminator::start(backend.address, authority.server());
    let by_address = format!("https://{}", terminator.address);
    serve(options(std::slice::from_ref(&by_address), authority.trust())).check(GET, "200", "hello");
    assert_eq!(terminator.shaken().server_name, None, "an address is no server name");
    let other = Terminator::start(backend.address, authority.other("DNS:billing.example,DNS:*.b.example"));
    for (name, is_good) in
        [("billing.example", true), ("x.b.example", true), ("b.example", false), ("localhost", false)]
    {
        let files = TlsFiles { server_name: Some(name.to_owned()), ..authority.trust() };
        let server = serve(options(&[format!("https://{}", other.address)], files));
        match is_good {
            true => server.check(GET, "200", "hello"),
            false => server.check(GET, "502", REFUSED),
        }
    }
    let text = script_error(authority.options(&other), "name");
    let expected =
        "handshake: its certificate is for \"billing.example\", \"*.b.example\", not for \"localhost\"";
    assert!(text.contains("(localhost), ") && text.ends_with(expected), "{text}");
    let text = script_error(options(&[format!("https://{}", other.address)], authority.trust()), "name");
    assert!(text.ends_with("not for \"127.0.0.1\""), "{text}");
}

#[test]
fn a_certificate_that_is_not_trusted_or_not_valid_now_is_refused() {
    let authority = Authority::new();
    let backend = FakeBackend::replying(OK);
    let check = |side: ServerSide, files: TlsFiles, fault, expected: &str| {
        let terminator = Terminator::start(backend.address, side);
        let text = script_error(options(&[terminator.url()], files), fault);
        assert!(text.contains(expected), "{text}");
    };
    let stranger = Authority::new();
    let by_us = format!("not signed by an authority of {}", authority.path("ca.pem").display());
    check(stranger.server(), authority.trust(), "untrusted", &by_us);
    check(authority.self_signed("own", LONG), authority.trust(), "untrusted", &by_us);
    check(authority.expired(), authority.trust(), "expired", "certificate expired");
    check(authority.early(), authority.trust(), "expired", "not valid yet");
    assert_eq!(backend.connections(), 0);
    let sound = Terminator::start(backend.address, authority.server());
    asking(authority.options(&sound)).check(GET, "200", "hello");
}

/// Sends a valid ServerHello, and then bytes that are not TLS.
fn stumble(mut socket: TcpStream, config: Arc<ServerConfig>) {
    let mut session = ServerConnection::new(config).unwrap();
    while !session.wants_write() {
        session.read_tls(&mut socket).unwrap();
        session.process_new_packets().unwrap();
    }
    let mut flight = Vec::new();
    session.write_tls(&mut flight).unwrap();
    // A record has a type (1 byte), a version (2), a length (2), and then the message.
    let hello_bytes = 5 + usize::from(u16::from_be_bytes([flight[3], flight[4]]));
    socket.write_all(&flight[..hello_bytes]).unwrap();
    socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let _ = socket.read_to_end(&mut Vec::new());
}

#[test]
fn a_backend_that_stumbles_after_a_sound_hello_speaks_tls() {
    let authority = Authority::new();
    let config = authority.server().config();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            stumble(socket, config.clone());
        }
    });
    let text = script_error(options(&[url], authority.trust()), "protocol");
    assert!(!text.contains("does not use TLS"), "{text}");
}

#[test]
fn a_self_signed_certificate_is_taken_where_it_is_named_for_its_name_and_time() {
    let authority = Authority::new();
    let backend = FakeBackend::replying(OK);
    let own = Terminator::start(backend.address, authority.self_signed("own", LONG));
    let named = |name: &str| TlsFiles { ca: Some(authority.path(name)), ..TlsFiles::default() };
    serve(options(&[own.url()], named("own.crt"))).check(GET, "200", "hello");
    // The certificate states that it is an authority, like each self-signed certificate of openssl. Another
    // certificate with the same name is not trusted.
    authority.self_signed("twin", LONG);
    let text = script_error(options(&[own.url()], named("twin.crt")), "untrusted");
    assert!(text.contains("not signed by an authority of "), "{text}");
    let by_address = format!("https://{}", own.address);
    let text = script_error(options(&[by_address], named("own.crt")), "name");
    assert!(text.ends_with("not for \"127.0.0.1\""), "{text}");
    let over = Terminator::start(backend.address, authority.self_signed("over", OVER));
    let text = script_error(options(&[over.url()], named("over.crt")), "expired");
    assert!(text.contains("certificate expired"), "{text}");
}

#[test]
fn a_malformed_handshake_is_refused_with_its_reason() {
    let authority = Authority::new();
    let check = |backend: &FakeBackend, fault, expected: &str| {
        let url = format!("https://localhost:{}", backend.address.port());
        let text = script_error(options(&[url], authority.trust()), fault);
        assert!(text.contains(expected), "{text}");
    };
    // The backend sends HTTP without TLS: at once, or after the first bytes have arrived.
    let speaking = FakeBackend::start(|taken| {
        taken.send(OK);
        taken.wait_for_end();
    });
    check(&speaking, "not_tls", "handshake: it does not use TLS");
    let answering = FakeBackend::start(|taken| {
        taken.has(1);
        taken.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        taken.wait_for_end();
    });
    check(&answering, "not_tls", "handshake: it does not use TLS");
    // The backend sends a record with content before the handshake.
    let early = FakeBackend::start(|taken| {
        taken.has(1);
        taken.send([23, 3, 3, 0, 5, b'h', b'e', b'l', b'l', b'o']);
        taken.wait_for_end();
    });
    check(&early, "not_tls", "handshake: it does not use TLS");
    let closing = FakeBackend::start(|taken| assert!(taken.has(100)));
    check(&closing, "closed", "handshake: ");
    let resetting = FakeBackend::start(|taken| {
        taken.has(1);
        taken.reset();
    });
    check(&resetting, "closed", "handshake: the connection broke during the handshake");
    let refusing = FakeBackend::start(|taken| {
        taken.has(1);
        taken.send([21, 3, 3, 0, 2, 2, 40]);
        taken.wait_for_end();
    });
    check(&refusing, "refused", "HandshakeFailure");
}

#[test]
fn a_backend_silent_in_the_handshake_is_left_after_the_time_for_a_connection() {
    let authority = Authority::new();
    let silent = FakeBackend::start(Taken::wait_for_end);
    let begun = FakeBackend::start(|taken| {
        taken.send([22, 3, 3, 0, 200, 2]);
        taken.wait_for_end();
    });
    for backend in [silent, begun] {
        let url = format!("https://localhost:{}", backend.address.port());
        let mut options = options(&[url], authority.trust());
        options.timeouts.connect = Duration::from_millis(50);
        let server = asking(options);
        server.check(
            "GET /proxied HTTP/1.1\r\nHost: a\r\n\r\n",
            "504",
            "the backend did not reply in time\n",
        );
        let mut peer = server.connect();
        peer.send(GET);
        let text = peer.reply(false).content;
        assert!(text.contains("handshake: it made no progress within 50 ms"), "{text}");
        assert_eq!(failures(&server), [("timeout", 2)]);
    }
}

#[test]
fn handshakes_that_fail_open_the_breaker_and_another_address_is_asked_instead() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let backend = FakeBackend::replying(OK);
    let bad = Terminator::start(backend.address, stranger.server());
    let good = Terminator::start(backend.address, authority.server());
    let mut two = options(&[bad.url(), good.url()], authority.trust());
    two.breaker.requests_min = 2;
    two.pool.idle_max = 0;
    let server = serve(two);
    // No byte of the request was sent, so even a POST may be sent to the other address. After a failure the
    // other address is tried first for a second. Such failures repeat until the breaker opens.
    let begun = Instant::now();
    for _ in 0..8 {
        server.check(POST, "200", "hello");
    }
    let tries_max = 1 + begun.elapsed().as_secs() as usize;
    assert!((1..=tries_max).contains(&bad.connections()), "{}", bad.connections());
    let mut alone = authority.options(&bad);
    alone.breaker.requests_min = 2;
    let server = serve(alone);
    server.check(POST, "502", REFUSED);
    server.check(POST, "502", REFUSED);
    server.check(POST, "503", "the backend failed too often: try again later\n");
}

#[test]
fn a_reply_that_lasts_until_the_end_is_whole_only_if_the_end_is_told() {
    let authority = Authority::new();
    let backend = FakeBackend::start(|taken| {
        taken.request();
        taken.send("HTTP/1.1 200 OK\r\n\r\nhello");
    });
    let told = Terminator::start(backend.address, authority.server());
    let server = asking(authority.options(&told));
    server.check(GET, "200", "hello");
    let mut peer = server.connect();
    peer.send("GET /proxied HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(peer.through(b"\r\n0\r\n\r\n").contains("hello"));
    let side = ServerSide { ending: Ending::Cut, ..authority.server() };
    let cut = Terminator::start(backend.address, side);
    let server = asking(authority.options(&cut));
    let mut peer = server.connect();
    peer.send(GET);
    let text = peer.reply(false).content;
    assert!(text.starts_with("broken: ") && text.contains("without a close_notify"), "{text}");
    let mut peer = server.connect();
    peer.send("GET /proxied HTTP/1.1\r\nHost: a\r\n\r\n");
    let rest = peer.rest();
    assert!(!rest.contains("\r\n0\r\n") && !rest.contains("Content-Length: 5"), "{rest}");
}

#[test]
fn a_reply_of_known_length_needs_no_word_of_its_end() {
    let authority = Authority::new();
    let backend = FakeBackend::start(|taken| {
        taken.request();
        taken.send(OK);
    });
    let side = ServerSide { ending: Ending::Cut, ..authority.server() };
    let cut = Terminator::start(backend.address, side);
    let server = asking(authority.options(&cut));
    for _ in 0..20 {
        // If the kept connection was closed, a new connection is created.
        server.check(GET, "200", "hello");
    }
}

#[test]
fn long_contents_go_both_ways() {
    let authority = Authority::new();
    let bytes: Vec<u8> = (0..1u32 << 20).map(|place| b'a' + (place % 23) as u8).collect();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let backend = FakeBackend::start(|taken| {
        while let Some(request) = taken.request() {
            let content = request.split_once("\r\n\r\n").unwrap().1;
            taken.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len()) + content);
        }
    });
    let terminator = Terminator::start(backend.address, authority.server());
    // The body is complete in memory before it is sent, or is forwarded while it arrives.
    for memory_bytes in [4 << 20, 4 << 10] {
        let site = Site::new().tune(|options| options.connection.body_memory_max = memory_bytes);
        let site = site.proxy("/*", authority.options(&terminator), plain);
        let server = site.tune_route(|route| route.body_bytes_max = 1 << 30).start();
        for _ in 0..3 {
            let mut peer = server.connect();
            peer.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", bytes.len()));
            peer.send_all(&bytes);
            let (reply, content) = peer.binary_reply();
            assert!(reply.head.starts_with("HTTP/1.1 200") && content == bytes);
            assert!(backend.request().ends_with(&text));
        }
        assert_eq!(server.backends()[0].connects, 1);
    }
}

#[test]
fn a_slow_client_slows_the_backend_down_and_gets_all() {
    let authority = Authority::new();
    const BYTES: usize = 64 << 20;
    let backend = FakeBackend::start(|taken| {
        taken.head();
        taken.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"));
        taken.set_write_timeout(Duration::from_secs(1));
        let sent = taken.fill(&[7; 64 << 10]);
        taken.requests_done(sent);
        taken.set_write_timeout(PATIENCE);
        taken.send(vec![7; BYTES.saturating_sub(sent)]);
    });
    let terminator = Terminator::start(backend.address, authority.server());
    let server = serve(authority.options(&terminator));
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let sent: usize = backend.request().parse().unwrap();
    assert!(sent < BYTES, "all of it went while nobody read");
    let reply = peer.rest();
    let (_, content) = reply.split_once("\r\n\r\n").unwrap();
    assert_eq!(content.len(), BYTES);
    assert!(content.bytes().all(|byte| byte == 7));
}

#[test]
fn a_backend_that_takes_no_content_is_left_and_one_that_answers_early_is_heard() {
    let authority = Authority::new();
    let deaf = FakeBackend::start(|taken| {
        taken.head();
        std::thread::park_timeout(Duration::from_secs(20));
    });
    let terminator = Terminator::start(deaf.address, authority.server());
    let mut slow = authority.options(&terminator);
    slow.timeouts.first_byte = Duration::from_millis(200);
    let large = |site: Site| site.tune_route(|route| route.body_bytes_max = 1 << 30);
    let memory = |site: Site| site.tune(|options| options.connection.body_memory_max = 1 << 28);
    let content = vec![b'x'; 32 << 20];
    let post = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len());
    let server = large(memory(Site::new()).proxy("/*", slow, plain)).start();
    let mut peer = server.connect();
    peer.send(&post);
    peer.send_all(&content);
    peer.expect("504", "the backend did not reply in time\n");
    let hasty = FakeBackend::start(|taken| {
        taken.head();
        taken.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
        std::thread::park_timeout(Duration::from_secs(20));
    });
    let terminator = Terminator::start(hasty.address, authority.server());
    let server = large(memory(Site::new()).proxy("/*", authority.options(&terminator), plain)).start();
    let mut peer = server.connect();
    peer.send(&post);
    peer.send_all(&content);
    peer.expect("413", "no");
    assert_eq!(server.backends()[0].addresses[0].idle, 0, "it did not take the whole request");
}

#[test]
fn trailers_and_interim_replies_come_as_without_tls() {
    let authority = Authority::new();
    let backend = FakeBackend::replying(
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
    );
    let terminator = Terminator::start(backend.address, authority.server());
    let server = serve(authority.options(&terminator));
    for _ in 0..2 {
        let mut peer = server.connect();
        peer.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
        let text = peer.through(b"X-Sum: 1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 103 ") && text.contains("\r\nhello\r\n"), "{text}");
    }
    assert_eq!(terminator.connections(), 1);
}

#[test]
fn bytes_that_a_backend_sends_unasked_are_no_reply_to_anybody() {
    let authority = Authority::new();
    let long = "x".repeat(100_000);
    let expected = long.clone();
    let backend = FakeBackend::start(move |taken| {
        while taken.request().is_some() {
            // A part of the content arrives after the head, because the content is long.
            let long = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", long.len(), long);
            taken.send(long + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen");
        }
    });
    let terminator = Terminator::start(backend.address, authority.server());
    let server = serve(authority.options(&terminator));
    for asked in 1..=10 {
        server.check(POST, "200", &expected);
        assert_eq!(terminator.connections(), asked);
    }
}

#[test]
fn a_connection_on_which_half_a_record_came_is_not_used_again() {
    let authority = Authority::new();
    let backend = FakeBackend::replying(OK);
    let side = ServerSide { ending: Ending::Half, ..authority.server() };
    let terminator = Terminator::start(backend.address, side);
    let server = serve(authority.options(&terminator));
    for asked in 1..=5 {
        server.check(POST, "200", "hello");
        assert_eq!(terminator.connections(), asked);
    }
}

#[test]
fn fetch_all_asks_several_over_tls_at_once() {
    let authority = Authority::new();
    let backends = ["one", "two", "three"].map(|name| {
        let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
        let backend = FakeBackend::replying(reply);
        let terminator = Terminator::start(backend.address, authority.server());
        (name, backend, terminator)
    });
    let mut site = Site::new();
    for (name, _, terminator) in &backends {
        let options = BackendOptions { name: (*name).to_owned(), ..authority.options(terminator) };
        site = site.proxy(&format!("/{name}"), options, plain);
    }
    let script = "local all = tollgate.fetch_all({ { backend = 'one' }, { backend = 'two' }, { backend = 'three' }, \
                  { backend = 'one', path = '/x' } }) local out = {} \
                  for _, r in all do table.insert(out, r.body or r.message) end return table.concat(out, ' ')";
    let server = site.handler("/", script).start();
    for _ in 0..3 {
        server.check(GET, "200", "one two three one");
    }
    let host = field(&backends[1].1.request(), "host").map(str::to_owned);
    assert_eq!(host, Some(format!("localhost:{}", backends[1].2.address.port())));
}

#[test]
fn a_backend_that_asks_for_a_certificate_gets_the_one_that_is_configured() {
    let authority = Authority::new();
    let client = authority.client();
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let backend = FakeBackend::replying(OK);
        let clients = Some(authority.path("ca.pem"));
        let side = ServerSide { clients, versions: vec![version], ..authority.server() };
        let terminator = Terminator::start(backend.address, side);
        let files = TlsFiles { client: Some(client.clone()), ..authority.trust() };
        serve(options(&[terminator.url()], files)).check(GET, "200", "hello");
        let server = asking(authority.options(&terminator));
        let mut peer = server.connect();
        peer.send(GET);
        let text = peer.reply(false).content;
        assert!(text.contains("received fatal alert: "), "{text}");
        assert_eq!(backend.connections(), 1, "nothing of it went to the backend");
    }
}

#[test]
fn files_that_are_of_no_use_are_named() {
    let authority = Authority::new();
    authority.server();
    let client = authority.client();
    let load = |files: TlsFiles| tollgate_server::TlsOptions::load(files).unwrap_err().to_string();
    let of = |certificate: &str, key: &str| {
        let client = ClientIdentity { certificate: authority.path(certificate), key: authority.path(key) };
        load(TlsFiles { client: Some(client), ..authority.trust() })
    };
    let missing = load(TlsFiles { ca: Some(authority.path("missing.pem")), ..TlsFiles::default() });
    assert!(missing.contains("missing.pem: No such file"), "{missing}");
    let none = load(TlsFiles { ca: Some(authority.path("ca.key")), ..TlsFiles::default() });
    assert!(none.contains("ca.key: it has no certificate in PEM"), "{none}");
    let unfit = of("client.crt", "server.key");
    assert!(unfit.contains("server.key is not the key of the certificate in "), "{unfit}");
    let swapped = of("client.key", "client.crt");
    assert!(swapped.contains("client.key: it has no certificate"), "{swapped}");
    let keyless = of("client.crt", "client.crt");
    assert!(keyless.contains("client.crt: it has no private key"), "{keyless}");
    let name = load(TlsFiles { server_name: Some("a b".to_owned()), ..authority.trust() });
    assert_eq!(name, "\"a b\" is neither a host name nor an address");
    let good = TlsFiles { client: Some(client), ..authority.trust() };
    let shown = format!("{:?}", tollgate_server::TlsOptions::load(good).unwrap());
    assert!(shown.contains("client.key") && shown.len() < 1000, "{shown}");
}

#[test]
fn a_reload_with_the_same_names_and_other_files_begins_anew() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let backend = FakeBackend::replying(OK);
    let terminator = Terminator::start(backend.address, authority.server());
    let site = Site::new().proxy("/*", authority.options(&terminator), plain);
    let mut again = site.options.clone();
    let server = site.start();
    server.check(GET, "200", "hello");
    again.backends = vec![authority.options(&terminator)];
    server.reload(again.clone());
    server.check(GET, "200", "hello");
    assert_eq!(terminator.connections(), 1, "what did not change keeps its connections");
    std::fs::copy(stranger.path("ca.pem"), authority.path("ca.pem")).unwrap();
    again.backends = vec![authority.options(&terminator)];
    server.reload(again);
    server.check(GET, "502", REFUSED);
}

#[test]
fn a_reload_takes_a_certificate_that_stands_for_itself_and_was_renewed_with_its_key() {
    let authority = Authority::new();
    let backend = FakeBackend::replying(OK);
    let named = || TlsFiles { ca: Some(authority.path("own.crt")), ..TlsFiles::default() };
    authority.self_signed("own", LONG);
    // The backend has the new certificate before the file of trusted certificates has it.
    let old = std::fs::read(authority.path("own.crt")).unwrap();
    let own = Terminator::start(backend.address, authority.renewed("own"));
    let new = std::fs::read(authority.path("own.crt")).unwrap();
    assert_ne!(old, new);
    std::fs::write(authority.path("own.crt"), old).unwrap();
    let site = Site::new().proxy("/*", options(&[own.url()], named()), plain);
    let mut again = site.options.clone();
    let server = site.start();
    server.check(GET, "502", REFUSED);
    std::fs::write(authority.path("own.crt"), new).unwrap();
    again.backends = vec![options(&[own.url()], named())];
    server.reload(again);
    server.check(GET, "200", "hello");
}

#[test]
fn an_address_that_nobody_listens_at_is_no_handshake() {
    let authority = Authority::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = asking(options(&[format!("https://127.0.0.1:{port}")], authority.trust()));
    server.check("GET /proxied HTTP/1.1\r\nHost: a\r\n\r\n", "502", "the backend is not reachable\n");
    assert_eq!(failures(&server), []);
}

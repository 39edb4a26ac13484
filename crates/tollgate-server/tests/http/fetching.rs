//! Tests of scripts that send requests to backends: the requests, the replies and the errors. A test also
//! checks that no other request is delayed.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_server::BackendOptions;

use crate::backend::{FakeBackend, Taken, field};
use crate::site::{Running, Site};

const OK: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-A: 1\r\nContent-Length: 9\r\n\r\n{\"n\":[1]}";

fn site(backend: &FakeBackend, handler: &str) -> Running {
    with(backend.options(), handler)
}

fn with(options: BackendOptions, handler: &str) -> Running {
    Site::new().tune(|all| all.backends.push(options)).handler("/*", handler).start()
}

fn get(server: &Running) -> (u16, String) {
    let mut peer = server.connect();
    peer.send("GET /x HTTP/1.1\r\nHost: a\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n");
    let reply = peer.reply(false);
    (reply.status, reply.content)
}

fn check(server: &Running, expect: &str) {
    assert_eq!(get(server), (200, expect.to_owned()));
}

#[test]
fn a_reply_is_status_headers_and_body() {
    let backend = FakeBackend::replying(OK);
    let server = site(
        &backend,
        "local r = tollgate.fetch('app')
         return r.status .. ' ' .. r.headers['X-a'] .. ' ' .. r.body .. ' ' .. r:json().n[1] .. ' ' .. tostring(r.error)",
    );
    check(&server, "200 1 {\"n\":[1]} 1 nil");
    let got = backend.request();
    assert!(got.starts_with("GET / HTTP/1.1\r\n"), "{got}");
    assert_eq!(field(&got, "host"), Some(backend.address.to_string().as_str()));
    assert!(
        field(&got, "traceparent")
            .is_some_and(|trace| trace.starts_with("00-0af7651916cd43dd8448eb211c80319c-")),
        "{got}"
    );
    assert!(field(&got, "x-request-id").is_some_and(|id| id.len() == 36), "{got}");
    check(&server, "200 1 {\"n\":[1]} 1 nil");
    assert_eq!(backend.connections(), 1, "the connection is kept");
}

#[test]
fn a_request_is_what_the_options_say() {
    let backend = FakeBackend::replying(OK);
    let sent = |options: &str| {
        let server =
            site(&backend, &format!("local r = tollgate.fetch('app', {options}) return r.status .. ''"));
        check(&server, "200");
        let got = backend.request();
        let (head, content) = got.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), head.to_owned() + "\r\n\r\n", content.to_owned())
    };
    let (line, _, content) = sent("{ path = '/a b?c=1', query = { d = { 'x y', 2 }, e = true } }");
    assert_eq!((line.as_str(), content.as_str()), ("GET /a%20b?c=1&d=x%20y&d=2&e=true HTTP/1.1", ""));
    assert_eq!(sent("{ path = '/a?b', query = {} }").0, "GET /a?b HTTP/1.1");
    let (line, head, content) = sent("{ json = { a = 1 } }");
    assert_eq!((line.as_str(), content.as_str()), ("POST / HTTP/1.1", "{\"a\":1}"));
    assert_eq!(
        [field(&head, "content-type"), field(&head, "content-length")],
        [Some("application/json"), Some("7")]
    );
    let (line, head, content) = sent(
        "{ method = 'PUT', body = 'abc', headers = { ['X-A'] = { 'b', 2 }, Host = 'other', ['X-Request-Id'] = 'mine' } }",
    );
    assert_eq!((line.as_str(), content.as_str()), ("PUT / HTTP/1.1", "abc"));
    assert_eq!([field(&head, "host"), field(&head, "x-request-id")], [Some("other"), Some("mine")]);
    assert!(head.contains("X-A: b\r\nX-A: 2\r\n"), "{head}");
    // Characters that would end a line are escaped.
    assert_eq!(sent("{ path = '/a\\r\\nX: y' }").0, "GET /a%0D%0AX:%20y HTTP/1.1");
}

#[test]
fn a_fault_of_a_call_is_an_error_that_says_so() {
    let backend = FakeBackend::replying(OK);
    for (call, expect) in [
        ("tollgate.fetch('ap')", "unknown backend \"ap\", did you mean \"app\"?"),
        ("tollgate.fetch()", "backend of tollgate.fetch is a nil"),
        ("tollgate.fetch('app', { metod = 1 })", "unknown field \"metod\", did you mean \"method\"?"),
        ("tollgate.fetch('app', { backend = 'b' })", "takes its backend first"),
        ("tollgate.fetch('app', { method = 'get' })", "did you mean \"GET\"?"),
        ("tollgate.fetch('app', { path = 'x' })", "begins with \"/\""),
        ("tollgate.fetch('app', { body = 'a', json = 1 })", "both body and json"),
        ("tollgate.fetch('app', { timeout = 0 })", "seconds above 0"),
        ("tollgate.fetch('app', { headers = { ['a b'] = 'c' } })", "allowed is a token"),
        ("tollgate.fetch('app', { headers = { a = 'c\\r\\nd: e' } })", "has a control"),
        ("tollgate.fetch('app', { headers = { ['Content-Length'] = '1' } })", "written by the server"),
        ("tollgate.fetch('app', { headers = { Expect = '100-continue' } })", "written by the server"),
        (
            "tollgate.fetch('app', { headers = { ['Content-Type'] = { 'a/b', 'c/d' } } })",
            "is repeated: allowed is once",
        ),
        ("tollgate.fetch('app', { headers = { Host = { 'a', 'b' } } })", "is repeated: allowed is once"),
        ("tollgate.fetch('app', { headers = { host = 'a', Host = 'b' } })", "is repeated: allowed is once"),
        ("tollgate.fetch('app', { headers = { Host = 'a b/c' } })", "allowed is a host, and a port"),
        ("tollgate.fetch('app', { headers = { Host = 'a, b' } })", "allowed is a host"),
        ("tollgate.fetch('app', { headers = { hoST = 'user@x/p?q' } })", "\"hoST\" is \"user@x/p?q\""),
        ("tollgate.fetch('app', { headers = { Host = '' } })", "allowed is a host"),
        ("tollgate.fetch_all('app')", "a list of tables"),
        ("tollgate.fetch_all({ {} })", "backend of tollgate.fetch_all is a nil"),
        ("tollgate.fetch_all(table.create(65, { backend = 'app' }))", "65 requests, limit 64 requests"),
    ] {
        let server = site(
            &backend,
            &format!("local ok, problem = pcall(function() return {call} end) return tostring(problem)"),
        );
        let (status, text) = get(&server);
        assert!(status == 200 && text.contains(expect), "{call}: {text}");
    }
    assert_eq!(backend.connections(), 0);
}

#[test]
fn a_fetch_without_a_reply_gives_an_error_and_a_message() {
    let handler = "local r = tollgate.fetch('app', { timeout = 5 }) return tostring(r.error) .. ' ' .. tostring(r.status) .. ' ' .. #r.body .. tostring(r.headers['a'])";
    let garbage = FakeBackend::replying("garbage\r\n\r\n");
    check(&site(&garbage, handler), "invalid nil 0nil");
    let silent = FakeBackend::start(Taken::wait_for_end);
    let mut options = silent.options();
    options.timeouts.first_byte = Duration::from_millis(20);
    check(&with(options, handler), "timeout nil 0nil");
    let own = "local r = tollgate.fetch('app', { timeout = 0.02 }) return r.error";
    check(&site(&silent, own), "timeout");
    let large = FakeBackend::replying(OK);
    let mut options = large.options();
    options.reply_bytes_max = 8;
    check(&with(options, handler), "too_large nil 0nil");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut options = BackendOptions::new("app", vec![format!("http://{closed}").parse().unwrap()]);
    options.breaker.requests_min = 2;
    let server = with(
        options,
        "local r = tollgate.fetch('app') return r.error .. ' ' .. tostring(string.find(r.message, 'app') ~= nil)",
    );
    check(&server, "connect true");
    check(&server, "connect true");
    check(&server, "open true");
}

#[test]
fn requests_of_fetch_all_run_at_once_and_come_in_order() {
    // The backend answers each request only when all requests have arrived. If the requests ran one after
    // another, the backend would never answer.
    let (sender, arrived) = channel::<()>();
    let (sender, arrived) = (Mutex::new(sender), Arc::new(Mutex::new(arrived)));
    let (go, gate) = channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let backend = FakeBackend::start(move |taken| {
        while let Some(request) = taken.request() {
            sender.lock().unwrap().send(()).unwrap();
            gate.lock().unwrap().recv().unwrap();
            let path = request.split(' ').nth(1).unwrap();
            taken.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()));
        }
    });
    std::thread::spawn(move || {
        for _ in 0..3 {
            arrived.lock().unwrap().recv().unwrap();
        }
        (0..3).for_each(|_| go.send(()).unwrap());
    });
    let server = site(
        &backend,
        "local all = tollgate.fetch_all({ { backend = 'app', path = '/1' }, { backend = 'app', path = '/2' },
           { backend = 'app', path = '/3' } })
         return all[1].body .. all[2].body .. all[3].body .. #all",
    );
    check(&server, "/1/2/33");
    let server = site(&backend, "return #tollgate.fetch_all({}) .. ''");
    check(&server, "0");
}

#[test]
fn replies_that_come_for_scripts_are_held_within_what_may_be_in_flight() {
    let content = "x".repeat(300_000);
    let backend =
        FakeBackend::replying(format!("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n{content}"));
    let server = Site::new()
        .tune(|all| {
            all.capacity.in_flight_bytes_max = 1_000_000;
            all.backends.push(backend.options());
        })
        .handler(
            "/*",
            "local one, asked = { backend = 'app' }, {}
             for _ = 1, tonumber(req.query.n) do table.insert(asked, one) end
             local whole = 0
             for _, reply in tollgate.fetch_all(asked) do
                 if #reply.body == 300000 then whole += 1 end
                 if #reply.body == 0 then assert(reply.error == 'no_room', reply.message) end
             end
             return whole .. ''",
        )
        .start();
    let whole = |asked: usize| {
        let mut peer = server.connect();
        peer.send(format!("GET /?n={asked} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let reply = peer.reply(false);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.content.parse::<usize>().unwrap()
    };
    for _ in 0..3 {
        assert_eq!(whole(2), 2);
        let some = whole(20);
        assert!((1..20).contains(&some), "{some}");
    }
}

#[test]
fn a_call_that_waits_for_a_backend_holds_nobody_up_and_ends_with_its_client() {
    let (ended, end) = channel();
    let ended = Mutex::new(ended);
    let backend = FakeBackend::start(move |taken| {
        taken.request();
        taken.wait_for_end();
        ended.lock().unwrap().send(()).unwrap();
    });
    let server = Site::new()
        .tune(|all| all.backends.push(backend.options()))
        .handler("/slow", "return tollgate.fetch('app').status .. ''")
        .handler("/fast", "return 'fast'")
        .start();
    let mut slow = server.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    backend.request();
    server.check("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n", "200", "fast");
    slow.reset();
    end.recv_timeout(Duration::from_secs(20)).expect("the request is cancelled");
}

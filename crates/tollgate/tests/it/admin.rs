//! The admin listener: the clients that it answers, its answers, and its independence of faults in other
//! parts of the server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::Client;
use crate::program::{App, BINARY, PATIENCE, eventually};

const ROUTE: &str = "[[route]]\npath = \"/\"\nreply = { body = \"hello\" }\n";
const STREAM: &str = "[stream.s]\ncolumns = [{ name = \"path\", type = \"text\", from = \"request.path\" }]\n\
                      [[route]]\npath = \"/kept\"\nreply = { body = \"kept\" }\nstream = \"s\"\n";
const TOKEN: &str = "0123456789abcdef-token";

/// A complete answer. The listener closes the connection after each answer.
#[derive(Debug)]
pub(crate) struct AdminReply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) content: String,
}

/// Sends a request to the socket in the log folder. `None`: no server listens.
pub(crate) fn ask(app: &App, request: &str) -> Option<AdminReply> {
    ask_at(&app.log_dir().join("admin.sock"), request)
}

/// Sends a request to the listener at a socket. `None`: there is no answer.
fn ask_at(socket: &Path, request: &str) -> Option<AdminReply> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    exchange(&mut stream, request)
}

pub(crate) fn exchange(stream: &mut (impl Read + Write), request: &str) -> Option<AdminReply> {
    stream.write_all(request.as_bytes()).ok()?;
    let mut came = String::new();
    stream.read_to_string(&mut came).ok()?;
    let (head, content) = came.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().unwrap();
    Some(AdminReply { status, head: head.to_owned(), content: content.to_owned() })
}

pub(crate) fn get(app: &App, path: &str) -> AdminReply {
    ask(app, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).expect("an answer")
}

/// Asks a process that loads from a store, whose folder of fetched segments has its default place.
pub(crate) fn get_of_loader(app: &App, path: &str) -> Option<AdminReply> {
    let socket = app.log_dir().with_file_name("fetched").join("admin.sock");
    ask_at(&socket, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

/// Returns the value of a series in the text of the metrics.
pub(crate) fn sample(exposition: &str, series: &str) -> u64 {
    let line = exposition.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
}

/// Waits until the retainer has checked twice for segments to delete and for free space. The second check
/// begins after this call.
pub(crate) fn after_retain_passes(app: &App) {
    let passes = || sample(&get(app, "/metrics").content, "tollgate_log_retain_passes_total");
    let before = passes();
    eventually("the log looks twice", || (passes() >= before + 2).then_some(()));
}

/// Repeats a request until the answer is as expected.
pub(crate) fn get_until(app: &App, path: &str, status: u16, part: &str) -> AdminReply {
    eventually(&format!("{path} says {status} with {part:?}"), || {
        let answer = ask(app, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))?;
        (answer.status == status && answer.content.contains(part)).then_some(answer)
    })
}

#[test]
fn health_readiness_metrics_and_status_are_on_a_socket_that_only_the_owner_reaches() {
    let app = App::new(&format!("{ROUTE}{STREAM}"), &[]);
    let server = app.start();
    assert!(server.connect().get("/kept").unwrap().is_success());
    let mode = std::fs::metadata(app.log_dir().join("admin.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let health = get(&app, "/healthz");
    assert_eq!((health.status, health.content.as_str()), (200, "ok\n"));
    assert!(health.head.contains("Connection: close") && health.head.contains("Cache-Control: no-store"));
    assert_eq!(get(&app, "/readyz").content, "ready\n");
    let json =
        ask(&app, "GET /readyz HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n").unwrap();
    assert_eq!(json.content, "{\"ready\":true,\"reasons\":[],\"warnings\":[]}\n");
    let metrics = get(&app, "/metrics");
    assert!(metrics.head.contains("Content-Type: text/plain; version=0.0.4"), "{}", metrics.head);
    assert!(metrics.content.contains("tollgate_http_requests_total{route=\"/kept\",class=\"2xx\"} 1\n"));
    let status: serde_json::Value = get(&app, "/status").content.parse().unwrap();
    assert_eq!((status["phase"].as_str(), status["requests"]["2xx"].as_u64()), (Some("serving"), Some(1)));
    assert_eq!(status["log"]["records"].as_u64(), Some(1));
    assert_eq!(get(&app, "/nowhere").status, 404);
    assert_eq!(server.connect().get("/metrics").unwrap().status, 404, "never on the public listener");
    server.stop();
    assert!(!app.log_dir().join("admin.sock").exists());
}

#[test]
fn the_history_has_the_requests_of_the_last_seconds() {
    let app = App::new(&format!("{ROUTE}{STREAM}"), &[]);
    let server = app.start();
    let mut client = server.connect();
    for _ in 0..20 {
        assert!(client.get("/kept").unwrap().is_success());
    }
    let history = |path: &str| -> serde_json::Value { get(&app, path).content.parse().unwrap() };
    let sum = |told: &serde_json::Value, name: &str| -> f64 {
        let values = told["fine"]["values"][name].as_array().unwrap();
        values.iter().filter_map(serde_json::Value::as_f64).sum()
    };
    let told = eventually("the history has the rows", || {
        Some(history("/history")).filter(|told| sum(told, "rows") > 10.0)
    });
    assert!((sum(&told, "requests") - 20.0).abs() < 2.0, "{told}");
    assert!(sum(&told, "resident_bytes") > 1e6 && sum(&told, "free_bytes") > 1e6, "{told}");
    let (now, end) = (told["now"].as_f64().unwrap(), told["fine"]["end"].as_f64().unwrap());
    assert!(end <= now && now - end < PATIENCE.as_secs_f64(), "{told}");
    let later = history(&format!("/history?since={}", end + 3600.0));
    assert_eq!(later["fine"]["values"]["requests"], serde_json::json!([]));
    let wrong = get(&app, "/history?since=yesterday");
    assert_eq!((wrong.status, wrong.content.contains("since is not a number")), (400, true));
    server.stop();
}

#[test]
fn the_status_has_the_last_warnings() {
    let app = App::new(&format!("{ROUTE}{STREAM}"), &[]);
    let server = app.start();
    app.write("tollgate.toml", "[[route]]\npath = 5\n");
    assert!(!app.run(&["reload"]).status.success());
    let lines = || get(&app, "/status").content.parse::<serde_json::Value>().unwrap()["recent_lines"].clone();
    let line = eventually("the refused reload is among the last lines", || {
        let lines = lines();
        lines
            .as_array()?
            .iter()
            .find(|line| line["text"].as_str().is_some_and(|text| text.contains("path")))
            .cloned()
    });
    assert!(line["level"] == "error" || line["level"] == "warn", "{line}");
    assert!(line["at"].as_str().unwrap().ends_with('Z'), "{line}");
    server.stop();
}

#[test]
fn nothing_is_changed_and_pages_of_others_are_not_answered() {
    let app = App::new(ROUTE, &[]);
    let server = app.start();
    let check = |request: &str, status: u16| {
        let answer = ask(&app, request).unwrap();
        assert_eq!(answer.status, status, "{request:?}: {answer:?}");
        answer
    };
    let answer = check("POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405);
    assert!(answer.head.contains("Allow: GET, HEAD"), "{answer:?}");
    check("DELETE /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405);
    check("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405);
    check("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 405);
    check("GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 404);
    assert_eq!(check("HEAD /status HTTP/1.1\r\nHost: localhost\r\n\r\n", 200).content, "");
    assert_eq!(check("HEAD /status HTTP/1.1\r\n\r\n", 400).content, "");
    // DNS rebinding: the name in `Host` is not configured.
    check("GET /status HTTP/1.1\r\nHost: evil.example:9080\r\n\r\n", 421);
    check("GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421);
    check("GET /status HTTP/1.1\r\nHost: 127.0.0.1:9080\r\nOrigin: https://evil.example\r\n\r\n", 403);
    check("GET /status HTTP/1.1\r\nHost: 127.0.0.1:9080\r\nOrigin: null\r\n\r\n", 403);
    check(
        "GET /status HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: https://evil.example\r\n\r\n",
        403,
    );
    check("GET /status HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403);
    check("GET /status HTTP/1.1\r\nHost: 127.0.0.1:9080\r\nOrigin: http://127.0.0.1:9080\r\n\r\n", 200);
    check("GET /status HTTP/1.1\r\nHost: [::1]:9080\r\n\r\n", 200);
    check("GET /status HTTP/1.1\r\n\r\n", 400);
    // Load balancers send HTTP/1.0, which may lack `Host`. Browsers do not send HTTP/1.0.
    check("GET /readyz HTTP/1.0\r\n\r\n", 200);
    check("GET /status HTTP/1.0\r\nOrigin: https://evil.example\r\n\r\n", 403);
    check("GET /status HTTP/1.0\r\nHost: evil.example\r\n\r\n", 421);
    check("GET  /status HTTP/1.1\r\nHost: localhost\r\n\r\n", 400);
    check(&format!("GET /status HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(9000)), 431);
    server.stop();
}

#[test]
fn a_page_for_browsers_is_at_the_root_and_its_policy_allows_no_other_script() {
    let app = App::new(ROUTE, &[]);
    let server = app.start();
    let page = get(&app, "/");
    assert_eq!(page.status, 200);
    assert!(page.content.starts_with("<!doctype html>") && page.content.ends_with("</html>\n"));
    let policy = page.head.lines().find_map(|line| line.strip_prefix("Content-Security-Policy: ")).unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(
        policy.ends_with(
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "{policy}"
    );
    for field in [
        "Content-Type: text/html; charset=utf-8",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
    ] {
        assert!(page.head.contains(field), "{}", page.head);
    }
    assert_eq!(ask(&app, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap().content, "");
    assert_eq!(ask(&app, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").unwrap().status, 421);
    assert_eq!(
        ask(&app, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").unwrap().status,
        405
    );
    server.stop();
}

#[test]
fn a_token_is_needed_for_more_than_a_status() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!("[admin]\nlisten = \"{port}\"\ntoken = \"${{ADMIN_TOKEN}}\"\n{ROUTE}");
    let app = App::new(&config, &[]);
    let mut command = Command::new(BINARY);
    command.env("ADMIN_TOKEN", TOKEN);
    let server = app.begin_as(command).serving().unwrap();
    let ask = |path: &str, fields: &str| {
        let mut stream = TcpStream::connect(port).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        exchange(&mut stream, &format!("GET {path} HTTP/1.1\r\nHost: {port}\r\n{fields}\r\n")).unwrap()
    };
    for path in ["/metrics", "/status", "/history"] {
        let denied = ask(path, "");
        assert_eq!(denied.status, 401);
        assert!(denied.head.contains("WWW-Authenticate: Bearer"), "{denied:?}");
        assert_eq!(ask(path, "Authorization: Bearer 0123456789abcdef-toke\r\n").status, 401);
        assert_eq!(ask(path, &format!("Authorization: Basic {TOKEN}\r\n")).status, 401);
        assert_eq!(ask(path, &format!("Authorization: Bearer {TOKEN}\r\n")).status, 200);
    }
    assert_eq!((ask("/healthz", "").status, ask("/readyz", "").content.as_str()), (200, "ready\n"));
    // The page asks its user for the token, and holds nothing of this server.
    let page = ask("/", "");
    assert_eq!(page.status, 200);
    assert!(!page.content.contains(TOKEN) && !page.content.contains(&app.path().display().to_string()));
    let (_, log) = server.stop();
    assert!(!log.contains(TOKEN));
}

#[test]
fn the_admin_listener_answers_while_silent_clients_take_all_its_places() {
    let app = App::new(ROUTE, &[]);
    let server = app.start();
    let connect = || UnixStream::connect(app.log_dir().join("admin.sock")).unwrap();
    let silent: Vec<_> = (0..100).map(|_| connect()).collect();
    for mut stream in &silent {
        // An error means that a new connection replaced this one.
        let _ = stream.write_all(b"GET /sta");
    }
    let begun = Instant::now();
    for _ in 0..10 {
        assert_eq!(get(&app, "/readyz").status, 200);
    }
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    server.stop();
}

#[test]
fn the_admin_listener_answers_while_the_public_side_has_all_its_connections() {
    let app = App::new(&format!("connections_max = 4\n{ROUTE}"), &[]);
    let server = app.start();
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    assert!(clients.iter_mut().all(|client| client.get("/").unwrap().is_success()));
    assert_eq!(server.connect().reply().unwrap().status, 503);
    let answer = get(&app, "/readyz");
    assert_eq!(answer.status, 503);
    assert!(
        answer
            .content
            .starts_with("not ready\nreason: connections_full: 4 connections are open, limit 4 (raise ")
    );
    assert_eq!(get(&app, "/healthz").status, 200, "alive all the same");
    assert!(get(&app, "/metrics").content.contains("tollgate_refusals_total{reason=\"connections\"} 1\n"));
    drop(clients);
    get_until(&app, "/readyz", 200, "ready");
    server.stop();
}

#[test]
fn bodies_that_hold_the_memory_are_told_while_others_are_refused_for_it() {
    let memory = "in_flight_bytes_max = \"8MiB\"\nbody_memory_max = \"1MiB\"\n";
    let route = "[[route]]\npath = \"/\"\nscript = \"s.luau\"\n";
    let script = "return function(req) return 'got ' .. #req:body() end";
    let app = App::new(&format!("{memory}{route}"), &[("s.luau", script)]);
    let server = app.start();
    let begin = |said: usize, sent: usize| {
        let mut peer = TcpStream::connect(server.address()).unwrap();
        let head =
            format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {said}\r\n\r\n");
        peer.write_all((head + &"x".repeat(sent)).as_bytes()).unwrap();
        peer
    };
    let finding = |holds| format!("tollgate_finding{{code=\"memory_short\",severity=\"warning\"}} {holds}\n");
    let mut slow = Vec::new();
    eventually("a body is refused and that is told", || {
        // If the last body gets an answer, a refused slow body has released memory before it. Each round
        // therefore adds one more slow body.
        slow.push(begin(900_000, 430_000));
        let mut came = String::new();
        begin(1_000_000, 1_000_000).read_to_string(&mut came).ok()?;
        let is_told = || get(&app, "/metrics").content.contains(&finding(1));
        (came.starts_with("HTTP/1.1 503") && is_told()).then_some(())
    });
    assert_eq!(get(&app, "/readyz").status, 200, "what is short is served");
    drop(slow);
    get_until(&app, "/metrics", 200, &finding(0));
    server.stop();
}

#[test]
fn a_worker_that_does_not_turn_is_named_and_readiness_comes_back_with_it() {
    let app = App::new(&format!("workers = 2\n[admin]\nworker_stall_max = \"1s\"\n{ROUTE}"), &[]);
    // Only workers call these functions, of which a static program uses the second. Each worker hangs in its
    // twentieth call.
    let starting = app.begin_with_fault("epoll_wait,epoll_pwait", "delay_enter=6000000:when=20");
    let server = starting.serving().unwrap();
    let unwell = get_until(&app, "/healthz", 503, "worker_stalled: worker ");
    assert!(unwell.content.contains("s, limit 1 s (find out what the worker does"), "{unwell:?}");
    let unready = get(&app, "/readyz");
    assert!(unready.status == 503 && unready.content.contains("worker_stalled"), "{unready:?}");
    get_until(&app, "/healthz", 200, "ok");
    get_until(&app, "/readyz", 200, "ready");
    let (_, log) = server.stop();
    let told = log.lines().find(|line| line.contains("not ready: worker ")).expect(&log);
    assert!(
        told.contains("\"code\":\"worker_stalled\",\"advice\":\"find out what the worker does"),
        "{told}"
    );
}

#[test]
fn readiness_goes_before_connections_do_and_a_second_signal_ends_at_once() {
    let app = App::new(&format!("drain_delay = \"1h\"\n{ROUTE}"), &[]);
    let server = app.start();
    server.signal(Signal::TERM);
    let answer = get_until(&app, "/readyz", 503, "reason: draining");
    assert!(answer.content.contains("the server is stopping"), "{answer:?}");
    assert_eq!(get(&app, "/healthz").status, 200);
    // The server still answers, because a load balancer may not have checked `/readyz` yet.
    assert!(server.connect().get("/").unwrap().is_success());
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("stopped at once"), "{log}");
}

#[test]
fn a_drain_goes_on_by_itself_after_its_delay() {
    let app = App::new(&format!("drain_delay = \"300ms\"\n{ROUTE}"), &[]);
    let server = app.start();
    let mut client = server.connect();
    assert!(client.get("/").unwrap().is_success());
    server.signal(Signal::TERM);
    get_until(&app, "/readyz", 503, "draining");
    assert!(client.get("/").unwrap().is_success());
    let begun = Instant::now();
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(log.contains("connections are accepted until the delay is over"), "{log}");
}

#[test]
fn an_address_that_others_reach_needs_a_token_and_a_token_is_no_text_of_the_file() {
    let refused = |admin: &str| {
        let app = App::new(&format!("[admin]\n{admin}\n{ROUTE}"), &[]);
        let output = app.run(&["check"]);
        assert_eq!(output.status.code(), Some(2), "{admin}");
        String::from_utf8(output.stderr).unwrap()
    };
    let told = refused("listen = \"0.0.0.0:9080\"");
    assert!(told.contains("listen in [admin] is 0.0.0.0:9080, which other machines can reach"), "{told}");
    let told = refused("token = \"0123456789abcdef\"");
    assert!(told.contains("token in [admin] is not a variable"), "{told}");
    assert!(refused("listen = \"9080\"").contains("allowed is \"ip:port\""));
    assert!(refused("hosts = [\"a:1\"]").contains("allowed is a name without a port"));
    let app = App::new(&format!("[admin]\nlisten = \"off\"\n{ROUTE}"), &[]);
    let server = app.start();
    assert!(ask(&app, "GET / HTTP/1.1\r\n\r\n").is_none());
    assert!(app.succeed(&["status"]).starts_with("ALL WELL"), "the control socket tells all the same");
    server.stop();
}

#[test]
fn a_socket_of_a_dead_server_is_replaced_and_a_taken_address_is_told() {
    let app = App::new(&format!("{ROUTE}{STREAM}"), &[]);
    app.start().kill();
    assert!(app.log_dir().join("admin.sock").exists());
    let server = app.start();
    assert_eq!(get(&app, "/healthz").status, 200);
    server.stop();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap();
    app.write(
        "tollgate.toml",
        &format!("[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"{port}\"\n{ROUTE}"),
    );
    let output = app.run(&["serve"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&format!("cannot listen for [admin] on {port}")), "{told}");
    assert!(Client::try_connect(port).is_some());
}

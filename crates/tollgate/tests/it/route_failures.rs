//! Routes whose requests all fail, by each cause: the status, the readiness, the metrics and the log name the
//! route and the cause. Also the reports about peers that are no trusted proxies, and about rejects.

use std::net::TcpListener;
use std::time::Instant;

use serde_json::Value;

use crate::admin::{get, get_until, sample};
use crate::program::{App, Running, eventually};

const CONFIG: &str = r#"
[script]
cpu_budget = "20ms"

[stream.events]
columns = [{ name = "a", type = "int", from = "record.a" }]

[auth.callers]
bearer = "tokens"

[backend.dead]
urls = ["http://127.0.0.1:PORT"]

[[route]]
path = "/good"
reply = {}

[[route]]
path = "/few"
script = "error.luau"

[[route]]
path = "/error"
script = "error.luau"

[[route]]
path = "/loop"
script = "loop.luau"

[[route]]
path = "/proxied"
proxy = "dead"

[[route]]
path = "/kept"
collect = true
stream = "events"

[[route]]
path = "/posted"
collect = true
stream = "events"

[[route]]
path = "/shared"
collect = true
stream = "events"
cors = { origins = ["https://app.example"] }

[[route]]
path = "/guarded"
reply = {}
auth = "callers"

[[route]]
path = "/missing"
script = "missing.luau"
"#;
const SCRIPTS: [(&str, &str); 3] = [
    ("error.luau", "return function() error('it fails') end"),
    ("loop.luau", "return function() while true do end end"),
    ("missing.luau", "return function() return { status = 404 } end"),
];
/// Requests of each failing route.
const REQUESTS: usize = 12;
/// Number of failed requests from which on a route is found.
const REQUESTS_MIN: usize = 10;
const PREFLIGHT: &str = "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n";
/// The request line, more fields, the status and the cause of each route.
const CAUSES: [(&str, &str, u16, &str); 7] = [
    ("GET /error", "", 500, "error"),
    ("GET /loop", "", 500, "cpu_budget"),
    ("GET /proxied", "", 0, "status 5xx"),
    ("GET /kept", "", 405, "method"),
    ("POST /posted", "Content-Type: image/png\r\nContent-Length: 1\r\n\r\nx", 415, "content_type"),
    ("OPTIONS /shared", PREFLIGHT, 403, "preflight"),
    ("GET /guarded", "", 401, "credentials"),
];

fn ask(server: &Running, line: &str, fields: &str) -> u16 {
    let mut client = server.connect();
    assert!(client.send(&format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")));
    client.reply().unwrap().status
}

/// Returns the texts of the findings about failing routes.
fn found(app: &App) -> Vec<String> {
    let status: Value = serde_json::from_str(&get(app, "/status").content).unwrap();
    let warnings = status["warnings"].as_array().unwrap().iter();
    let failing = warnings.filter(|warning| warning["code"] == "route_failing");
    failing.map(|warning| warning["text"].as_str().unwrap().to_owned()).collect()
}

fn route_status(app: &App, path: &str) -> Value {
    let status: Value = serde_json::from_str(&get(app, "/status").content).unwrap();
    status["routes"].as_array().unwrap().iter().find(|route| route["path"] == path).unwrap().clone()
}

fn site() -> (App, Running) {
    // The port stays bound without a listener, so each connection is refused.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let app = App::new(&CONFIG.replace("PORT", &port.to_string()), &SCRIPTS);
    // No token has this digest.
    app.write("tokens", &format!("known:{}\n", "0".repeat(64)));
    let server = app.start();
    (app, server)
}

/// Returns whether the text of a finding says that all requests of a route failed by this cause. A slow
/// machine may spread the requests over more than one block, of which the text counts the last complete one.
fn is_of_cause(text: &str, (line, _, _, cause): &(&str, &str, u16, &str)) -> bool {
    let (_, path) = line.split_once(' ').unwrap();
    let Some((counts, rest)) = text.split_once(&format!(" requests of route {path} failed within ")) else {
        return false;
    };
    let (bad, all) = counts.split_once(" of ").unwrap();
    let bad: usize = bad.parse().unwrap();
    assert_eq!(bad.to_string(), all, "{text}");
    (REQUESTS_MIN..=REQUESTS).contains(&bad) && rest.ends_with(&format!(" s: {cause}"))
}

/// Makes the requests of these causes fail, and waits until a finding names each route and cause. No other
/// route has a finding. Prints the seconds.
fn check_causes(app: &App, server: &Running, causes: &[(&str, &str, u16, &str)]) {
    let begun = Instant::now();
    for (line, fields, status, _) in causes {
        for _ in 0..REQUESTS {
            let found = ask(server, line, fields);
            assert!(*status == 0 || found == *status, "{line}: {found}");
        }
    }
    eventually("all failing routes are found", || {
        let texts = found(app);
        let is_found = |cause| texts.iter().any(|text| is_of_cause(text, cause));
        (causes.iter().all(is_found) && texts.len() == causes.len()).then_some(())
    });
    println!("reported after {:.1} s", begun.elapsed().as_secs_f64());
}

#[test]
fn a_route_of_which_all_requests_fail_is_reported_with_its_cause() {
    let (app, server) = site();
    for _ in 0..REQUESTS {
        assert_eq!(ask(&server, "GET /good", ""), 200);
        assert_eq!(ask(&server, "GET /missing", ""), 404);
    }
    for _ in 0..REQUESTS_MIN - 1 {
        assert_eq!(ask(&server, "GET /few", ""), 500);
    }
    check_causes(&app, &server, &CAUSES[..4]);
    get_until(&app, "/readyz", 200, "warning: route_failing: ");
    let series = "tollgate_finding{code=\"route_failing\",severity=\"warning\"}";
    assert_eq!(sample(&get(&app, "/metrics").content, series), 1);
    eventually("the log has a line", || server.has_logged("\"code\":\"route_failing\"").then_some(()));
    let screen = app.succeed(&["status"]);
    assert!(screen.starts_with("READY, WITH WARNINGS") && screen.contains("requests of route /"), "{screen}");
    server.stop();
}

#[test]
fn a_route_that_refused_all_requests_is_reported_until_it_serves() {
    let (app, server) = site();
    check_causes(&app, &server, &CAUSES[3..]);
    let begun = Instant::now();
    let mut client = server.connect();
    for _ in 0..REQUESTS {
        assert!(client.post("/kept", "[{\"a\":1}]").unwrap().is_success());
    }
    eventually("/kept is no longer found", || {
        found(&app).iter().all(|text| !text.contains("of route /kept failed")).then_some(())
    });
    println!("ended after {:.1} s", begun.elapsed().as_secs_f64());
    // The rates are those of the last seconds, so the requests go on.
    eventually("status shows more requests than failures", || {
        assert!(client.post("/kept", "[{\"a\":1}]").unwrap().is_success());
        let route = route_status(&app, "/kept");
        assert_eq!(route["refused"], REQUESTS);
        let [requests, failures] =
            ["requests", "failures"].map(|name| route[format!("{name}_per_second")].as_f64().unwrap());
        (requests > failures).then_some(())
    });
    server.stop();
}

#[test]
fn an_untrusted_proxy_that_names_clients_is_reported_once_with_the_remedy() {
    let (app, server) = site();
    assert_eq!(ask(&server, "GET /good", ""), 200);
    for field in
        ["X-Forwarded-For: 203.0.113.9\r\n", "Forwarded: for=203.0.113.9\r\n", "x-forwarded-for: ::1\r\n"]
    {
        assert_eq!(ask(&server, "GET /good", field), 200);
    }
    assert_eq!(sample(&get(&app, "/metrics").content, "tollgate_untrusted_proxies_total"), 3);
    let (_, log) = server.stop();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("trusted_proxies")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains("\"peer\":\"127.0.0.1\"") && lines[0].contains("add it to trusted_proxies"),
        "{log}"
    );
    let config = app.config().replacen("[server]\n", "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n", 1);
    app.write("tollgate.toml", &config);
    let server = app.start();
    assert_eq!(ask(&server, "GET /good", "X-Forwarded-For: 203.0.113.9\r\n"), 200);
    assert_eq!(sample(&get(&app, "/metrics").content, "tollgate_untrusted_proxies_total"), 0);
    assert!(!server.stop().1.contains("trusted_proxies"));
}

#[test]
fn a_stream_with_more_rejects_than_rows_is_reported_until_it_has_more_rows() {
    let config = "[stream.a]\ncolumns = [{ name = \"n\", type = \"int\", from = \"record.n\" }]\n\
                  [[route]]\npath = \"/a\"\ncollect = true\nstream = \"a\"\n\
                  [sink.main]\nsqlite = \"data/tollgate.sqlite\"\n";
    let app = App::new(config, &[]);
    let server = app.start();
    let mut client = server.connect();
    let begun = Instant::now();
    // The items of one request become one block, on a slow machine too.
    let items = format!("[{}{{\"n\":1}}]", "{\"n\":\"no number\"},".repeat(11));
    assert!(client.post("/a", &items).unwrap().is_success());
    get_until(&app, "/readyz", 200, "sink_rejecting: sink main has 11 rejects and 1 row of stream a within ");
    println!("reported after {:.1} s", begun.elapsed().as_secs_f64());
    eventually("the log has a line", || server.has_logged("\"code\":\"sink_rejecting\"").then_some(()));
    let begun = Instant::now();
    let items = format!("[{}]", ["{\"n\":1}"; 20].join(","));
    assert!(client.post("/a", &items).unwrap().is_success());
    eventually("the finding has ended", || (get(&app, "/readyz").content == "ready\n").then_some(()));
    println!("ended after {:.1} s", begun.elapsed().as_secs_f64());
    server.stop();
}

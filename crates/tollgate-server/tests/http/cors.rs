//! Tests of requests from pages of other origins (Fetch standard): the pages that may use a route, and the
//! fields of the replies.

use std::time::Duration;

use tollgate_log::Level;
use tollgate_server::{AnyOr, CorsSpec, Method, Methods, Origins, RouteSpec};

use crate::backend::FakeBackend;
use crate::peer::Reply;
use crate::site::{Running, Site};

const APP: &str = "https://app.example";

fn listed(names: &[&str]) -> AnyOr<String> {
    AnyOr::Listed(names.iter().map(|&name| name.to_owned()).collect())
}

fn everybody() -> CorsSpec {
    CorsSpec {
        origins: Origins::Any,
        methods: None,
        headers: AnyOr::Any,
        expose: listed(&[]),
        credentials: false,
        max_age: Duration::from_secs(600),
    }
}

fn app_only() -> CorsSpec {
    CorsSpec {
        origins: Origins::Listed(vec!["https://other.example".to_owned(), APP.to_owned()]),
        methods: Some(Methods::from_iter([Method::Get, Method::Put])),
        headers: listed(&["Content-Type", "X-Token"]),
        expose: listed(&["ETag", "X-Left"]),
        credentials: true,
        max_age: Duration::from_secs(3600),
    }
}

fn with(cors: CorsSpec) -> impl FnOnce(&mut RouteSpec) {
    |route| route.cors = Some(cors)
}

fn ask(server: &Running, line: &str, fields: &[(&str, &str)]) -> Reply {
    ask_with(server, line, fields, "")
}

fn ask_with(server: &Running, line: &str, fields: &[(&str, &str)], body: &str) -> Reply {
    let mut request = format!("{line} HTTP/1.1\r\nHost: a\r\n");
    for (name, value) in fields {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut peer = server.connect();
    peer.send(request + "\r\n" + body);
    peer.reply(line.starts_with("HEAD"))
}

/// Checks the status and the CORS fields of a reply, in order. `expect` has the names without
/// `Access-Control-`.
fn check(reply: &Reply, expect: &str) {
    let lines = reply.head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    let told = lines.filter_map(|(name, value)| match name.strip_prefix("Access-Control-") {
        Some(short) => Some(format!("{short}={value}")),
        None if name == "Vary" => Some(format!("Vary={value}")),
        None => None,
    });
    let found: Vec<_> = std::iter::once(reply.status.to_string()).chain(told).collect();
    assert_eq!(found.join(" | "), expect, "{reply:?}");
}

const PREFLIGHT_VARY: &str = "Vary=Origin, Access-Control-Request-Method, Access-Control-Request-Headers";

#[test]
fn a_preflight_is_answered_and_neither_reaches_the_handler_nor_is_recorded() {
    let server = Site::new()
        .stream("all", Level::Synced, &["method text request.method"])
        .script("/a", "return { PUT = function() return 'put' end, OPTIONS = function() return 'mine' end }")
        .tune_route(with(app_only()))
        .start();
    let reply = ask(
        &server,
        "OPTIONS /a",
        &[
            ("Origin", APP),
            ("Access-Control-Request-Method", "PUT"),
            ("Access-Control-Request-Headers", "content-type,x-token"),
        ],
    );
    let granted = format!(
        "204 | Allow-Origin={APP} | Allow-Credentials=true | Allow-Methods=GET, PUT | \
         Allow-Headers=content-type, x-token | Max-Age=3600 | {PREFLIGHT_VARY}"
    );
    check(&reply, &granted);
    let reply = ask(&server, "PUT /a", &[("Origin", APP)]);
    assert_eq!(reply.content, "put");
    assert_eq!(server.records(), ["method=PUT"]);
}

#[test]
fn any_page_with_credentials_is_told_its_own_origin_and_reads_nothing_else() {
    let policy = CorsSpec {
        origins: Origins::AnyWithCredentials,
        headers: listed(&["Content-Type"]),
        expose: listed(&["ETag"]),
        ..everybody()
    };
    let site =
        Site::new().stream("all", Level::Synced, &["a int record.a"]).collect("/s").tune_route(with(policy));
    let server = site.start();
    let preflight = |origin: &str| {
        let asked =
            [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type")];
        ask(&server, "OPTIONS /s", &[&[("Origin", origin)][..], &asked].concat())
    };
    let send = |origin: &str| {
        let fields = [("Origin", origin), ("Content-Type", "application/json"), ("Content-Length", "7")];
        ask_with(&server, "POST /s", &fields, "{\"a\":1}")
    };
    for origin in [APP, "http://localhost:3000", "capacitor://localhost"] {
        let granted = format!(
            "204 | Allow-Origin={origin} | Allow-Credentials=true | Allow-Methods=POST | \
             Allow-Headers=content-type | Max-Age=600 | {PREFLIGHT_VARY}"
        );
        check(&preflight(origin), &granted);
        check(&send(origin), &format!("200 | Allow-Origin={origin} | Allow-Credentials=true | Vary=Origin"));
    }
    for origin in ["null", "", "https://a https://b", "https://a, https://b", "https://A.example", "*"] {
        check(&preflight(origin), &format!("403 | {PREFLIGHT_VARY}"));
        check(&send(origin), "200 | Vary=Origin");
    }
    check(&ask_with(&server, "POST /s", &[("Content-Length", "7")], "{\"a\":1}"), "200 | Vary=Origin");
}

#[test]
fn a_pattern_allows_the_pages_of_all_hosts_below_a_name() {
    let policy =
        CorsSpec { origins: Origins::Listed(vec!["https://*.shop.example".to_owned()]), ..app_only() };
    let server = Site::new().handler("/a", "return 'read'").tune_route(with(policy)).start();
    for origin in ["https://www.shop.example", "https://a.b.shop.example"] {
        let reply = ask(&server, "GET /a", &[("Origin", origin)]);
        let granted = format!(
            "200 | Allow-Origin={origin} | Allow-Credentials=true | Vary=Origin | Expose-Headers=ETag, X-Left"
        );
        check(&reply, &granted);
    }
    for origin in ["https://shop.example", "https://evilshop.example", "https://a.shop.example.evil", "null"]
    {
        check(&ask(&server, "GET /a", &[("Origin", origin)]), "200 | Vary=Origin");
        let asked = [("Origin", origin), ("Access-Control-Request-Method", "GET")];
        check(&ask(&server, "OPTIONS /a", &asked), &format!("403 | {PREFLIGHT_VARY}"));
    }
}

#[test]
fn a_preflight_that_asks_for_too_much_gets_nothing() {
    let server = Site::new().handler("/a", "return 'never'").tune_route(with(app_only())).start();
    let refused = format!("403 | {PREFLIGHT_VARY}");
    for (origin, method, headers, text) in [
        ("https://evil.example", "PUT", "x-token", "this path does not allow requests of this origin\n"),
        ("null", "PUT", "x-token", "this path does not allow requests of this origin\n"),
        ("https://app.example.evil.example", "PUT", "", "this path does not allow requests of this origin\n"),
        ("https://app.example:8443", "PUT", "", "this path does not allow requests of this origin\n"),
        ("http://app.example", "PUT", "", "this path does not allow requests of this origin\n"),
        ("HTTPS://APP.EXAMPLE", "PUT", "", "this path does not allow requests of this origin\n"),
        ("", "PUT", "", "this path does not allow requests of this origin\n"),
        (APP, "POST", "", "this path does not allow this method for other origins\n"),
        (APP, "put", "", "this path does not allow this method for other origins\n"),
        (APP, "TRACE", "", "this path does not allow this method for other origins\n"),
        (APP, "", "", "this path does not allow this method for other origins\n"),
        (APP, "PUT", "x-token, x-other", "this path does not allow such a header for other origins\n"),
        (APP, "PUT", "x token", "this path does not allow such a header for other origins\n"),
        (APP, "PUT", "*", "this path does not allow such a header for other origins\n"),
    ] {
        let fields = [
            ("Origin", origin),
            ("Access-Control-Request-Method", method),
            ("Access-Control-Request-Headers", headers),
        ];
        let reply = ask(&server, "OPTIONS /a", &fields);
        check(&reply, &refused);
        assert_eq!(reply.content, text, "{fields:?}");
    }
}

#[test]
fn the_names_of_headers_are_read_from_all_lines_and_without_case() {
    let server = Site::new().handler("/a", "return 'x'").tune_route(with(app_only())).start();
    let asked = |first, second| {
        let fields = [
            ("Origin", APP),
            ("Access-Control-Request-Method", "GET"),
            ("Access-Control-Request-Headers", first),
            ("access-control-request-headers", second),
        ];
        let reply = ask(&server, "OPTIONS /a", &fields);
        (reply.status, reply.field("access-control-allow-headers").map(str::to_owned))
    };
    assert_eq!(asked("X-TOKEN", ", content-type ,"), (204, Some("X-TOKEN, content-type".to_owned())));
    assert_eq!(asked("x-token", "x-other"), (403, None));
    assert_eq!(asked("", ""), (204, None));
}

#[test]
fn a_star_lets_every_origin_in_with_any_header_and_without_credentials() {
    let server = Site::new().handler("/a", "return 'x'").tune_route(with(everybody())).start();
    for origin in [APP, "null"] {
        let fields = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "PATCH"),
            ("Access-Control-Request-Headers", "authorization"),
        ];
        let all = "GET, HEAD, POST, PUT, DELETE, PATCH";
        let granted = format!(
            "204 | Allow-Origin=* | Allow-Methods={all} | Allow-Headers=authorization | Max-Age=600 | {PREFLIGHT_VARY}"
        );
        check(&ask(&server, "OPTIONS /a", &fields), &granted);
        check(&ask(&server, "GET /a", &[("Origin", origin)]), "200 | Allow-Origin=*");
    }
    // The policy is the same for all origins, so `Vary: Origin` is not needed.
    check(&ask(&server, "GET /a", &[]), "200 | Allow-Origin=*");
}

#[test]
fn replies_tell_a_listed_origin_and_differ_by_origin() {
    let server = Site::new().handler("/a", "return 'x'").tune_route(with(app_only())).start();
    let granted = format!(
        "200 | Allow-Origin={APP} | Allow-Credentials=true | Vary=Origin | Expose-Headers=ETag, X-Left"
    );
    check(&ask(&server, "GET /a", &[("Origin", APP)]), &granted);
    check(&ask(&server, "HEAD /a", &[("Origin", APP)]), &granted);
    for origin in ["https://evil.example", "null", ""] {
        check(&ask(&server, "GET /a", &[("Origin", origin)]), "200 | Vary=Origin");
    }
    check(&ask(&server, "GET /a", &[]), "200 | Vary=Origin");
}

#[test]
fn errors_of_the_route_can_be_read_by_the_page_too() {
    let server = Site::new()
        .script("/a", "return { POST = function() error('broken') end }")
        .tune_route(with(app_only()))
        .tune_route(|route| route.body_bytes_max = 4)
        .start();
    let told = "Allow-Credentials=true | Vary=Origin | Expose-Headers=ETag, X-Left";
    let granted = |status: u16| format!("{status} | Allow-Origin={APP} | {told}");
    check(&ask(&server, "POST /a", &[("Origin", APP)]), &granted(500));
    check(&ask(&server, "GET /a", &[("Origin", APP)]), &granted(405));
    check(&ask(&server, "POST /a", &[("Origin", APP), ("Content-Length", "5")]), &granted(413));
    check(&ask(&server, "POST /a", &[("Origin", "null"), ("Content-Length", "5")]), "413 | Vary=Origin");
    // OPTIONS without `Access-Control-Request-Method` is not a preflight.
    let reply = ask(&server, "OPTIONS /a", &[("Origin", APP)]);
    check(&reply, &granted(204));
    assert_eq!(reply.field("allow"), Some("POST, OPTIONS"));
}

#[test]
fn a_content_that_is_not_taken_is_told_to_the_page_too() {
    let server = Site::new()
        .stream("events", Level::Synced, &["n int record.n"])
        .handler("/script", "return 'x'")
        .tune_route(with(app_only()))
        .collect("/collect")
        .tune_route(with(app_only()))
        .start();
    let granted = format!(
        "415 | Allow-Origin={APP} | Allow-Credentials=true | Vary=Origin | Expose-Headers=ETag, X-Left"
    );
    for (path, field) in [
        ("/script", ("Content-Encoding", "compress")),
        ("/collect", ("Content-Encoding", "compress")),
        ("/collect", ("Content-Type", "text/html")),
    ] {
        let line = format!("POST {path}");
        let waits = [field, ("Content-Length", "2"), ("Expect", "100-continue")];
        for fields in [&[field, ("Transfer-Encoding", "chunked")][..], &waits] {
            let page = [fields, &[("Origin", APP)]].concat();
            check(&ask_with(&server, &line, &page, "0\r\n\r\n"), &granted);
            check(&ask_with(&server, &line, fields, "0\r\n\r\n"), "415 | Vary=Origin");
        }
    }
}

#[test]
fn the_redirect_to_a_path_below_is_told_to_the_pages_that_may_use_it() {
    let server = Site::new()
        .handler("/a/*", "return 'x'")
        .tune_route(with(app_only()))
        .handler("/a/b/c", "return 'x'")
        .handler("/plain/*", "return 'x'")
        .start();
    let preflight =
        |path: &str| ask(&server, path, &[("Origin", APP), ("Access-Control-Request-Method", "PUT")]);
    let granted = format!(
        "204 | Allow-Origin={APP} | Allow-Credentials=true | Allow-Methods=GET, PUT | Max-Age=3600 | {PREFLIGHT_VARY}"
    );
    check(&preflight("OPTIONS /a"), &granted);
    let told = "Allow-Credentials=true | Vary=Origin | Expose-Headers=ETag, X-Left";
    let reply = ask(&server, "PUT /a", &[("Origin", APP)]);
    check(&reply, &format!("308 | Allow-Origin={APP} | {told}"));
    assert_eq!(reply.field("location"), Some("/a/"));
    check(&ask(&server, "PUT /a", &[("Origin", "https://evil.example")]), "308 | Vary=Origin");
    check(&preflight("OPTIONS /plain"), "308");
}

#[test]
fn a_grant_to_one_request_is_not_in_the_reply_to_the_next() {
    let server =
        Site::new().handler("/a", "return 'x'").tune_route(with(app_only())).fixed("/b", "plain").start();
    let mut peer = server.connect();
    peer.send(format!("POST /a HTTP/1.1\r\nHost: a\r\nOrigin: {APP}\r\nContent-Length: 1\r\n\r\nx"));
    assert_eq!(peer.reply(false).field("access-control-allow-origin"), Some(APP));
    peer.send(format!("GET /b HTTP/1.1\r\nHost: a\r\nOrigin: {APP}\r\n\r\n"));
    check(&peer.expect("200", "plain"), "200");
    peer.send("bad\r\n\r\n");
    check(&peer.reply(false), "400");
}

#[test]
fn the_route_that_takes_the_method_decides_about_a_preflight() {
    let narrow = |method| move |route: &mut RouteSpec| route.methods = Some(Methods::from_iter([method]));
    let server = Site::new()
        .handler("/a", "return 'got'")
        .tune_route(narrow(Method::Get))
        .tune_route(with(everybody()))
        .handler("/a", "return 'deleted'")
        .tune_route(narrow(Method::Delete))
        .fixed("/plain", "x")
        .start();
    let preflight = |path: &str, method| {
        let fields = [("Origin", APP), ("Access-Control-Request-Method", method)];
        ask(&server, &format!("OPTIONS {path}"), &fields)
    };
    let granted = format!("204 | Allow-Origin=* | Allow-Methods=GET, HEAD | Max-Age=600 | {PREFLIGHT_VARY}");
    check(&preflight("/a", "GET"), &granted);
    check(&preflight("/a", "PUT"), &format!("403 | {PREFLIGHT_VARY}"));
    // The route has no policy, so a preflight is handled like any OPTIONS request. The policy of the path
    // decides the CORS fields.
    let reply = preflight("/plain", "GET");
    check(&reply, "204");
    assert_eq!(reply.field("allow"), Some("GET, HEAD, OPTIONS"));
    check(&ask(&server, "DELETE /a", &[("Origin", APP)]), "200");
}

#[test]
fn the_policy_takes_the_place_of_what_a_script_says() {
    let script = "return { body = 'x', headers = { ['access-control-allow-origin'] = 'https://evil.example', \
                  ['Access-Control-Allow-Credentials'] = 'true', vary = 'accept' } }";
    let server = Site::new().handler("/a", script).tune_route(with(everybody())).start();
    let reply = ask(&server, "GET /a", &[("Origin", APP)]);
    check(&reply, "200 | Allow-Origin=*");
    assert!(!reply.head.contains("evil"), "{reply:?}");
    assert_eq!(reply.field("vary"), Some("accept"));
}

/// CORS fields of a complete policy, which a backend or the configured fields of a route could send.
const FOREIGN: [(&str, &str); 5] = [
    ("access-control-allow-origin", "https://evil.example"),
    ("Access-Control-Allow-Credentials", "true"),
    ("Access-Control-Expose-Headers", "*"),
    ("Access-Control-Max-Age", "9"),
    ("Vary", "Accept"),
];

fn check_policy_alone(server: &Running, line: &str, status: u16) {
    let granted = format!(
        "{status} | Vary=Accept | Allow-Origin={APP} | Allow-Credentials=true | Vary=Origin | Expose-Headers=ETag, X-Left"
    );
    let reply = ask(server, line, &[("Origin", APP)]);
    check(&reply, &granted);
    assert!(!reply.head.contains("evil"), "{reply:?}");
    let reply = ask(server, line, &[("Origin", "https://evil.example")]);
    check(&reply, &format!("{status} | Vary=Accept | Vary=Origin"));
    assert!(!reply.head.contains("evil"), "{reply:?}");
}

#[test]
fn the_policy_takes_the_place_of_what_a_backend_says_gathered_or_streamed() {
    let fields: String = FOREIGN.map(|(name, value)| format!("{name}: {value}\r\n")).concat();
    for framing in ["Content-Length: 5\r\n\r\nhello".to_owned(), chunked("hello"), long(30_000)] {
        let backend = FakeBackend::replying(format!("HTTP/1.1 200 OK\r\n{fields}{framing}"));
        let server = Site::new().proxy("/*", backend.options(), |_| {}).tune_route(with(app_only())).start();
        check_policy_alone(&server, "GET /a", 200);
    }
}

#[test]
fn the_policy_takes_the_place_of_fields_that_a_route_sets() {
    let fields = || FOREIGN.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let server = Site::new()
        .proxy("/proxied/*", backend.options(), |proxy| proxy.set_reply_headers = fields())
        .tune_route(with(app_only()))
        .files("/files/*", |files| (files.headers, files.precompressed) = (fields(), false))
        .tune_route(with(app_only()))
        .file("public/a.txt", "hello")
        .start();
    check_policy_alone(&server, "GET /proxied/a", 200);
    check_policy_alone(&server, "GET /files/a.txt", 200);
    check_policy_alone(&server, "POST /files/a.txt", 405);
}

fn chunked(content: &str) -> String {
    format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{content}\r\n0\r\n\r\n", content.len())
}

fn long(bytes: usize) -> String {
    format!("Content-Length: {bytes}\r\n\r\n{}", "a".repeat(bytes))
}

#[test]
fn nothing_of_the_policy_of_a_backend_passes_ahead_of_its_reply_or_behind_it() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nAccess-Control-Allow-Origin: *\r\n\r\n";
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let end = "5\r\nhello\r\n0\r\nAccess-Control-Expose-Headers: *\r\nX-Sum: 1\r\n\r\n";
    let backend = FakeBackend::replying(format!("{hints}{head}{end}"));
    let server = Site::new().proxy("/*", backend.options(), |_| {}).tune_route(with(app_only())).start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n");
    let all = peer.rest();
    assert!(all.contains("Link: </a>\r\n") && all.contains("X-Sum: 1\r\n"), "{all}");
    assert!(!all.contains("Access-Control-Allow-Origin") && !all.contains("Access-Control-Expose"), "{all}");
}

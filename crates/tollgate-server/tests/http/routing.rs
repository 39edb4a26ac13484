//! Tests of routes, of methods, and of replies without a handler. The tests of precedence are in
//! tollgate-http, next to the route table.

use std::time::{Duration, Instant};

use tollgate_log::Level;
use tollgate_server::{BodyPace, Method, Methods, RequestIds, TrustedProxies, check_scripts};

use crate::site::{Running, Site};

fn request(line: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn captures_path_info_query_and_fields_reach_the_script() {
    let server = Site::new()
        .handler(
            "/users/{id}/{part}",
            "return req.params.id .. '|' .. req.params.part .. '|' .. (req.query.q or '-')",
        )
        .handler("/docs/*", "return req.path_info .. '|' .. (req.headers['X-Name'] or '-')")
        .start();
    server.check(&request("GET /users/7/a%20b?q=1+2"), "200", "7|a b|1 2");
    server.check(&request("GET /docs/a/../b/%63"), "200", "/b/c|-");
    server.check("GET /docs/ HTTP/1.1\r\nHost: a\r\nx-name: n\r\n\r\n", "200", "/|n");
    server.check(&request("GET /users/7"), "404", "no resource has this path\n");
}

#[test]
fn the_folder_of_a_star_route_is_redirected_with_its_query() {
    let server = Site::new().handler("/docs/*", "return req.path").start();
    let mut peer = server.connect();
    peer.send(request("GET /docs?a=b"));
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("location")), (308, Some("/docs/?a=b")));
}

#[test]
fn a_redirect_never_leads_to_another_host() {
    let server = Site::new()
        .handler("/docs/*", "return req.path")
        .handler("//{x}/*", "return req.path")
        .handler("/a b/*", "return req.path")
        .start();
    for (path, location) in [
        ("//evil.example/../../docs", "/docs/"),
        ("//evil.example/..//../../docs", "/docs/"),
        ("/%2e/docs?a={b}", "/docs/?a=%7Bb%7D"),
        ("/a%20b", "/a%20b/"),
        ("//evil.example", "/.//evil.example/"),
    ] {
        let mut peer = server.connect();
        peer.send(request(&format!("GET {path}")));
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("location")), (308, Some(location)), "{path}");
    }
}

#[test]
fn paths_that_lead_nowhere_good_are_refused_and_the_connection_goes_on() {
    let server = Site::new().handler("/*", "return req.path").start();
    let mut peer = server.connect();
    for path in ["/%", "/%00", "/a%2fb", "/a%5cb", "/../x", "/%ff"] {
        peer.send(request(&format!("GET {path}")));
        assert_eq!(peer.reply(false).status, 400, "{path}");
    }
    peer.send(request("GET /fine"));
    peer.expect("200", "/fine");
}

#[test]
fn a_method_without_a_handler_is_405_with_allow() {
    let server = Site::new()
        .script("/a", "return { GET = function() return 'got' end, DELETE = function() return 204 end }")
        .fixed("/b", "fixed")
        .handler("/c", "return req.method")
        .start();
    for (line, allow) in [("POST /a", "GET, HEAD, DELETE, OPTIONS"), ("PUT /b", "GET, HEAD, OPTIONS")] {
        let mut peer = server.connect();
        peer.send(request(line));
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("allow")), (405, Some(allow)), "{line}");
        peer.send(request(&line.replace("POST", "OPTIONS").replace("PUT", "OPTIONS")));
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("allow")), (204, Some(allow)), "{line}");
    }
    server.check(&request("PATCH /c"), "200", "PATCH");
    server.check(&request("DELETE /a"), "204", "");
}

#[test]
fn options_of_the_server_lists_what_it_speaks_and_scripts_may_answer_their_own() {
    let server = Site::new().script("/a", "return { OPTIONS = function() return 'mine' end }").start();
    server.check(&request("OPTIONS /a"), "200", "mine");
    let mut peer = server.connect();
    peer.send(request("OPTIONS *"));
    let reply = peer.reply(false);
    let all = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS";
    assert_eq!((reply.status, reply.field("allow")), (204, Some(all)));
}

#[test]
fn methods_of_a_route_narrow_its_handler() {
    let narrow = |options: &mut tollgate_server::ServerOptions| {
        options.routes[0].methods = Some(Methods::from_iter([Method::Put]));
    };
    let server = Site::new().handler("/a", "return req.method").tune(narrow).start();
    server.check(&request("PUT /a"), "200", "PUT");
    let mut peer = server.connect();
    peer.send(request("GET /a"));
    assert_eq!(peer.reply(false).field("allow"), Some("PUT, OPTIONS"));
}

#[test]
fn the_application_answers_for_the_server_when_a_route_registers_for_it() {
    let server = Site::new()
        .stream("all", Level::Synced, &["method text request.method", "path text request.path"])
        .script(
            "*",
            "return { OPTIONS = function(req) return { status = 200, body = 'all of ' .. req.path } end }",
        )
        .handler("/*", "return 'a path'")
        .start();
    server.check(&request("OPTIONS *"), "200", "all of *");
    server.check(&request("OPTIONS http://a"), "200", "all of *");
    server.check(&request("GET /*"), "200", "a path");
    server.check(&request("OPTIONS /"), "204", "");
    server.check_refused(request("GET *"), 400);
    let expect = ["method=OPTIONS path=*", "method=OPTIONS path=*", "method=GET path=/*"];
    assert_eq!(server.records(), expect);
}

#[test]
fn a_method_of_a_route_that_its_script_does_not_answer_is_found_before_the_start() {
    let narrow = |methods: &[Method]| {
        let methods = methods.iter().copied().collect();
        Site::new()
            .script("/a", "return { GET = function() return 'got' end }")
            .tune_route(|route| route.methods = Some(methods))
    };
    assert_eq!(check_scripts(&narrow(&[Method::Get]).options), [""; 0]);
    assert_eq!(check_scripts(&narrow(&[Method::Head]).options), [""; 0]);
    let faults = check_scripts(&narrow(&[Method::Get, Method::Put, Method::Post]).options);
    let expect =
        "route0.luau: the script has no function for POST, PUT, which route \"/a\" accepts: it has GET, HEAD";
    assert!(faults.len() == 1 && faults[0].ends_with(expect), "{faults:?}");
    let server = Site::new().script("*", "return { GET = function() return 'got' end }");
    let faults = check_scripts(&server.options);
    assert!(faults.len() == 1 && faults[0].contains("no function for OPTIONS"), "{faults:?}");
}

#[test]
fn trace_and_connect_are_refused() {
    let server = Site::new().handler("/*", "return req.method").start();
    server.check_refused(request("TRACE /"), 501);
    server.check_refused(request("CONNECT a:80"), 501);
}

#[test]
fn a_named_host_comes_before_none_whatever_its_case_port_or_spelling() {
    let server = Site::new()
        .fixed("/", "any")
        .fixed("/", "named")
        .tune_route(|route| route.host = Some("example.org".to_owned()))
        .fixed("/", "six")
        .tune_route(|route| route.host = Some("[::1]".to_owned()))
        .start();
    for (host, expect) in [
        ("example.org", "named"),
        ("EXAMPLE.org:8080", "named"),
        ("example.org.", "named"),
        ("[0:0:0:0:0:0:0:1]:80", "six"),
        ("[::2]", "any"),
        ("www.example.org", "any"),
    ] {
        server.check(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), "200", expect);
    }
    server.check("GET http://Example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", "200", "named");
    server.check("GET / HTTP/1.0\r\n\r\n", "200", "any");
}

fn id_of(server: &Running, line: &str, sent: &[&str]) -> Option<String> {
    let fields: String = sent.iter().map(|value| format!("X-Request-Id: {value}\r\n")).collect();
    let mut peer = server.connect();
    peer.send(format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    peer.reply(false).field("x-request-id").map(str::to_owned)
}

#[test]
fn the_id_of_a_request_is_taken_or_made_and_is_the_same_everywhere() {
    let server = Site::new()
        .stream("all", Level::Synced, &["id text request.id", "uuid uuid request.id", "seen text record.id"])
        .handler("/a", "return { record = { id = req.id } }")
        .handler("/fail", "error('broken')")
        .tune(|options| options.request_ids = RequestIds::Take)
        .start();
    let uuid = "0190f3c5-7a1b-7c3d-8e4f-5a6b7c8d9e0f";
    assert_eq!(id_of(&server, "GET /a", &[uuid]).as_deref(), Some(uuid));
    assert_eq!(id_of(&server, "GET /a", &["edge.7:42"]).as_deref(), Some("edge.7:42"));
    let made = id_of(&server, "GET /a", &[]).unwrap();
    let insane = id_of(&server, "GET /a", &["two words"]).unwrap();
    let failed = id_of(&server, "GET /fail", &[]).unwrap();
    assert_eq!((made.len(), insane.len(), failed.len()), (36, 36, 36), "{made} {insane} {failed}");
    // A reply without a handler has no request id.
    assert_eq!(id_of(&server, "GET /none", &[uuid]), None);
    assert_eq!(id_of(&server, "PUT *", &[uuid]), None);
    let records = server.records();
    let start = |id: &str| format!("id={id} ");
    let ids = [uuid, "edge.7:42", &made, &insane, &failed];
    assert_eq!(records.len(), ids.len(), "{records:?}");
    for (record, id) in records.iter().zip(ids) {
        assert!(record.starts_with(&start(id)), "{record} is not of {id}");
    }
    assert!(records[..4].iter().zip(ids).all(|(record, id)| record.ends_with(&format!("seen={id}"))));
}

#[test]
fn ids_are_taken_from_trusted_proxies_alone_unless_the_server_is_told_otherwise() {
    let of = |ids: RequestIds, proxy: &str| {
        let networks = vec![proxy.parse().unwrap()];
        let server = Site::new()
            .handler("/a", "return req.id")
            .tune(|options| {
                options.request_ids = ids;
                options.trusted_proxies = TrustedProxies { networks, ..TrustedProxies::default() };
            })
            .start();
        id_of(&server, "GET /a", &["mine"]).unwrap()
    };
    assert_eq!(RequestIds::default(), RequestIds::Trusted);
    assert_eq!(of(RequestIds::Trusted, "127.0.0.1"), "mine");
    assert_eq!(of(RequestIds::Trusted, "10.0.0.1").len(), 36);
    assert_eq!(of(RequestIds::Take, "10.0.0.1"), "mine");
    assert_eq!(of(RequestIds::Make, "127.0.0.1").len(), 36);
}

#[test]
fn ids_can_be_made_always_or_kept_silent() {
    let of = |ids: RequestIds| {
        let server = Site::new()
            .stream("all", Level::Synced, &["id text request.id"])
            .handler("/a", "return req.id")
            .tune(|options| options.request_ids = ids)
            .start();
        (id_of(&server, "GET /a", &["mine"]), server.records())
    };
    let (told, records) = of(RequestIds::Make);
    assert_eq!(told.map(|id| format!("id={id}")).as_ref(), records.first());
    assert_ne!(records, ["id=mine"]);
    let (told, records) = of(RequestIds::Silent);
    assert_eq!((told, records.len()), (None, 1));
    assert_ne!(records, ["id=mine"]);
}

#[test]
fn a_route_has_its_own_time_for_a_body() {
    let server = Site::new()
        .handler("/slow", "return 'slow'")
        .handler("/fast", "return 'fast'")
        .tune_route(|route| {
            route.body_pace = Some(BodyPace { timeout: Duration::from_millis(1), ..BodyPace::default() });
        })
        .start();
    let post = |path| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    let mut slow = server.connect();
    slow.send(post("/slow"));
    server.check(&post("/fast"), "408", "the request did not arrive in time\n");
    slow.send("x");
    slow.expect("200", "slow");
}

#[test]
fn a_route_has_its_own_rate_for_a_body() {
    let second = Duration::from_secs(1);
    let of = |rate_min, rate_grace| Some(BodyPace { rate_min, rate_grace, ..BodyPace::default() });
    let server = Site::new()
        .handler("/patient", "return 'patient'")
        .tune_route(|route| route.body_pace = of(0, Duration::from_millis(1)))
        .handler("/fast", "return 'fast'")
        .tune_route(|route| route.body_pace = of(1 << 20, second / 4))
        .handler("/as-the-server", "return 'slow'")
        .tune(|options| options.connection.body_pace.rate_grace = 3 * second)
        .start();
    let post = |path| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    let [mut patient, mut other] = ["/patient", "/as-the-server"].map(|path| {
        let mut peer = server.connect();
        peer.send(post(path));
        peer
    });
    let begun = Instant::now();
    server.check(&post("/fast"), "408", "the request did not arrive in time\n");
    assert!((second / 4..3 * second).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    other.expect("408", "the request did not arrive in time\n");
    assert!(begun.elapsed() >= 3 * second, "{:?}", begun.elapsed());
    patient.send("x");
    patient.expect("200", "patient");
}

//! Tests of proxied routes: requests and replies that are only unusual pass through unchanged.

use tollgate_log::Level;
use tollgate_server::{AnyOr, EncodedSlashes, Method, ProxySpec};

use crate::backend::FakeBackend;
use crate::peer::Reply;
use crate::site::Site;

/// Returns the reply of a backend as the client gets it. The content of the backend's reply is `hello`.
fn passed(status_line: &str, fields: &str, status: &str) -> Reply {
    let reply = format!("{status_line}\r\n{fields}Content-Length: 5\r\n\r\nhello");
    let backend = FakeBackend::replying(reply);
    let server = Site::new().proxy("/*", backend.options(), |_| {}).start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.expect(status, "hello")
}

fn dates(reply: &Reply) -> Vec<&str> {
    reply.head.lines().filter_map(|line| line.strip_prefix("Date: ")).collect()
}

#[test]
fn the_date_of_a_backend_stays_and_a_reply_has_one_date() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let check = |fields: &str| {
        let reply = passed("HTTP/1.1 200 OK", fields, "200");
        assert_eq!(dates(&reply), [date], "{fields:?}");
    };
    check(&format!("Date: {date}\r\n"));
    check(&format!("date: {date}\r\nDate: Mon, 07 Nov 1994 08:49:37 GMT\r\n"));
    for fields in ["", "Date: yesterday\r\n"] {
        let reply = passed("HTTP/1.1 200 OK", fields, "200");
        let found = dates(&reply);
        assert!(matches!(found[..], [found] if found.ends_with("GMT") && found != date), "{found:?}");
    }
}

#[test]
fn a_reply_with_an_unusual_head_is_passed_on() {
    passed("HTTP/1.1 200", "", "200");
    passed("HTTP/1.1 404 ", "", "404");
    passed("HTTP/1.2 200 OK", "", "200");
    let reply = passed("HTTP/1.1 200 OK", "Server \t: app\r\n", "200");
    assert_eq!(reply.field("server"), Some("app"));
}

#[test]
fn a_status_above_599_is_passed_on_and_counts_as_a_failure_of_the_server() {
    let backend = FakeBackend::replying("HTTP/1.1 999 Denied\r\nContent-Length: 5\r\n\r\nhello");
    let server = Site::new().proxy("/*", backend.options(), |_| {}).start();
    server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "999", "hello");
    let status = server.watch().status();
    let replies: Vec<_> = status.routes.iter().map(|route| route.replies).collect();
    assert_eq!(replies, [[0, 0, 0, 0, 1]]);
}

#[test]
fn a_malformed_escape_in_a_query_is_passed_on() {
    for query in ["q=100%", "q=%zz&r=%4", "%", "a=%2F%00"] {
        let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        let server = Site::new().proxy("/*", backend.options(), |_| {}).start();
        server.check(&format!("GET /a?{query} HTTP/1.1\r\nHost: a\r\n\r\n"), "200", "hello");
        let request = backend.request();
        assert!(request.starts_with(&format!("GET /a?{query} HTTP/1.1\r\n")), "{request}");
    }
}

fn passes_slashes(proxy: &mut ProxySpec) {
    proxy.encoded_slashes = EncodedSlashes::Pass;
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn an_encoded_slash_is_passed_on_as_it_came_if_the_route_says_so() {
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let server = Site::new().proxy("/*", backend.options(), passes_slashes).start();
    for path in ["/@scope%2fpackage", "/api/queues/%2F/my%20queue", "/a%5Cb", "/plain", "/a%2Fb?c=%2F"] {
        server.check(&get(path), "200", "hello");
        let request = backend.request();
        assert!(request.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{request}");
    }
}

#[test]
fn an_encoded_slash_separates_no_segments_for_the_route_and_its_scripts() {
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let strips = |proxy: &mut ProxySpec| {
        passes_slashes(proxy);
        proxy.strip_prefix = true;
    };
    let site = Site::new().proxy("/p/{name}/*", backend.options(), strips);
    let site = site.before("if req.query.tell then return req.path .. ' ' .. req.params.name end");
    let server = site.start();
    server.check(&get("/p/a%2Fb/c%20d?tell=1"), "200", "/p/a%2Fb/c d a%2Fb");
    server.check(&get("/p/a%2Fb/c%2Fd"), "200", "hello");
    assert!(backend.request().starts_with("GET /c%2Fd HTTP/1.1\r\n"));
    server.check(&get("/p%2Fa/b"), "400", "invalid character in path\n");
}

#[test]
fn an_encoded_slash_is_refused_by_every_other_route_and_hides_no_dot_segment() {
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let site = Site::new().proxy("/open/*", backend.options(), passes_slashes);
    let site = site.proxy("/shut/*", backend.options(), |_| {}).handler("/script/*", "return 'script'");
    let server = site.start();
    let paths = [
        "/shut/a%2Fb",
        "/script/a%2Fb",
        "/none/a%2Fb",
        "/open/..%2Fshut",
        "/open/a%2F%2e%2E",
        "/open/a%5C..%5Cb",
        "/open/a%2F%00",
        "/open/a%2F%ff",
        "/open/%ff",
        "/open/%00",
    ];
    for path in paths {
        let mut peer = server.connect();
        peer.send(get(path));
        assert_eq!(peer.reply(false).status, 400, "{path}");
    }
    assert_eq!(backend.connections(), 0);
}

#[test]
fn an_after_script_that_changes_one_cookie_keeps_the_others() {
    let backend = FakeBackend::replying(
        "HTTP/1.1 200 OK\r\nSet-Cookie: sid=1; Secure\r\nSet-Cookie: csrf=2\r\nVary: a\r\n\
         Content-Length: 5\r\n\r\nhello",
    );
    let site = Site::new().proxy("/*", backend.options(), |_| {});
    let site = site.after(
        "local cookies = reply:all('headers', 'Set-Cookie')
        cookies[1] = string.gsub(cookies[1], 'Secure', 'HttpOnly', 1)
        return { headers = { ['set-cookie'] = cookies, ['x-none'] = tostring(#reply:all('headers', 'x')) } }",
    );
    let server = site.start();
    let mut peer = server.connect();
    peer.send(get("/"));
    let reply = peer.expect("200", "hello");
    let cookies = reply.head.lines().filter(|line| line.to_lowercase().starts_with("set-cookie: "));
    let cookies: Vec<_> = cookies.map(|line| &line["set-cookie: ".len()..]).collect();
    assert_eq!(cookies, ["sid=1; HttpOnly", "csrf=2"]);
    assert_eq!([reply.field("vary"), reply.field("x-none")], [Some("a"), Some("0")]);
}

#[test]
fn one_cookie_of_an_after_script_replaces_the_cookie_of_its_name_alone() {
    let check = |change: &str, expect: &[&str]| {
        let backend = FakeBackend::replying(
            "HTTP/1.1 200 OK\r\nSet-Cookie: sid=1; Secure\r\nset-cookie: csrf=2\r\nSet-Cookie: sid=3\r\n\
             Content-Length: 5\r\n\r\nhello",
        );
        let site = Site::new().proxy("/*", backend.options(), |_| {});
        let server = site.after(&format!("return {{ headers = {{ {change} }} }}")).start();
        let mut peer = server.connect();
        peer.send(get("/"));
        let reply = peer.expect("200", "hello");
        let lines = reply.head.lines().filter_map(|line| line.split_once(": "));
        let cookies = lines.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        assert_eq!(cookies.map(|(_, value)| value).collect::<Vec<_>>(), expect, "{change}");
    };
    check("['set-cookie'] = 'sid=9'", &["csrf=2", "sid=3", "sid=9"]);
    check("['Set-Cookie'] = 'csrf=9; Path=/'", &["sid=1; Secure", "sid=3", "csrf=9; Path=/"]);
    check("['set-cookie'] = 'new=9'", &["sid=1; Secure", "csrf=2", "sid=3", "new=9"]);
    check("['set-cookie'] = { 'sid=9' }", &["sid=9"]);
    check("['set-cookie'] = { 'a=1', 'b=2' }", &["a=1", "b=2"]);
    check("vary = 'a'", &["sid=1; Secure", "csrf=2", "sid=3"]);
}

#[test]
fn a_reply_has_values_of_header_fields_alone() {
    let server = Site::new().fixed("/", "hello").after("reply:all('cookies', 'a')").start();
    server.check(&get("/"), "500", "the script failed\n");
}

fn webdav(proxy: &mut ProxySpec) {
    proxy.extension_methods = AnyOr::Listed(vec!["PROPFIND".to_owned(), "M-SEARCH".to_owned()]);
}

#[test]
fn an_extension_method_goes_to_the_backend_and_is_recorded_by_its_name() {
    let backend = FakeBackend::replying("HTTP/1.1 207 Multi-Status\r\nContent-Length: 5\r\n\r\nhello");
    let site = Site::new().stream("all", Level::Synced, &["method text request.method"]);
    let server = site.proxy("/dav/*", backend.options(), webdav).start();
    for method in ["PROPFIND", "M-SEARCH"] {
        let request = format!("{method} /dav/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxml");
        server.check(&request, "207", "hello");
        let request = backend.request();
        assert!(request.starts_with(&format!("{method} /dav/a HTTP/1.1\r\n")), "{request}");
        assert!(request.ends_with("\r\n\r\nxml"), "{request}");
    }
    server.check("GET /dav/a HTTP/1.1\r\nHost: a\r\n\r\n", "207", "hello");
    assert_eq!(server.records(), ["method=PROPFIND", "method=M-SEARCH", "method=GET"]);
}

#[test]
fn an_extension_method_that_no_route_names_is_501() {
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let site = Site::new().proxy("/dav/*", backend.options(), webdav).fixed("/fixed", "fixed");
    let site = site.proxy("/get/*", backend.options(), webdav);
    let site = site.tune_route(|route| route.methods = Some([Method::Get].into_iter().collect()));
    let server = site.handler("/script", "return req.method").start();
    let ask = |line: &str| {
        let mut peer = server.connect();
        peer.send(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
        peer.reply(false)
    };
    for line in ["REPORT /dav/a", "propfind /dav/a", "PROPFIND /fixed", "PROPFIND /script", "PROPFIND /dav"] {
        let reply = ask(line);
        let expect = if line == "PROPFIND /dav" { 308 } else { 501 };
        assert_eq!((reply.status, reply.field("connection")), (expect, None), "{line}: {reply:?}");
    }
    assert_eq!(ask("PROPFIND /none").status, 404);
    assert_eq!(ask("PROPFIND /get/a").status, 200);
    assert_eq!(ask("POST /get/a").status, 405);
    server.check_refused("TRACE /dav/a HTTP/1.1\r\nHost: a\r\n\r\n", 501);
    server.check_refused("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 501);
    assert_eq!(backend.connections(), 1);
}

#[test]
fn an_extension_method_is_not_sent_again_when_a_kept_connection_ends() {
    let backend = FakeBackend::start(|taken| {
        taken.request();
        taken.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        taken.request();
    });
    let site = Site::new().proxy("/*", backend.options(), |proxy| proxy.extension_methods = AnyOr::Any);
    let server = site.start();
    server.check("LOCK / HTTP/1.1\r\nHost: a\r\n\r\n", "200", "hello");
    server.check("LOCK / HTTP/1.1\r\nHost: a\r\n\r\n", "502", "the backend closed the connection\n");
    assert_eq!(backend.connections(), 1);
}

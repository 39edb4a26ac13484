//! Tests of the first line of a request: method, target, version (RFC 9112 sections 2 and 3).

use tollgate_server::TrustedProxies;

use crate::site::{NEXT, Running, Site};

const HEAD: &str = "GET /a?b HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";

fn site() -> Running {
    Site::new().handler("/*", "return req.method .. ' ' .. req.path").start()
}

fn line(line: impl AsRef<[u8]>) -> Vec<u8> {
    [line.as_ref(), b"\r\nHost: a\r\n\r\n", NEXT].concat()
}

#[test]
fn a_bare_cr_or_lf_is_refused_wherever_it_stands_in_a_head() {
    let server = site();
    for at in 0..HEAD.len() {
        for intruder in ["\n", "\r"] {
            // An LF before the last LF only adds an LF after a valid head.
            if (at, intruder) == (HEAD.len() - 1, "\n") {
                continue;
            }
            let (front, back) = HEAD.split_at(at);
            let mut peer = server.connect();
            peer.send([front, intruder, back].concat());
            peer.finish();
            let reply = peer.reply(false);
            assert_eq!(reply.status, 400, "{intruder:?} at {at}: {reply:?}");
            peer.expect_end();
        }
    }
}

#[test]
fn a_line_that_ends_in_lf_alone_is_refused_and_nothing_after_it_is_served() {
    let server = site();
    for (index, _) in HEAD.match_indices("\r\n") {
        let mut head = HEAD.to_owned();
        head.remove(index);
        server.check_refused([head.as_bytes(), NEXT].concat(), 400);
    }
}

#[test]
fn one_blank_line_may_stand_before_a_request_and_no_more() {
    let server = site();
    let mut peer = server.connect();
    peer.send("\r\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.expect("200", "GET /1");
    peer.expect("200", "GET /2");
    server.check_refused([b"\r\n\r\n", HEAD.as_bytes()].concat(), 400);
    server.check_refused([b"\n", HEAD.as_bytes()].concat(), 400);
    server.check_refused([b" \r\n", HEAD.as_bytes()].concat(), 400);
}

#[test]
fn a_blank_line_after_the_last_request_asks_for_nothing() {
    let server = site();
    for tail in ["\r\n", "\r"] {
        let mut peer = server.connect();
        peer.send(format!("{HEAD}{tail}"));
        peer.expect("200", "GET /a");
        peer.finish();
        peer.expect_end();
    }
}

#[test]
fn parts_of_the_request_line_stand_one_space_apart() {
    let server = site();
    for bad in [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET /\x0bHTTP/1.1",
        "GET /\u{a0}HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET HTTP/1.1",
        "GET",
        "GET / ",
        "/ HTTP/1.1",
    ] {
        server.check_refused(line(bad), 400);
    }
}

#[test]
fn a_higher_1_x_is_served_as_1_1_and_other_versions_are_505() {
    let server = site();
    for malformed in [
        "http/1.1",
        "Http/1.1",
        "HTTP/1",
        "HTTP/1.",
        "HTTP/11",
        "HTTP/1.10",
        "HTTP/01.1",
        "HTTP/1,1",
        "HTTP 1.1",
    ] {
        server.check_refused(line(format!("GET / {malformed}")), 400);
    }
    for higher in ["HTTP/1.2", "HTTP/1.9"] {
        server.check(&format!("GET / {higher}\r\nHost: a\r\n\r\n"), "200", "GET /");
    }
    for other in ["HTTP/2.0", "HTTP/3.0", "HTTP/9.9", "HTTP/0.9", "HTTP/0.0"] {
        server.check_refused(line(format!("GET / {other}")), 505);
    }
    server.check_refused("GET /\r\n", 400);
    server.check_refused("GET / \r\n", 400);
}

#[test]
fn a_peer_that_begins_http_2_or_tls_is_told_and_closed() {
    let server = site();
    server.check_refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 505);
    server.check_refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400);
}

#[test]
fn a_method_is_a_known_token_and_its_case_matters() {
    let server = site();
    for unknown in ["get", "Get", "TRACE", "PROPFIND", "GETS", "PRI", "!#$%&'*+-.^_`|~"] {
        server.check_refused(line(format!("{unknown} / HTTP/1.1")), 501);
    }
    server.check_refused(line(format!("{} / HTTP/1.1", "M".repeat(4000))), 501);
    for bad in ["G(T", "GET:", "G\"T", "G\u{e9}T", "GE\0T", "{GET}"] {
        server.check_refused(line(format!("{bad} / HTTP/1.1")), 400);
    }
    server.check_refused("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 501);
}

#[test]
fn every_octet_of_a_path_is_taken_or_refused_as_its_kind_says() {
    let server = site();
    for byte in 0..=255u8 {
        let target = [b"GET /a", &[byte][..], b"41 HTTP/1.1"].concat();
        let is_data = byte.is_ascii_graphic() && !b"#\"<>\\^`{}".contains(&byte);
        let mut peer = server.connect();
        peer.send(line(target));
        let reply = peer.reply(false);
        assert_eq!(reply.status, if is_data { 200 } else { 400 }, "{byte:#04x}: {reply:?}");
        assert_eq!(reply.field("connection").is_none(), is_data, "{byte:#04x}: {reply:?}");
    }
}

#[test]
fn every_octet_of_a_query_is_taken_or_refused_as_its_kind_says() {
    let server = site();
    for byte in 0..=255u8 {
        let target = [b"GET /?a", &[byte][..], b"b HTTP/1.1"].concat();
        let is_data = byte.is_ascii_graphic() && !b"#\"<>".contains(&byte);
        let mut peer = server.connect();
        peer.send(line(target));
        let reply = peer.reply(false);
        assert_eq!(reply.status, if is_data { 200 } else { 400 }, "{byte:#04x}: {reply:?}");
    }
}

#[test]
fn an_asterisk_is_a_target_for_options_alone() {
    let server = site();
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"] {
        let mut peer = server.connect();
        peer.send(line(format!("{method} * HTTP/1.1")));
        assert_eq!(peer.reply(method == "HEAD").status, 400, "{method}");
        peer.expect_end();
    }
    server.check_refused(line("OPTIONS ** HTTP/1.1"), 400);
    server.check_refused(line("OPTIONS *?a HTTP/1.1"), 400);
    server.check("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "204", "");
    server.check("OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n", "204", "");
}

#[test]
fn an_absolute_target_is_served_and_its_host_agrees_with_the_field() {
    let server = Site::new().handler("/*", "return req.path .. ' ' .. (req.query.q or '-')").start();
    for (target, host, expect) in [
        ("http://a/b?q=1", "a", "/b 1"),
        ("HTTP://A:80/b", "a:80", "/b -"),
        ("http://a:80/b", "a", "/b -"),
        ("http://a:/b", "a:80", "/b -"),
        ("http://a", "a", "/ -"),
        ("http://a?q=2", "a", "/ 2"),
        ("http://[::1]:8/", "[::1]:8", "/ -"),
    ] {
        server.check(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"), "200", expect);
    }
    server.check("GET http://a/b HTTP/1.0\r\n\r\n", "200", "/b -");
    for (target, host) in [("http://a/", "b"), ("http://a/", "a:81"), ("http://a.b/", "a")] {
        server.check_refused(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400);
    }
    server.check_refused("GET http://a/ HTTP/1.1\r\n\r\n", 400);
}

#[test]
fn targets_of_other_forms_are_refused() {
    let server = site();
    for target in [
        "a",
        "a:80",
        "a/b",
        "?a",
        "ftp://a/",
        "file:///etc/passwd",
        "http:/a",
        "http:a",
        "http:///a",
        "http://",
        "http://u@a/",
        "http://u:p@a/",
        "http://a:b/",
        "http://a,b/",
        "http://[::1/",
        "http://:80/",
        "%2f",
        "\\a",
    ] {
        server.check_refused(line(format!("GET {target} HTTP/1.1")), 400);
    }
}

#[test]
fn an_https_target_on_a_plain_connection_is_misdirected() {
    let server = site();
    server.check_refused("GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 421);
    // The request after a HEAD does not decide whether the reply to HEAD has content.
    let mut peer = server.connect();
    peer.send([b"HEAD https://a/ HTTP/1.1\r\nHost: a\r\n\r\n", NEXT].concat());
    assert_eq!(peer.reply(true).status, 421);
    peer.expect_end();
}

#[test]
fn a_trusted_proxy_tells_the_scheme_of_a_target() {
    let trusted =
        TrustedProxies { networks: vec!["127.0.0.0/8".parse().unwrap()], ..TrustedProxies::default() };
    let proxied = Site::new().fixed("/", "hello").tune(|options| options.trusted_proxies = trusted).start();
    let request =
        |scheme: &str, told: &str| format!("GET {scheme}://a:443/ HTTP/1.1\r\nHost: a:443\r\n{told}\r\n");
    let https = "X-Forwarded-Proto: HTTPS\r\n";
    proxied.check(&request("https", https), "200", "hello");
    proxied.check(&request("http", ""), "200", "hello");
    proxied.check_refused(request("http", https), 421);
    proxied.check_refused(request("https", ""), 421);
    // A proxy that adds its value to the value of a client tells nothing.
    for told in ["X-Forwarded-Proto: https, http\r\n", &https.repeat(2)] {
        proxied.check_refused(request("https", told), 421);
    }
    site().check_refused(request("https", https), 421);
}

#[test]
fn eight_thousand_bytes_of_target_are_taken_and_more_is_414() {
    let server = site();
    let mut peer = server.connect();
    peer.send(line(format!("GET /{} HTTP/1.1", "a".repeat(7_999))));
    assert_eq!(peer.reply(false).status, 200);
    server.check_refused(line(format!("GET /{} HTTP/1.1", "a".repeat(8_000))), 414);
    server.check_refused(line(format!("GET /?{} HTTP/1.1", "a".repeat(8_000))), 414);
    server.check_refused(line(format!("GET /{} HTTP/1.1", "a".repeat(100_000))), 414);
    // The limit also applies to a line whose end has not arrived.
    server.check_refused(format!("GET /{}", "a".repeat(9_000)), 414);
}

#[test]
fn a_method_longer_than_any_known_is_501_however_long_it_is() {
    let server = Site::new().fixed("/", "hello").start();
    for bytes in [8, 100, 8_000, 9_000, 60_000] {
        let method = "A".repeat(bytes);
        server.check_refused(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"), 501);
    }
}

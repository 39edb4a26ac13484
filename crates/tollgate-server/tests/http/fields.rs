//! Tests of field lines and Host (RFC 9112 sections 3.2 and 5).

use tollgate_server::UnderscoreNames;

use crate::site::{NEXT, Running, Site};

fn site() -> Running {
    Site::new().handler("/*", "local x = req.headers.x return x and '[' .. x .. ']' or 'none'").start()
}

fn with(fields: impl AsRef<[u8]>) -> Vec<u8> {
    [b"GET / HTTP/1.1\r\nHost: a\r\n", fields.as_ref(), b"\r\n\r\n", NEXT].concat()
}

#[test]
fn a_name_is_a_token_right_before_its_colon() {
    let server = site();
    for bad in
        ["x", ": y", "", "x : y", "x\t: y", "x y: z", "\"x\": y", "(x): y", "x;: y", "x\u{e9}: y", "{x}: y"]
    {
        if !bad.is_empty() {
            server.check_refused(with(bad), 400);
        }
    }
    for byte in (0..=255u8).filter(|byte| !byte.is_ascii_alphanumeric() && !b"!#$%&'*+-.^`|~:".contains(byte))
    {
        server.check_refused(with([b"x", &[byte][..], b"x: y"].concat()), 400);
    }
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^`|~0aZ: y\r\nx:y\r\n\r\n");
    peer.expect("200", "[y]");
}

#[test]
fn a_folded_line_is_refused_and_so_is_a_blank_before_the_first_field() {
    let server = site();
    for blank in [" ", "\t", "  "] {
        server.check_refused(with(format!("x: y\r\n{blank}z")), 400);
        server.check_refused(with(format!("x: y\r\n{blank}Transfer-Encoding: chunked")), 400);
        server.check_refused(format!("GET / HTTP/1.1\r\n{blank}Host: a\r\n\r\n"), 400);
        server.check_refused(format!("GET / HTTP/1.1\r\n{blank}\r\nHost: a\r\n\r\n"), 400);
    }
}

#[test]
fn controls_in_a_value_are_refused() {
    let server = site();
    for byte in (0..0x20u8).filter(|byte| *byte != b'\t').chain([0x7f]) {
        for value in [vec![byte, b'y'], vec![b'y', byte, b'z'], vec![b'y', byte]] {
            server.check_refused(with([b"x:", &value[..]].concat()), 400);
        }
    }
}

#[test]
fn blanks_around_a_value_are_cut_and_nothing_else_is() {
    let server = Site::new().handler("/*", "return (string.gsub(req.headers.x, '[^a-z]', '?'))").start();
    // Each byte that is not UTF-8 is U+FFFD for a script, which has three bytes.
    for (line, expect) in [
        (&b"x:y"[..], "y"),
        (b"x: \t y \t ", "y"),
        (b"x: y\tz", "y?z"),
        (b"x:\xa0y\x85", "???y???"),
        (b"x: \xff", "???"),
        (b"x:", ""),
    ] {
        let mut peer = server.connect();
        peer.send([b"GET / HTTP/1.1\r\nHost: a\r\n", line, b"\r\n\r\n"].concat());
        peer.expect("200", expect);
    }
}

#[test]
fn a_name_with_an_underscore_is_refused() {
    let server = site();
    for name in ["x_y", "_", "Content_Length", "Transfer_Encoding"] {
        server.check_refused(with(format!("{name}: 1")), 400);
    }
}

#[test]
fn names_with_an_underscore_are_dropped_where_that_is_set() {
    let server = Site::new()
        .handler("/*", "return (req.headers['x_y'] or 'none') .. req.headers.x")
        .tune(|options| {
            options.connection.head.underscore_names = UnderscoreNames::Drop;
            options.connection.head.fields_max = 4;
        })
        .start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nx_y: 1\r\nHost: a\r\nContent_Length: 5\r\nx: 2\r\n\r\n");
    peer.expect("200", "none2");
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nx: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx_y: 1\r\n\r\n");
    peer.expect("200", "none3");
    // These fields are checked and counted like any other field.
    server.check_refused(with("x_y: \x01"), 400);
    server.check_refused(with("x_y : 1"), 400);
    server.check_refused(with("x_y: 1\r\n fold"), 400);
    server.check_refused(with("x_y: 1\r\n".repeat(4)), 431);
}

#[test]
fn http_1_1_names_one_host_and_only_a_host() {
    let server = site();
    server.check_refused("GET / HTTP/1.1\r\n\r\n", 400);
    server.check("GET / HTTP/1.0\r\n\r\n", "200", "none");
    for repeated in ["Host: a\r\nHost: a", "Host: a\r\nhost: b", "HOST: a\r\nx: y\r\nHost: a"] {
        server.check_refused(format!("GET / HTTP/1.1\r\n{repeated}\r\n\r\n"), 400);
    }
    for bad in [
        "",
        "u@a",
        "u:p@a",
        "a/b",
        "a/",
        "a?b",
        "a#b",
        "a,b",
        "a, a",
        "a b",
        "a\tb",
        ":80",
        "a:b",
        "a:-1",
        "a:65536",
        "a:80:80",
        "[::1",
        "::1",
        "[::1]a",
        "[1.2.3.4]",
        "http://a",
        "\"a\"",
        "a\\b",
        "<a>",
        "a%",
        "a%zz",
        "\u{e9}",
    ] {
        server.check_refused(format!("GET / HTTP/1.1\r\nHost: {bad}\r\n\r\n"), 400);
        server.check_refused(format!("GET / HTTP/1.0\r\nHost: {bad}\r\n\r\n"), 400);
    }
    for good in
        ["a", "a.example:80", "a:", "A_b", "127.0.0.1:8080", "[::1]", "[2001:db8::1]:443", "caf%C3%A9"]
    {
        server.check(&format!("GET / HTTP/1.1\r\nHost:{good}\r\n\r\n"), "200", "none");
    }
}

#[test]
fn a_head_over_its_bytes_or_fields_is_431() {
    let server = site();
    server.check_refused(with(format!("x: {}", "y".repeat(16 << 10))), 431);
    server.check_refused(with(format!("{}: y", "x".repeat(16 << 10))), 431);
    server.check_refused(with("x: y\r\n".repeat(100)), 431);
    server.check_refused(format!("GET / HTTP/1.1\r\nHost: a\r\nx: {}", "y".repeat(17 << 10)), 431);
    let mut peer = server.connect();
    peer.send(with(format!("x: y{}", "\r\nz: y".repeat(98))));
    peer.expect("200", "[y]");
}

#[test]
fn connection_cannot_name_what_frames_or_routes_the_message() {
    let server = site();
    for option in ["Content-Length", "close, transfer-encoding", "HOST", "x y", "\"close\"", "a;b", "a=b"] {
        server.check_refused(with(format!("Connection: {option}")), 400);
        server.check_refused(with(format!("Connection: close\r\nConnection: {option}")), 400);
    }
}

#[test]
fn an_upgrade_is_ignored_and_with_a_body_refused() {
    let server = site();
    for protocol in ["h2c, websocket", "websocket", "TLS/1.0"] {
        let fields = format!("Connection: Upgrade\r\nUpgrade: {protocol}");
        server.check(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"), "200", "none");
        server.check_refused(with(format!("{fields}\r\nContent-Length: 1")), 400);
        server.check_refused(with(format!("{fields}\r\nTransfer-Encoding: chunked")), 400);
    }
}

/// Java's HttpClient and `curl --http2` send this offer with every request.
#[test]
fn an_offer_of_http_2_is_ignored_with_and_without_a_body() {
    let server = Site::new().handler("/*", "return '<' .. req:body() .. '>'").start();
    let offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA";
    let mut peer = server.connect();
    peer.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{offer}\r\n\r\n"));
    peer.expect("200", "<>");
    peer.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{offer}\r\nContent-Length: 5\r\n\r\nhello"));
    peer.expect("200", "<hello>");
    peer.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{offer}\r\nTransfer-Encoding: chunked\r\n\r\n"));
    peer.send("5\r\nhello\r\n0\r\n\r\n");
    peer.expect("200", "<hello>");
}

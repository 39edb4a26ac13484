//! Tests of whole heads. The table has a row for each rule of HTTP that a head can break.

use super::*;
use crate::{BodyFraming, Method, Target};
use std::fmt::Write as _;

fn read(input: &[u8], limits: &Limits) -> Result<Option<RequestHead>, RequestError> {
    HeadReader::default().read(&mut BytesMut::from(input), limits)
}

fn head(input: &str) -> RequestHead {
    let mut buffer = BytesMut::from(input);
    let head = HeadReader::default().read(&mut buffer, &Limits::default());
    let head = head.unwrap_or_else(|error| panic!("{input:?}: {error}"));
    let head = head.unwrap_or_else(|| panic!("{input:?} is incomplete"));
    assert_eq!(head.bytes_len() + buffer.len(), input.len());
    head
}

/// Checks the status for a head that is read as one piece, and again byte by byte. `|` stands for CRLF.
/// Status 200 means accepted, 0 means incomplete.
fn check(input: &str, expect: u16) {
    check_bytes(input.replace('|', "\r\n").as_bytes(), expect);
}

fn check_bytes(input: &[u8], expect: u16) {
    let status = |outcome: &Result<Option<RequestHead>, RequestError>| match outcome {
        Ok(Some(_)) => 200,
        Ok(None) => 0,
        Err(error) => error.status().as_u16(),
    };
    let limits = Limits::default();
    let whole = read(input, &limits);
    assert_eq!(status(&whole), expect, "{}: {whole:?}", input.escape_ascii());
    let mut reader = HeadReader::default();
    let mut buffer = BytesMut::new();
    let mut dripped = Ok(None);
    for &byte in input {
        buffer.extend_from_slice(&[byte]);
        dripped = reader.read(&mut buffer, &limits);
        if !matches!(dripped, Ok(None)) {
            break;
        }
    }
    assert_eq!(status(&dripped), expect, "dripped {}: {dripped:?}", input.escape_ascii());
}

#[test]
fn a_reader_that_takes_back_memory_reads_the_next_head_as_a_fresh_one() {
    let mut buffer =
        BytesMut::from("GET /a HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\nGET /b HTTP/1.0\r\nY: 2\r\n\r\n");
    let mut reader = HeadReader::default();
    let mut first = reader.read(&mut buffer, &Limits::default()).unwrap().unwrap();
    reader.recycle(&mut first);
    assert!(!reader.has_started());
    let second = reader.read(&mut buffer, &Limits::default()).unwrap().unwrap();
    assert_eq!((second.path(), second.host(), second.version()), ("/b", None, Version::Http10));
    assert_eq!(second.fields().collect::<Vec<_>>(), [("Y", &b"2"[..])]);
    assert!(buffer.is_empty());
}

#[test]
fn a_plain_path_is_one_that_stays_as_it_is() {
    let check = |target: &str, is_plain: bool| {
        let head = head(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(
            (head.has_plain_path(), head.path_bytes()),
            (is_plain, head.path().as_bytes()),
            "{target}"
        );
    };
    check("/", true);
    check("/a/b?c=%20.", true);
    check("//a", true);
    check("http://a/b", true);
    check("http://a", true);
    check("/a.b", false);
    check("/a%20b", false);
    check("/../a", false);
}

#[test]
fn a_head_gives_its_parts() {
    let head = head(
        "POST /a/b?c=d HTTP/1.1\r\nHost: x.y:80\r\nAccept: 1\r\nACCEPT: 2\r\nContent-Length: 12\r\n\r\nrest",
    );
    assert_eq!((head.method(), head.version()), (Method::Post, Version::Http11));
    assert_eq!(head.target(), Target::Origin { path: "/a/b", query: Some("c=d") });
    assert_eq!((head.raw_target(), head.path(), head.query()), ("/a/b?c=d", "/a/b", Some("c=d")));
    assert_eq!(head.host(), Some("x.y:80"));
    assert_eq!(head.field("accept"), Some(&b"1"[..]));
    assert_eq!(head.field_bytes("CONTENT-length").unwrap(), "12");
    assert_eq!(head.field("absent"), None);
    let names: Vec<_> = head.fields().map(|(name, _)| name).collect();
    assert_eq!(names, ["Host", "Accept", "ACCEPT", "Content-Length"]);
    assert_eq!(head.framing(), BodyFraming::Length(12));
    assert!(head.is_persistent() && !head.expects_continue());
}

#[test]
fn a_head_is_shared_with_the_buffer_and_not_copied() {
    let mut buffer = BytesMut::from("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let start = buffer.as_ptr();
    let head = HeadReader::default().read(&mut buffer, &Limits::default()).unwrap().unwrap();
    assert_eq!(head.bytes.as_ptr(), start);
    assert_eq!(head.field_bytes("host").unwrap().as_ptr(), start.wrapping_add(22));
}

#[test]
fn pipelined_heads_come_one_by_one() {
    let mut reader = HeadReader::default();
    let mut buffer = BytesMut::from("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /2 HTTP/1.0\r\n\r\nGET /3");
    let mut next = || reader.read(&mut buffer, &Limits::default()).unwrap();
    assert_eq!(next().unwrap().path(), "/1");
    let second = next().unwrap();
    assert_eq!((second.path(), second.bytes_len()), ("/2", 21));
    assert!(next().is_none());
    assert!(reader.has_started());
    assert_eq!(buffer, "GET /3");
}

#[test]
fn lines_end_in_crlf_only() {
    check("GET / HTTP/1.1|Host: a||", 200);
    check("GET / HTTP/1.1\nHost: a||", 400);
    check("GET / HTTP/1.1|Host: a\n|", 400);
    check("GET / HTTP/1.1|Host: a|\n", 400);
    check("GET / HTTP/1.1|Host: a\n\n", 400);
    check("GET / HTTP/1.1|Host: a|a: b\rc: d||", 400);
    check("GET / HTTP/1.1\r|Host: a||", 400);
    check("GET /\r HTTP/1.1|Host: a||", 400);
    check("GET / HTTP/1.1|Host: a\r||", 400);
}

#[test]
fn a_request_line_may_follow_one_blank_line_at_most() {
    check("|GET / HTTP/1.1|Host: a||", 200);
    check("||GET / HTTP/1.1|Host: a||", 400);
    check("\nGET / HTTP/1.1|Host: a||", 400);
    check("\rGET / HTTP/1.1|Host: a||", 400);
    check(" |GET / HTTP/1.1|Host: a||", 400);
    check("|", 0);
    let limits = Limits { head_bytes_max: 29, ..Limits::default() };
    assert!(read(b"GET / HTTP/1.1\r\nHost: aa\r\n\r\n", &limits).is_ok());
    assert!(read(b"\r\nGET / HTTP/1.1\r\nHost: aa\r\n\r\n", &limits).is_err());
}

#[test]
fn no_whitespace_before_the_first_field() {
    for blank in [" ", "\t"] {
        let input = format!("GET / HTTP/1.1\r\n{blank}Host: a\r\n\r\n");
        assert_eq!(
            read(input.as_bytes(), &Limits::default()).unwrap_err(),
            RequestError::WhitespaceBeforeFields
        );
        let input = format!("GET / HTTP/1.1\r\nHost: a\r\n{blank}b: c\r\n\r\n");
        assert_eq!(read(input.as_bytes(), &Limits::default()).unwrap_err(), RequestError::FieldFolded);
    }
    check("GET / HTTP/1.1| |Host: a||", 400);
}

#[test]
fn a_request_line_is_three_parts_with_one_space_between() {
    for line in [
        "",
        "GET",
        "GET /",
        "GET / ",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET / HTTP/1.1 x",
        "GET /a b HTTP/1.1",
        "G(T / HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1",
        "GET / HTTP/1.",
        "GET / HTTP/1.10",
        "GET / HTTP/11",
        "GET / HTTP/01.1",
        "GET / HTTP/a.b",
        "GET / XTTP/1.1",
        "GET HTTP/1.1",
    ] {
        check(&format!("{line}|Host: a||"), 400);
    }
}

#[test]
fn methods_are_known_or_501_and_versions_spoken_or_505() {
    for method in ["get", "FOO", "TRACE", "GETT", "PRI"] {
        check(&format!("{method} / HTTP/1.1|Host: a||"), 501);
    }
    check("CONNECT a:443 HTTP/1.1|Host: a:443||", 501);
    for version in ["2.0", "0.9", "9.9", "3.0"] {
        check(&format!("GET / HTTP/{version}|Host: a||"), 505);
    }
}

#[test]
fn an_extension_method_is_taken_with_its_name_if_the_limits_say_so() {
    let limits = Limits { extension_methods: true, ..Limits::default() };
    let read = |line: &str| read(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), &limits);
    for name in ["PROPFIND", "get", "M-SEARCH", "!#$%&'*+-.^_`|~"] {
        let head = read(&format!("{name} /a")).unwrap().unwrap();
        assert_eq!((head.method(), head.method_name(), head.path()), (Method::Extension, name, "/a"));
    }
    let head = read("GET /a").unwrap().unwrap();
    assert_eq!((head.method(), head.method_name()), (Method::Get, "GET"));
    for (line, expect) in [
        ("TRACE /", 501),
        ("CONNECT a:443", 501),
        ("PROPFINDPROPFINDPROPFINDPROPFINDX /", 501),
        ("PROP(FIND /", 400),
        ("PROPFIND *", 400),
    ] {
        assert_eq!(read(line).unwrap_err().status().as_u16(), expect, "{line}");
    }
    check("PROPFIND / HTTP/1.1|Host: a||", 501);
}

#[test]
fn a_higher_minor_version_is_processed_as_1_1() {
    for version in ["1.2", "1.9"] {
        let head = head(&format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"));
        assert_eq!((head.version(), head.is_persistent()), (Version::Http11, true), "{version}");
        check(&format!("GET / HTTP/{version}||"), 400);
    }
}

#[test]
fn the_http2_preface_is_recognised() {
    let found = read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &Limits::default()).unwrap_err();
    assert_eq!(found, RequestError::Http2Preface);
    assert!(found.closes());
}

#[test]
fn a_tls_hello_is_refused_at_its_first_byte() {
    check_bytes(b"\x16\x03\x01", 400);
    check_bytes(b"\xffGET", 400);
}

#[test]
fn host_is_there_once_and_names_a_host() {
    check("GET / HTTP/1.1||", 400);
    check("GET / HTTP/1.0||", 200);
    check("GET / HTTP/1.1|Host: a|Host: a||", 400);
    check("GET / HTTP/1.0|Host: a|hOST: b||", 400);
    check("GET / HTTP/1.1|Host:||", 400);
    check("GET / HTTP/1.1|Host: [::1]:80||", 200);
    for host in ["u@a", "a/", "a,b", "a b", ":80", "a:b", "[::1", "http://a"] {
        check(&format!("GET / HTTP/1.1|Host: {host}||"), 400);
        check(&format!("GET / HTTP/1.0|Host: {host}||"), 400);
    }
}

#[test]
fn absolute_form_names_the_host_and_agrees_with_the_field() {
    let absolute = head("GET http://A.b:8?c HTTP/1.1\r\nHost: a.B:8\r\n\r\n");
    assert_eq!((absolute.host(), absolute.path(), absolute.query()), (Some("A.b:8"), "/", Some("c")));
    assert_eq!(head("GET http://a/ HTTP/1.0\r\n\r\n").host(), Some("a"));
    check("GET http://a/ HTTP/1.1|Host: b||", 400);
    check("GET http://a/ HTTP/1.1|Host: a:8080||", 400);
    check("GET http://a/ HTTP/1.1|Host: a80||", 400);
    check("GET http://a/ HTTP/1.1|Host:||", 400);
    check("GET http://a/ HTTP/1.1||", 400);
    check("GET http://u@a/ HTTP/1.1|Host: a||", 400);
}

#[test]
fn an_empty_port_and_the_default_port_agree_with_no_port() {
    let hosts = ["a", "A:", "a:80", "a:0080"];
    for (target, host) in hosts.iter().flat_map(|target| hosts.map(|host| (target, host))) {
        check(&format!("GET http://{target}/ HTTP/1.1|Host: {host}||"), 200);
    }
    let v6 = ["[::1]", "[::1]:", "[::1]:80"];
    for (target, host) in v6.iter().flat_map(|target| v6.map(|host| (target, host))) {
        check(&format!("GET http://{target}/ HTTP/1.1|Host: {host}||"), 200);
    }
    for (target, host) in [("a:", "a:8"), ("a:80", "a:8"), ("a:8", "a"), ("a:80", "b"), ("[::80]", "[::]:80")]
    {
        check(&format!("GET http://{target}/ HTTP/1.1|Host: {host}||"), 400);
    }
}

#[test]
fn asterisk_is_for_options() {
    let options = head("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((options.target(), options.path()), (Target::Asterisk, "*"));
    check("GET * HTTP/1.1|Host: a||", 400);
}

#[test]
fn bad_field_lines_are_refused() {
    for line in
        ["a", ": b", "a : b", "a b: c", "a_b: c", "a\u{e9}: b", "a: \0", "a: \x08", "a: \x7f", "(a): b"]
    {
        check(&format!("GET / HTTP/1.1|Host: x|{line}||"), 400);
    }
    check("GET / HTTP/1.1|Host: x|a: b| c||", 400);
}

#[test]
fn framing_is_none_length_or_chunked() {
    let framing = |fields: &str| head(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).framing();
    assert_eq!(framing(""), BodyFraming::None);
    assert_eq!(framing("Content-Length: 0\r\n"), BodyFraming::Length(0));
    assert_eq!(framing("content-length:\t7 \r\n"), BodyFraming::Length(7));
    assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), BodyFraming::Chunked);
    let connect_close = head("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(connect_close.framing(), BodyFraming::None);
}

#[test]
fn doubtful_framing_is_refused() {
    let check_fields = |fields: &str, expect| check(&format!("POST / HTTP/1.1|Host: a|{fields}|"), expect);
    check_fields("Content-Length: 1|Transfer-Encoding: chunked|", 400);
    check_fields("Transfer-Encoding: chunked|Content-Length: 1|", 400);
    check_fields("Transfer-Encoding: gzip, chunked|Content-Length: 1|", 400);
    check_fields("Content-Length: 1|Content-Length: 1|", 400);
    check_fields("Content-Length: 1, 1|", 400);
    check_fields("Content-Length:|", 400);
    check_fields("Content-Length: +1|", 400);
    check_fields("Transfer-Encoding: chunked|Transfer-Encoding: chunked|", 400);
    check_fields("Transfer-Encoding: chunked|Transfer-Encoding: identity|", 400);
    check_fields("Transfer-Encoding: chunked, identity|", 400);
    check_fields("Transfer-Encoding:|", 400);
    check_fields("Transfer-Encoding: gzip, chunked|", 501);
    check("POST / HTTP/1.0|Transfer-Encoding: chunked||", 400);
    check("POST / HTTP/1.0|Transfer-Encoding: gzip, chunked||", 400);
}

#[test]
fn connection_options_decide_persistence_and_cannot_name_framing() {
    let persists =
        |line: &str, fields: &str| head(&format!("{line}\r\nHost: a\r\n{fields}\r\n")).is_persistent();
    assert!(persists("GET / HTTP/1.1", ""));
    assert!(!persists("GET / HTTP/1.1", "Connection: Close\r\n"));
    assert!(!persists("GET / HTTP/1.0", ""));
    assert!(persists("GET / HTTP/1.0", "Connection: keep-alive\r\n"));
    for option in ["content-length", "close, transfer-encoding", "Host", "a b"] {
        check(&format!("GET / HTTP/1.1|Host: a|Connection: {option}||"), 400);
    }
}

#[test]
fn fields_that_connection_names_are_hop_by_hop() {
    let head = head("GET / HTTP/1.1\r\nHost: a\r\nConnection: x-a, close\r\nConnection: X-B\r\n\r\n");
    assert!(head.is_hop_by_hop("X-A") && head.is_hop_by_hop("x-b") && head.is_hop_by_hop("te"));
    assert!(!head.is_hop_by_hop("x-c") && !head.is_hop_by_hop("host"));
}

#[test]
fn only_100_continue_can_be_expected_and_not_in_http10() {
    let expects = |version: &str, fields: &str| {
        head(&format!("PUT / HTTP/{version}\r\nHost: a\r\n{fields}\r\n")).expects_continue()
    };
    assert!(expects("1.1", "Expect: 100-Continue\r\nContent-Length: 1\r\n"));
    assert!(expects("1.1", "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n"));
    assert!(!expects("1.1", "Expect: 100-continue\r\n"));
    assert!(!expects("1.0", "Expect: 100-continue\r\nContent-Length: 1\r\n"));
    assert!(!expects("1.0", "Expect: tea\r\n"));
    for list in ["100-continue, 100-Continue", ",100-continue ,, ", "100-continue\r\nExpect: 100-continue"] {
        assert!(expects("1.1", &format!("Expect: {list}\r\nContent-Length: 1\r\n")), "{list}");
    }
    check("PUT / HTTP/1.1|Host: a|Expect: 100-continue;q=1||", 417);
    check("PUT / HTTP/1.1|Host: a|Expect: tea||", 417);
    check("PUT / HTTP/1.1|Host: a|Expect: tea|Expect: 100-continue||", 417);
    check("PUT / HTTP/1.1|Host: a|Expect: 100-continue, tea||", 417);
}

#[test]
fn an_empty_expect_expects_nothing() {
    for value in ["", " ", ",", ", ,"] {
        let head = head(&format!("PUT / HTTP/1.1\r\nHost: a\r\nExpect:{value}\r\nContent-Length: 1\r\n\r\n"));
        assert!(!head.expects_continue(), "{value:?}");
    }
    check("PUT / HTTP/1.1|Host: a|Expect:|Expect: tea||", 417);
}

#[test]
fn upgrade_is_ignored_unless_there_is_a_body() {
    check("GET / HTTP/1.1|Host: a|Connection: upgrade|Upgrade: websocket||", 200);
    check("POST / HTTP/1.1|Host: a|Upgrade: websocket|Content-Length: 0||", 200);
    check("POST / HTTP/1.1|Host: a|Upgrade: websocket|Content-Length: 1||", 400);
    check("POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|Upgrade: websocket||", 400);
    check("POST / HTTP/1.1|Host: a|Upgrade: h2c, websocket|Content-Length: 1||", 400);
    check("POST / HTTP/1.1|Host: a|Upgrade: websocket|Upgrade: h2c|Content-Length: 1||", 400);
    check("POST / HTTP/1.1|Host: a|Upgrade: h2c/1|Content-Length: 1||", 400);
    check("POST / HTTP/1.0|Upgrade: websocket|Content-Length: 1||", 200);
}

#[test]
fn an_offer_of_http_2_is_ignored_with_a_body_too() {
    let offer = "Connection: Upgrade, HTTP2-Settings|HTTP2-Settings: AAEAAEAA|Upgrade";
    check(&format!("POST / HTTP/1.1|Host: a|{offer}: h2c|Content-Length: 1||"), 200);
    check(&format!("POST / HTTP/1.1|Host: a|{offer}: H2C|Transfer-Encoding: chunked||"), 200);
    check(&format!("POST / HTTP/1.1|Host: a|{offer}: , h2c|Content-Length: 1||"), 200);
}

#[test]
fn targets_have_a_limit_that_holds_before_the_line_is_complete() {
    let limit = Limits::default().target_bytes_max;
    check(&format!("GET /{} HTTP/1.1|Host: a||", "a".repeat(limit - 1)), 200);
    check(&format!("GET /{} HTTP/1.1|Host: a||", "a".repeat(limit)), 414);
    check_bytes(format!("GET /{}", "a".repeat(limit + 100)).as_bytes(), 414);
    check_bytes(&vec![b'A'; limit + 100], 501);
    check_bytes(format!("{} /", "A".repeat(limit + 100)).as_bytes(), 501);
    check_bytes(&vec![b':'; limit + 100], 400);
    check_bytes(format!("GET {}", "a".repeat(limit + 100)).as_bytes(), 414);
    check_bytes(format!("\r\nGET {}", " ".repeat(limit + 100)).as_bytes(), 414);
}

#[test]
fn heads_have_a_limit_that_holds_before_they_are_complete() {
    let limit = Limits::default().head_bytes_max;
    let start = "GET / HTTP/1.1|Host: a|b: ";
    let room = limit - start.replace('|', "\r\n").len() - 4;
    check(&format!("{start}{}||", "c".repeat(room)), 200);
    check(&format!("{start}{}||", "c".repeat(room + 1)), 431);
    check(&format!("{start}{}", "c".repeat(limit)), 431);
}

#[test]
fn field_lines_are_counted() {
    let mut input = "GET / HTTP/1.1|Host: a|".to_string();
    (1..Limits::default().fields_max).for_each(|index| _ = write!(input, "a{index}:|"));
    check(&format!("{input}|"), 200);
    check(&format!("{input}b:|"), 431);
}

#[test]
fn debug_text_holds_no_field_values() {
    let head = head("GET /a HTTP/1.1\r\nHost: a\r\nCookie: secret\r\n\r\n");
    assert!(!format!("{head:?}").contains("secret"));
}

#[test]
fn utf8_in_a_target_is_percent_encoded_and_other_bytes_are_refused() {
    let read = |target: &[u8]| {
        let input = [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\nX: \xff\r\n\r\nGET"].concat();
        let mut buffer = BytesMut::from(&input[..]);
        let head = HeadReader::default().read(&mut buffer, &Limits::default()).unwrap().unwrap();
        assert_eq!((&buffer[..], head.field("x")), (&b"GET"[..], Some(&b"\xff"[..])));
        assert_eq!(head.bytes_len() + buffer.len(), input.len());
        (head.path().to_owned(), head.query().map(ToOwned::to_owned))
    };
    let encoded = ("/caf%C3%A9".to_owned(), Some("name=Zo%C3%AB&e=%F0%9F%98%80".to_owned()));
    assert_eq!(read("/caf\u{e9}?name=Zo\u{eb}&e=\u{1f600}".as_bytes()), encoded);
    assert_eq!(read("http://a/\u{fc}".as_bytes()), ("/%C3%BC".to_owned(), None));
    check("GET /\u{fc}?\u{fc}=1 HTTP/1.1|Host: a||", 200);
    for bytes in [&b"\xeb"[..], b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xc3\xa9\xff"] {
        check_bytes(&[b"GET /", bytes, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat(), 400);
        check_bytes(&[b"GET /?a=", bytes, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat(), 400);
    }
    // Only a target may have UTF-8: not a method, a version, or a host.
    check("G\u{cb}T / HTTP/1.1|Host: a||", 400);
    check("GET http://zo\u{eb}.example/ HTTP/1.1|Host: a||", 400);
}

#[test]
fn the_limit_of_a_target_counts_its_encoded_form() {
    let limits = Limits { target_bytes_max: 10, ..Limits::default() };
    let status = |target: &str| {
        let input = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        read(input.as_bytes(), &limits).map_or_else(|error| error.status().as_u16(), |_| 200)
    };
    assert_eq!((status("/a\u{fc}b"), status("/\u{fc}\u{fc}")), (200, 414));
}

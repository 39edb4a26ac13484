//! Tests of the end of a body, and of requests that are refused because their end is ambiguous (RFC 9112
//! sections 6, 7).

use std::fmt::Write;

use crate::site::{NEXT, Running, Site};

fn echo() -> Running {
    Site::new().handler("/*", "return req.method .. ' ' .. req:body()").start()
}

fn post(fields: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}")
}

fn chunked(body: &str) -> String {
    post("Transfer-Encoding: chunked", body)
}

/// Checks that a request is refused, and that the following bytes are not read as a request.
fn check_refused(server: &Running, request: &str, status: u16) {
    server.check_refused([request.as_bytes(), NEXT].concat(), status);
}

#[test]
fn content_length_is_digits_and_stands_once() {
    let server = echo();
    for bad in [
        "",
        "+5",
        "-5",
        "-0",
        "0x5",
        "5 5",
        "5,5",
        "5, 5",
        ",5",
        "5,",
        "5;",
        "5.0",
        "5e0",
        "1_0",
        "five",
        "\"5\"",
        "00000000000000000005",
        "18446744073709551616",
        "99999999999999999999",
        "\u{665}",
        "5\x0b",
    ] {
        check_refused(&server, &post(&format!("Content-Length: {bad}"), "hello"), 400);
    }
    for (first, second) in [("5", "5"), ("5", "0"), ("0", "5"), ("5", "")] {
        let fields = format!("Content-Length: {first}\r\ncontent-length: {second}");
        check_refused(&server, &post(&fields, "hello"), 400);
    }
    server.check(&post("Content-Length: 0000000000000000005", "hello"), "200", "POST hello");
    server.check(&post("cOnTeNt-LeNgTh:\t5 ", "hello"), "200", "POST hello");
}

#[test]
fn both_lengths_together_are_refused_in_any_order_and_version() {
    let server = echo();
    let (length, coding) = ("Content-Length: 5", "Transfer-Encoding: chunked");
    for fields in [
        format!("{length}\r\n{coding}"),
        format!("{coding}\r\n{length}"),
        format!("Content-Length: 0\r\n{coding}"),
        format!("{length}\r\nTransfer-Encoding: identity"),
        format!("{length}\r\nTransfer-Encoding:"),
        format!("{length}\r\nTransfer-Encoding: x"),
    ] {
        check_refused(&server, &post(&fields, "0\r\n\r\n"), 400);
        let old = post(&fields, "0\r\n\r\n").replace("HTTP/1.1", "HTTP/1.0");
        check_refused(&server, &old, 400);
    }
}

#[test]
fn only_chunked_alone_is_a_transfer_coding_here() {
    let server = echo();
    let body = "5\r\nhello\r\n0\r\n\r\n";
    for good in ["chunked", "Chunked", "CHUNKED", "\tchunked "] {
        server.check(&post(&format!("Transfer-Encoding:{good}"), body), "200", "POST hello");
    }
    for bad in [
        "",
        "identity",
        "gzip",
        "chunked, identity",
        "identity, chunked",
        "chunked, chunked",
        "chunked,",
        ",chunked",
        "chunked, gzip",
        "chunked;q=1",
        "chunked ;",
        "\"chunked\"",
        "'chunked'",
        "xchunked",
        "chunkedx",
        "chunk",
        "chun ked",
        "chunked\x0b",
        "\x0cchunked",
        "chunked\0",
        "\u{a0}chunked",
        "x chunked",
        "[chunked]",
    ] {
        check_refused(&server, &post(&format!("Transfer-Encoding: {bad}"), body), 400);
    }
    for unsupported in ["gzip, chunked", "deflate,chunked", "x-custom, Chunked"] {
        check_refused(&server, &post(&format!("Transfer-Encoding: {unsupported}"), body), 501);
    }
    for second in ["chunked", "identity", "x", ""] {
        let fields = format!("Transfer-Encoding: chunked\r\nTransfer-Encoding: {second}");
        check_refused(&server, &post(&fields, body), 400);
    }
    for hidden in [
        "Transfer-Encoding : chunked",
        "X: y\r\n Transfer-Encoding: chunked",
        "Transfer-Encoding\r\n: chunked",
    ] {
        check_refused(&server, &post(hidden, body), 400);
    }
    let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n";
    check_refused(&server, old, 400);
}

#[test]
fn a_request_without_a_length_has_no_body_whatever_its_method() {
    let server = echo();
    for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
        let mut peer = server.connect();
        peer.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n"));
        peer.expect("200", &format!("{method} "));
        peer.expect("200", "GET ");
    }
}

#[test]
fn a_body_is_read_by_its_framing_whatever_the_method() {
    let server = echo();
    for method in ["GET", "DELETE", "PATCH", "PUT", "OPTIONS", "HEAD"] {
        for (fields, body) in [
            ("Content-Length: 35", "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("Transfer-Encoding: chunked", "23\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\n"),
        ] {
            let mut peer = server.connect();
            peer.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}"));
            peer.send("PUT / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(peer.reply(method == "HEAD").status < 300, "{method} {fields}");
            peer.expect("200", "PUT ");
        }
    }
}

#[test]
fn a_chunk_size_is_one_to_sixteen_hexadecimal_digits() {
    let server = echo();
    for (size, content) in
        [("5", "hello"), ("0000000000000005", "hello"), ("a", "0123456789"), ("A", "0123456789")]
    {
        let body = format!("{size}\r\n{content}\r\n000\r\n\r\n");
        server.check(&chunked(&body), "200", &format!("POST {content}"));
    }
    for bad in [
        "",
        "00000000000000005",
        "0x5",
        "+5",
        "-5",
        " 5",
        "5 ",
        "\t5",
        "5\t",
        "5 ;a",
        "5h",
        "5.",
        "5_",
        "5,",
        "\u{665}",
        "5\0",
        "5\x0b",
        "5\r",
        "5\n",
    ] {
        check_refused(&server, &chunked(&format!("{bad}\r\nhello\r\n0\r\n\r\n")), 400);
    }
    for huge in ["ffffffffffffffff", "8000000000000000", "100001"] {
        check_refused(&server, &chunked(&format!("{huge}\r\nhello")), 413);
    }
}

#[test]
fn chunk_data_is_followed_by_cr_lf_and_lines_end_in_cr_lf() {
    let server = echo();
    for bad in [
        "5\r\nhello!\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "5\r\nhello\r\r\n0\r\n\r\n",
        "5\r\nhello\n\r\n0\r\n\r\n",
        "5\r\nhello\r\n\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5\r\nhello\r\n0\r\n\rX",
        "6\r\nhello\r\n0\r\n\r\n",
    ] {
        check_refused(&server, &chunked(bad), 400);
    }
}

#[test]
fn chunk_extensions_are_read_by_their_grammar_and_thrown_away() {
    let server = echo();
    for good in [";a", ";a=b", ";a=\"b;c\\\"\r\"", "; a = b", ";a;b;c=d", ";a=\"\""] {
        if !good.contains('\r') {
            server.check(&chunked(&format!("5{good}\r\nhello\r\n0{good}\r\n\r\n")), "200", "POST hello");
        }
    }
    for bad in [
        ";",
        ";;",
        ";=b",
        ";a=",
        ";a=\"b",
        ";a=b c",
        ";a\0",
        ";a\x01",
        ";a\x7f",
        ";a\n",
        ";a\rb",
        ";a=\"\n\"",
        ";a=\"\r\n\"",
        ";\u{e9}",
        ";a=\"b\"c",
    ] {
        check_refused(&server, &chunked(&format!("5{bad}\r\nhello\r\n0\r\n\r\n")), 400);
    }
}

#[test]
fn chunk_extensions_and_tiny_chunks_have_a_limit_over_the_whole_body() {
    let server = echo();
    let long = "x".repeat(1000);
    let mut body = String::new();
    for _ in 0..17 {
        write!(body, "1;{long}\r\ny\r\n").unwrap();
    }
    check_refused(&server, &chunked(&format!("{body}0\r\n\r\n")), 400);
    check_refused(&server, &chunked(&format!("{}0\r\n\r\n", "1\r\ny\r\n".repeat(20_000))), 400);
}

#[test]
fn trailers_are_checked_and_never_become_fields() {
    let server = Site::new().handler("/*", "return (req.headers.x or 'none') .. req:body()").start();
    let trailers = "x: y\r\nContent-Length: 99\r\nHost: b\r\nTransfer-Encoding: gzip";
    let mut peer = server.connect();
    peer.send(chunked(&format!("5\r\nhello\r\n0\r\n{trailers}\r\n\r\n")));
    peer.send(chunked("0\r\n\r\n"));
    peer.expect("200", "nonehello");
    peer.expect("200", "none");
    for bad in ["x", ": y", "x : y", " x: y", "x: y\r\n z", "x_y: z", "x: \0", "x: y\n", "x: y\rz", "x\0: y"]
    {
        check_refused(&server, &chunked(&format!("0\r\n{bad}\r\n\r\n")), 400);
    }
    check_refused(&server, &chunked(&format!("0\r\nx: {}\r\n\r\n", "y".repeat(9_000))), 431);
}

#[test]
fn a_body_that_ends_early_is_400_and_no_request() {
    let server = echo();
    for request in [
        post("Content-Length: 6", "hello"),
        chunked(""),
        chunked("5"),
        chunked("5\r\nhel"),
        chunked("5\r\nhello\r\n"),
        chunked("5\r\nhello\r\n0\r\n"),
        chunked("5\r\nhello\r\n0\r\nx: y\r\n"),
    ] {
        let mut peer = server.connect();
        peer.send(&request);
        peer.finish();
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("connection")), (400, Some("close")), "{request:?}");
        peer.expect_end();
    }
}

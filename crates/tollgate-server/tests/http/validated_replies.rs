//! Tests of replies that a route validates by a schema before they leave.

use std::sync::Mutex;

use tollgate_log::Level;
use tollgate_server::{HandlerSpec, ValidateMode};

use crate::backend::{FakeBackend, field};
use crate::peer::PATIENCE;
use crate::peer::Reply;
use crate::site::{Running, Site};
use crate::validating::{INVALID, MALFORMED, REPLIES, VALID, long_invalid, long_order};

const XML: &str = "Content-Type: application/xml\r\n";

/// Returns the reply of a backend with a content of known length.
fn sized(fields: &str, content: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{content}", content.len())
}

/// Returns the reply of a backend in chunks of 1000 bytes.
fn in_chunks(fields: &str, content: &str) -> String {
    let chunks = content.as_bytes().chunks(1000);
    let chunks = chunks.map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)));
    let chunks: String = chunks.collect();
    format!("HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
}

/// A backend that sends the replies of a list, one after another.
fn sending(replies: Vec<String>) -> FakeBackend {
    let replies = Mutex::new(replies.into_iter());
    FakeBackend::start(move |taken| {
        while taken.request().is_some() {
            let Some(reply) = replies.lock().unwrap().next() else { return };
            taken.send(reply);
        }
    })
}

fn proxied(backend: &FakeBackend, mode: ValidateMode) -> Running {
    let mut options = backend.options();
    // A reply whose wake-up is lost must not go on by the end of a timeout.
    (options.timeouts.first_byte, options.timeouts.idle) = (PATIENCE * 4, PATIENCE * 4);
    Site::new().proxy("/*", options, |_| ()).validate(REPLIES, mode).start()
}

fn get(server: &Running) -> Reply {
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nRange: bytes=0-1\r\n\r\n");
    peer.reply(false)
}

/// Returns what a client gets until its connection ends.
fn rest(server: &Running) -> String {
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    peer.rest_or_reset()
}

#[test]
fn a_backend_that_sends_an_invalid_reply_gives_502_before_a_byte_leaves() {
    let valid = [VALID.to_owned(), long_order(100 << 10), long_order(900 << 10)];
    let invalid =
        [INVALID.to_owned(), MALFORMED.to_owned(), long_invalid(100 << 10), long_invalid(900 << 10)];
    let both = |document: &String| [sized(XML, document), in_chunks(XML, document)];
    let backend = sending(valid.iter().chain(&invalid).flat_map(both).collect());
    let server = proxied(&backend, ValidateMode::Whole);
    for document in valid.iter().flat_map(|one| [one, one]) {
        let reply = get(&server);
        assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/xml")));
        assert!(reply.content == *document, "{} bytes", document.len());
        let request = backend.request();
        assert_eq!((field(&request, "accept-encoding"), field(&request, "range")), (Some("identity"), None));
    }
    for _ in 0..invalid.len() * 2 {
        let reply = get(&server);
        assert_eq!((reply.status, reply.content.as_str()), (502, "the backend sent no valid reply\n"));
    }
    assert_eq!(server.judged("reply"), "6 valid, 6 invalid, 2 malformed");
}

#[test]
fn replies_that_are_no_document_have_rules() {
    let coded = format!("{XML}Content-Encoding: gzip\r\n");
    let too_long = long_order(1 << 20);
    let refused = vec![
        sized("Content-Type: application/json\r\n", "{}"),
        sized("", VALID),
        sized(&coded, "x"),
        sized(XML, VALID).replace("200 OK", "206 Partial Content"),
        sized(XML, ""),
        sized(XML, &too_long),
        in_chunks(XML, &too_long),
    ];
    let passed = vec![
        sized("", ""),
        sized(XML, "no such order").replace("200 OK", "404 Not Found"),
        sized("Content-Type: text/html\r\n", "moved").replace("200 OK", "302 Found"),
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "HTTP/1.1 304 Not Modified\r\nContent-Type: text/xml\r\n\r\n".to_owned(),
    ];
    let backend = sending([refused.clone(), passed].concat());
    let server = proxied(&backend, ValidateMode::Whole);
    for reply in refused {
        assert_eq!(get(&server).status, 502, "{}", &reply[..reply.len().min(200)]);
    }
    for status in [200, 404, 302, 204, 304] {
        assert_eq!(get(&server).status, status);
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\n".to_owned();
    let backend = sending(vec![head]);
    let heads = proxied(&backend, ValidateMode::Whole);
    let mut peer = heads.connect();
    peer.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(peer.reply(true).status, 200);
    assert_eq!(server.judged("reply"), "1 malformed, 6 unread");
}

#[test]
fn a_reply_that_streams_is_cut_at_its_fault_and_never_looks_whole() {
    let valid = [long_order(100 << 10), long_order(3 << 20)];
    let invalid = [long_invalid(100 << 10), long_invalid(3 << 20)];
    let both = |document: &String| [sized(XML, document), in_chunks(XML, document)];
    let backend = sending(valid.iter().chain(&invalid).flat_map(both).chain([sized(XML, INVALID)]).collect());
    let server = proxied(&backend, ValidateMode::Stream);
    for document in &valid {
        assert!(rest(&server).ends_with(&format!("\r\n\r\n{document}")), "by length");
        let chunked = rest(&server);
        assert!(chunked.ends_with("\r\n0\r\n\r\n") && chunked.contains("</order>"), "by chunks");
    }
    for _ in &invalid {
        for _ in ["by length", "by chunks"] {
            let came = rest(&server);
            assert!(came.starts_with("HTTP/1.1 200 OK\r\n"), "{}", &came[..came.len().min(200)]);
            assert!(!came.contains("itme") && !came.contains("</order>") && !came.ends_with("0\r\n\r\n"));
        }
    }
    assert_eq!(get(&server).status, 502, "a reply that is whole already is judged before its head");
    assert_eq!(server.judged("reply"), "4 valid, 5 invalid");
}

/// Without chunks, only the end of the connection ends a reply to HTTP/1.0.
#[test]
fn a_reply_that_is_cut_for_http_1_0_ends_its_connection_by_a_reset() {
    let (valid, invalid) = (long_order(100 << 10), long_invalid(100 << 10));
    let both = |document: &String| [sized(XML, document), in_chunks(XML, document)];
    let backend = sending([&valid, &invalid].into_iter().flat_map(both).collect());
    let server = proxied(&backend, ValidateMode::Stream);
    let ask = || {
        let mut peer = server.connect();
        peer.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let head = peer.head();
        assert_eq!((head.status, head.field("transfer-encoding")), (200, None), "{head:?}");
        (peer, head)
    };
    let (mut peer, head) = ask();
    assert_eq!(head.field("content-length"), Some(valid.len().to_string().as_str()));
    peer.expect_bytes(valid.as_bytes());
    let (mut peer, head) = ask();
    assert_eq!((head.field("content-length"), head.field("connection")), (None, Some("close")));
    assert!(peer.rest() == valid, "the end of the connection ends a valid reply");
    let (mut peer, head) = ask();
    let length: usize = head.field("content-length").unwrap().parse().unwrap();
    let came = peer.rest_or_reset();
    assert!(came.len() < length && !came.contains("itme"), "{} of {length} bytes", came.len());
    let (mut peer, head) = ask();
    assert_eq!((head.field("content-length"), head.field("connection")), (None, Some("close")));
    peer.expect_reset();
    assert_eq!(server.judged("reply"), "2 valid, 2 invalid");
}

#[test]
fn report_changes_nothing_for_the_client() {
    let replies = [
        sized(XML, INVALID),
        sized(XML, &long_invalid(2 << 20)),
        in_chunks(XML, &long_invalid(2 << 20)),
        sized("Content-Type: text/plain\r\n", "hello"),
        sized(XML, VALID),
    ];
    let backend = sending(replies.to_vec());
    let server = proxied(&backend, ValidateMode::Report);
    let whole = |reply: &str| reply.split_once("\r\n\r\n").unwrap().1.to_owned();
    for reply in &replies {
        let came = rest(&server);
        assert!(came.ends_with(&whole(reply)) || came.ends_with("</order>\r\n0\r\n\r\n"), "{reply:.100}");
    }
    let request = backend.request();
    assert_eq!(field(&request, "accept-encoding"), None, "the fields of the client go on: {request}");
    assert_eq!(server.judged("reply"), "1 valid, 3 invalid, 1 unread");
}

fn scripted(body: &str, mode: ValidateMode) -> Running {
    Site::new().handler("/*", body).validate(REPLIES, mode).start()
}

fn returning(document: &str) -> String {
    format!("return {{ headers = {{ [\"content-type\"] = \"text/xml\" }}, body = [[{document}]] }}")
}

#[test]
fn a_script_with_an_invalid_reply_gives_500() {
    for mode in [ValidateMode::Whole, ValidateMode::Stream] {
        let server = scripted(&returning(VALID), mode);
        assert_eq!((get(&server).status, get(&server).content.as_str()), (200, VALID));
        let long = long_order(2 << 20);
        let server = scripted(&returning(&long), mode);
        assert!(get(&server).content == long, "a reply that is whole has no bound");
        for document in [INVALID.to_owned(), MALFORMED.to_owned(), long_invalid(2 << 20)] {
            let server = scripted(&returning(&document), mode);
            let reply = get(&server);
            assert_eq!((reply.status, reply.content.as_str()), (500, "the reply is not valid\n"));
        }
    }
    let server = scripted("return 'text'", ValidateMode::Whole);
    assert_eq!(get(&server).status, 500, "a text is no XML");
    let server = scripted("return { status = 404, body = 'text' }", ValidateMode::Whole);
    assert_eq!(get(&server).status, 404);
    let server = scripted("error('x')", ValidateMode::Whole);
    assert_eq!(get(&server).content, "the script failed\n");
}

fn streaming(parts: &str) -> String {
    format!(
        "return {{ headers = {{ [\"content-type\"] = \"text/xml\" }}, write = function(out)\n{parts}\nend }}"
    )
}

#[test]
fn content_that_a_script_streams_is_held_or_cut() {
    let item = "<item sku=\\\"a\\\">1</item>";
    let parts = |last: &str, sleep: &str| {
        streaming(&format!(
            "out:write(\"<order id='1'>\")
             for i = 1, 2000 do out:write(\"{item}\") {sleep} end
             out:write(\"{last}</order>\")"
        ))
    };
    for sleep in ["", "if i % 500 == 0 then tollgate.sleep(0.001) end"] {
        let server = scripted(&parts("", sleep), ValidateMode::Whole);
        let reply = get(&server);
        assert!(
            reply.status == 200
                && reply.field("content-length").is_some()
                && reply.content.ends_with("</order>")
        );
        assert_eq!(get(&scripted(&parts("<x/>", sleep), ValidateMode::Whole)).status, 500);
        let server = scripted(&parts("", sleep), ValidateMode::Stream);
        assert!(rest(&server).ends_with("\r\n0\r\n\r\n"));
        let came = rest(&scripted(&parts("<x/>", sleep), ValidateMode::Stream));
        assert!(
            came.starts_with("HTTP/1.1 200") && !came.contains("</order>") && !came.ends_with("0\r\n\r\n")
        );
    }
    let failing = streaming("out:write(\"<order id='1'>\") error('x')");
    assert_eq!(get(&scripted(&failing, ValidateMode::Whole)).content, "the script failed\n");
    let endless = streaming("while true do out:write(string.rep(' ', 10000)) end");
    assert_eq!(get(&scripted(&endless, ValidateMode::Whole)).status, 500, "held up to a bound");
}

#[test]
fn a_fixed_reply_is_judged_too() {
    let fixed = |body: &'static str| {
        let handler = HandlerSpec::Reply {
            status: 200,
            content_type: "text/xml".to_owned(),
            body: body.as_bytes().into(),
        };
        Site::new().route("/*", handler, None).validate(REPLIES, ValidateMode::Whole).start()
    };
    fixed(VALID).check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200", VALID);
    fixed(INVALID).check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "500", "the reply is not valid\n");
}

#[test]
fn the_record_of_a_refused_reply_says_that_it_is_invalid() {
    let columns = ["status int reply.status", "outcome text reply.outcome", "n int record.n"];
    let script = format!(
        "return function(req)
             local body = if req.query.bad then [[{INVALID}]] else [[{VALID}]]
             local n = if req.query.bad then 1 else 2
             return {{ headers = {{ [\"content-type\"] = \"text/xml\" }}, body = body, record = {{ n = n }} }}
         end"
    );
    let server = Site::new()
        .stream("s", Level::Synced, &columns)
        .script("/*", &script)
        .validate(REPLIES, ValidateMode::Whole)
        .start();
    server.check("GET /?bad=1 HTTP/1.1\r\nHost: a\r\n\r\n", "500", "the reply is not valid\n");
    server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200", VALID);
    assert_eq!(server.records(), ["status=500 outcome=invalid n=null", "status=200 outcome=complete n=2"]);
}

#[test]
fn replies_keep_their_order_while_one_is_judged() {
    let server = Site::new()
        .handler("/*", &returning(&long_order(600 << 10)))
        .validate(REPLIES, ValidateMode::Whole)
        .fixed("/turn", "turn")
        .start();
    let mut peer = server.connect();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.send([get("/"), get("/turn"), get("/"), get("/turn")].concat());
    for index in 0..4 {
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.content == "turn"), (200, index % 2 == 1), "{index}");
    }
}

//! Tests of requests that a route validates by a schema before its handler runs.

use std::fs;

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use tollgate_log::Level;
use tollgate_server::{CollectSpec, MediaTypes, ValidateMode, XmlItems};

use crate::backend::FakeBackend;
use crate::peer::{Peer, Reply};
use crate::site::{Running, Site};
use crate::spool::wait_for_files;
use crate::validating::{
    INVALID, MALFORMED, ORDER, REQUESTS, VALID, chunked, long_invalid, long_order, post, post_with, spec,
};

const ECHO: &str = "return { body = 'got ' .. #(req:body()) }";

fn site() -> Site {
    Site::new().handler("/*", ECHO).validate(REQUESTS, ValidateMode::Whole).tune(|options| {
        options.connection.body_memory_max = 16 << 10;
        options.routes[0].body_bytes_max = 64 << 20;
    })
}

fn ask(peer: &mut Peer, request: impl AsRef<[u8]>) -> Reply {
    peer.send(request);
    peer.reply(false)
}

fn one(server: &Running, request: impl AsRef<[u8]>) -> Reply {
    ask(&mut server.connect(), request)
}

#[test]
fn a_valid_request_reaches_its_handler_and_a_fault_gets_a_problem_with_its_place() {
    let server = site().start();
    server.check(&post(VALID), "200", &format!("got {}", VALID.len()));
    let reply = one(&server, post(INVALID));
    assert_eq!((reply.status, reply.field("content-type")), (422, Some("application/problem+xml")));
    let detail = "element \"itme\" is not allowed in \"/order\"; expected \"item\" or the end of \"order\"";
    assert_eq!(
        reply.content,
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<problem xmlns=\"urn:ietf:rfc:7807\">\
             <title>Unprocessable Content</title><status>422</status><detail>{detail}</detail>\
             <path>/order</path><line>2</line><column>2</column><byte>41</byte></problem>\n"
        )
    );
    let reply = one(&server, post(MALFORMED));
    assert!(reply.status == 400 && reply.content.contains("<title>Bad Request</title>"), "{reply:?}");
    assert_eq!(server.judged("request"), "1 valid, 1 invalid, 1 malformed");
    assert_eq!(server.refused_as("document"), 2);
}

#[test]
fn the_client_chooses_the_form_of_a_problem() {
    let server = site().start();
    let form = |accept: &str| {
        let accept = if accept.is_empty() { String::new() } else { format!("Accept: {accept}\r\n") };
        let reply = one(&server, post_with(&format!("Content-Type: text/xml\r\n{accept}"), INVALID));
        (reply.field("content-type").unwrap().to_owned(), reply.content)
    };
    for accept in
        ["", "*/*", "application/xml", "text/html", "application/problem+xml, application/json;q=0.5"]
    {
        assert_eq!(form(accept).0, "application/problem+xml", "{accept}");
    }
    for accept in ["application/problem+json", "application/json", "application/json, */*;q=0.1"] {
        let (kind, content) = form(accept);
        assert_eq!(kind, "application/problem+json", "{accept}");
        let problem: serde_json::Value = serde_json::from_str(&content).unwrap();
        assert_eq!(problem["status"], 422);
        assert_eq!(
            (&problem["line"], &problem["column"], &problem["byte"]),
            (&2.into(), &2.into(), &41.into())
        );
        assert_eq!(problem["path"], "/order");
    }
}

#[test]
fn other_content_types_get_415_and_requests_without_content_pass() {
    let server = site().start();
    for fields in
        ["Content-Type: application/json\r\n", "", "Content-Type: text/xml\r\nContent-Type: text/xml\r\n"]
    {
        let reply = one(&server, post_with(fields, VALID));
        assert_eq!(reply.status, 415, "{fields}");
        assert_eq!(reply.field("accept"), Some("application/xml, text/xml"));
    }
    server.check(&post_with("Content-Type: application/soap+xml; charset=utf-8\r\n", VALID), "200", "got 46");
    server.check("GET /orders HTTP/1.1\r\nHost: a\r\n\r\n", "200", "got 0");
    let reply = one(&server, post(""));
    assert_eq!(reply.status, 400, "a POST without content has no document: {reply:?}");
    assert_eq!(one(&server, "PUT /orders HTTP/1.1\r\nHost: a\r\n\r\n").status, 400);
    assert_eq!(one(&server, post_with("", "")).status, 400);
}

#[test]
fn the_verdict_is_the_same_at_each_split_of_the_body() {
    let server = site().start();
    let mut peer = server.connect();
    let whole = ask(&mut peer, post(INVALID)).content;
    for document in [VALID, INVALID] {
        let request = post(document);
        let start = request.len() - document.len();
        for split in start..=request.len() {
            peer.send(&request[..split]);
            peer.send(&request[split..]);
            let reply = peer.reply(false);
            match document {
                VALID => assert_eq!((reply.status, reply.content.as_str()), (200, "got 46"), "{split}"),
                _ => assert_eq!((reply.status, &reply.content), (422, &whole), "{split}"),
            }
        }
        for bytes in [1, 2, 7, 1000] {
            let status = ask(&mut peer, chunked(document, bytes)).status;
            assert_eq!(status, if document == VALID { 200 } else { 422 }, "{bytes}");
        }
    }
}

#[test]
fn a_connection_goes_on_after_a_refusal_and_pipelined_requests_keep_their_order() {
    let server = site().start();
    let mut peer = server.connect();
    for _ in 0..3 {
        let many =
            [INVALID, VALID, MALFORMED, VALID].map(post).concat() + &chunked(INVALID, 5) + &post(VALID);
        peer.send(many);
        for status in [422, 200, 400, 200, 422, 200] {
            assert_eq!(peer.reply(false).status, status);
        }
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_long_body_is_spooled_while_it_is_judged() {
    let server = site().start();
    let mut peer = server.connect();
    for bytes in [20 << 10, 300 << 10, 5 << 20] {
        let order = long_order(bytes);
        peer.send(post(&order));
        peer.expect("200", &format!("got {}", order.len()));
        peer.send(chunked(&order, 50_000));
        peer.expect("200", &format!("got {}", order.len()));
        let reply = ask(&mut peer, post(&long_invalid(bytes)));
        assert!(reply.status == 422 && reply.content.contains("itme"), "{reply:?}");
    }
    wait_for_files(&server, 0);
}

#[test]
fn the_rest_of_a_long_body_with_a_fault_is_not_read() {
    let server = site().start();
    let mut peer = server.connect();
    let order = INVALID.to_owned() + &" ".repeat(1 << 20);
    let head = format!(
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n",
        order.len()
    );
    peer.send(head + &order[..1000]);
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("connection")), (422, Some("close")));
    drop(peer);
    let mut peer = server.connect();
    peer.send(
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    peer.send(format!("{:x}\r\n{INVALID}\r\n", INVALID.len()));
    peer.send(format!("{:x}\r\n{}\r\n", 200 << 10, " ".repeat(200 << 10)));
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("connection")), (422, Some("close")));
}

#[test]
fn coded_content_is_decoded_for_a_script_and_refused_for_a_backend() {
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let server =
        site().proxy("/backend", backend.options(), |_| ()).validate(REQUESTS, ValidateMode::Whole).start();
    let coded = |path: &str, document: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(document.as_bytes()).unwrap();
        let content = encoder.finish().unwrap();
        let fields = "Content-Type: text/xml\r\nContent-Encoding: gzip";
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\nContent-Length: {}\r\n\r\n",
            content.len()
        );
        [head.as_bytes(), &content].concat()
    };
    assert_eq!(one(&server, coded("/orders", VALID)).content, "got 46");
    assert_eq!(one(&server, coded("/orders", &long_order(1 << 20))).status, 200);
    for bytes in [1, 100 << 10, 1 << 20] {
        assert_eq!(one(&server, coded("/orders", &long_invalid(bytes))).status, 422);
    }
    let reply = one(&server, coded("/backend", VALID));
    assert_eq!((reply.status, reply.field("accept-encoding")), (415, Some("identity")));
}

#[test]
fn a_backend_gets_only_valid_requests_in_whole_mode() {
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let server = Site::new()
        .tune(|options| options.connection.body_memory_max = 16 << 10)
        .proxy("/*", backend.options(), |_| ())
        .tune_route(|route| route.body_bytes_max = 1 << 30)
        .validate(REQUESTS, ValidateMode::Whole)
        .start();
    let mut peer = server.connect();
    for bytes in [1, 1 << 20] {
        let order = long_order(bytes);
        assert_eq!(ask(&mut peer, post(&long_invalid(bytes))).status, 422);
        assert_eq!(ask(&mut peer, chunked(&long_invalid(bytes), 5000)).status, 422);
        peer.send(post(&order));
        peer.expect("200", "hello");
        assert!(backend.request().ends_with(&format!("\r\n\r\n{order}")));
    }
    assert_eq!(server.judged("request"), "2 valid, 4 invalid");
}

#[test]
fn fixed_replies_and_collected_items_need_a_valid_request_too() {
    let namespaces = Vec::new();
    let xml = Some(XmlItems { each: "/order/item".to_owned(), namespaces });
    let collect = CollectSpec { types: MediaTypes::xml(), xml, ..CollectSpec::default() };
    let server = Site::new()
        .stream("items", Level::Synced, &["sku text xml:@sku"])
        .tune(|options| options.streams[0].columns[0].coerce = true)
        .fixed("/fixed", "taken")
        .validate(REQUESTS, ValidateMode::Whole)
        .collect_with("/orders", collect)
        .validate(REQUESTS, ValidateMode::Whole)
        .start();
    let fixed = |document: &str| post(document).replace("/orders", "/fixed");
    let post_to_fixed = fixed(VALID);
    // A fixed reply takes GET only, unless its methods are named.
    assert_eq!(one(&server, post_to_fixed).status, 405);
    server.check("GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n", "200", "taken");
    server.check(&post(VALID), "200", "{\"recorded\":1}\n");
    assert_eq!(one(&server, post(INVALID)).status, 422);
    assert_eq!(one(&server, post(MALFORMED)).status, 400);
    assert_eq!(server.records(), ["sku=a"]);
}

#[test]
fn a_refused_request_is_recorded_only_if_the_stream_records_refusals() {
    for records in [false, true] {
        let server = Site::new()
            .stream("s", Level::Synced, &["status int reply.status", "bytes int request.body_bytes"])
            .handler("/*", ECHO)
            .tune_route(|route| route.refused = records)
            .validate(REQUESTS, ValidateMode::Whole)
            .start();
        let mut peer = server.connect();
        for (document, status) in [(INVALID, 422), (MALFORMED, 400), (VALID, 200)] {
            assert_eq!(ask(&mut peer, post(document)).status, status);
        }
        let expect = match records {
            true => vec!["status=422 bytes=0", "status=400 bytes=0", "status=200 bytes=46"],
            false => vec!["status=200 bytes=46"],
        };
        drop(peer);
        assert_eq!(server.records(), expect);
    }
}

#[test]
fn report_counts_and_changes_nothing_for_the_client() {
    let backend = FakeBackend::replying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let server = site()
        .validate(REQUESTS, ValidateMode::Report)
        .proxy("/backend", backend.options(), |_| ())
        .tune_route(|route| route.body_bytes_max = 1 << 30)
        .validate(REQUESTS, ValidateMode::Report)
        .start();
    for document in [VALID, INVALID, MALFORMED] {
        server.check(&post(document), "200", &format!("got {}", document.len()));
    }
    server.check(&post_with("Content-Type: text/plain\r\n", VALID), "200", "got 46");
    assert_eq!(server.judged("request"), "1 valid, 1 invalid, 1 malformed, 1 unread");
    let long = long_invalid(1 << 20);
    let request = post(&long).replace("/orders", "/backend");
    server.check(&request, "200", "hello");
    assert!(backend.request().ends_with(&long));
    assert_eq!(server.judged("request"), "1 valid, 1 invalid, 1 malformed, 1 unread, 1 invalid");
}

#[test]
fn a_reload_changes_the_schema_of_later_requests() {
    let site = site();
    let mut options = site.options.clone();
    let server = site.start();
    let mut peer = server.connect();
    assert_eq!(ask(&mut peer, post(VALID)).status, 200);
    let other = ORDER.replace("item+", "item+, total").to_owned() + "total = element total { xsd:decimal }";
    options.routes[0].validate = Some(spec(&other, REQUESTS, ValidateMode::Whole));
    options.version = 2;
    server.reload(options);
    let with_total = VALID.replace("</order>", "<total>1</total></order>");
    crate::asking::until_status(422, || ask(&mut peer, post(VALID)));
    assert_eq!(ask(&mut peer, post(&with_total)).status, 200);
}

#[test]
fn a_request_that_a_route_passes_on_is_judged_by_the_next_route() {
    let server = Site::new()
        .tune(|options| options.connection.body_memory_max = 16 << 10)
        .handler("/*", ECHO)
        .tune_route(|route| route.body_bytes_max = 64 << 20)
        .validate(REQUESTS, ValidateMode::Whole)
        .handler("/orders", "return tollgate.pass")
        .tune_route(|route| route.body_bytes_max = 64 << 20)
        .start();
    let mut peer = server.connect();
    for bytes in [1, 100 << 10] {
        assert_eq!(ask(&mut peer, post(&long_order(bytes))).status, 200);
        assert_eq!(ask(&mut peer, post(&long_invalid(bytes))).status, 422);
    }
}

#[test]
fn an_unsigned_request_does_not_learn_the_faults_of_its_content() {
    let server = crate::verified::verified(site()).start();
    for document in [VALID.to_owned(), INVALID.to_owned(), long_invalid(1 << 20)] {
        assert_eq!(one(&server, post(&document)).status, 401);
    }
    let signed = |document: &str| {
        let signature = crate::verified::signature("new secret", document.as_bytes());
        one(&server, post_with(&format!("Content-Type: text/xml\r\n{signature}"), document)).status
    };
    assert_eq!(signed(VALID), 200);
    assert_eq!(signed(INVALID), 422);
    assert_eq!(signed(&long_invalid(300 << 10)), 422);
    assert!(fs::exists(server.folder()).unwrap());
}

#[test]
fn a_hostile_document_ends_at_the_limit_of_work() {
    let any = "(a | b)";
    let tail = vec![any; 300].join(", ");
    let schema = format!(
        "start = element r {{ {any}*, b, {tail} }}\na = element a {{ empty }}\nb = element b {{ empty }}"
    );
    let server = site()
        .tune_route(|route| route.validate = Some(spec(&schema, REQUESTS, ValidateMode::Whole)))
        .fixed("/turn", "turn")
        .start();
    let mut random = 1_u64;
    let mut document = "<r>".to_owned();
    while document.len() < 200 << 10 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        document.push_str(if random >> 63 == 1 { "<a/>" } else { "<b/>" });
    }
    let reply = one(&server, post(&(document + "</r>")));
    assert!(reply.status == 422 && reply.content.contains("too much work"), "{reply:?}");
    assert_eq!(server.judged("request"), "1 limit");
}

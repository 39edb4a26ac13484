//! Tests of routes that choose a backend or a fixed reply by the head and by the first bytes of the content.

use tollgate_log::Level;
use tollgate_server::{
    ChosenHandler, ConditionSpec, Doctype, FieldPath, HandlerSpec, ProxySpec, RuleSpec, ValueTest, WhenSpec,
    XmlPaths,
};

use crate::backend::{FakeBackend, field};
use crate::site::Site;
use crate::streams::key;

const LOOK_AHEAD: usize = 8 << 10;

fn replying(text: &str) -> FakeBackend {
    FakeBackend::replying(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()))
}

fn fixed(status: u16, body: &'static str) -> ChosenHandler {
    ChosenHandler::Reply { status, content_type: "text/plain".to_owned(), body: body.into() }
}

fn header(condition: &str) -> ConditionSpec {
    let (name, test) = ValueTest::split(condition).unwrap();
    ConditionSpec::Header { name: name.to_owned(), test }
}

fn json(condition: &str) -> ConditionSpec {
    let (path, test) = ValueTest::split(condition).unwrap();
    ConditionSpec::Json { path: FieldPath::parse(path).unwrap(), test }
}

/// A site whose route sends orders to two backends. A request with a broken header gets 410, and all others
/// get 422.
fn site([eu, us]: [&FakeBackend; 2]) -> Site {
    let proxy = |at| ChosenHandler::Proxy(Box::new(ProxySpec::new(at)));
    let rule = |condition, handler| RuleSpec { conditions: vec![condition], handler };
    let namespaces = vec![("o".to_owned(), "urn:orders".to_owned())];
    let when = WhenSpec {
        look_ahead_bytes: LOOK_AHEAD,
        xml_paths: XmlPaths::compile(&["/o:order[@region = 'eu']".to_owned()], &namespaces).unwrap(),
        namespaces,
        rules: vec![
            rule(header("X-Old = '1'"), fixed(410, "old")),
            rule(json("/order/region = 'eu'"), proxy(0)),
            rule(json("/order/region"), proxy(1)),
            rule(ConditionSpec::Xml { path: 0, text: String::new() }, proxy(0)),
        ],
        otherwise: fixed(422, "no region"),
    };
    let backends = vec![eu.options(), {
        let mut us = us.options();
        us.name = "us".to_owned();
        us
    }];
    Site::new()
        .tune(|options| {
            options.connection.body_memory_max = 4 << 10;
            options.backends = backends;
        })
        .route("/*", HandlerSpec::When(Box::new(when)), None)
        .tune_route(|route| route.body_bytes_max = 1 << 30)
}

fn post(fields: &str, content: &str) -> String {
    let length = content.len();
    format!("POST /orders HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\n\r\n{content}")
}

#[test]
fn a_request_goes_where_the_first_rule_that_holds_leads() {
    let backends = [replying("eu"), replying("us")];
    let server = site([&backends[0], &backends[1]]).start();
    let eu = r#"{"order": {"id": 7, "region": "eu"}}"#;
    server.check(&post("Content-Type: application/json\r\n", eu), "200", "eu");
    assert!(backends[0].request().ends_with(&format!("\r\n\r\n{eu}")), "the content is unchanged");
    server.check(&post("", &eu.replace("eu", "us")), "200", "us");
    server.check(&post("X-Old: 1\r\n", eu), "410", "old");
    server.check(&post("", r#"{"order": []}"#), "422", "no region");
    server.check(&post("Content-Type: text/plain\r\n", eu), "422", "no region");
    server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "422", "no region");
    let mut peer = server.connect();
    peer.send([post("", eu), post("", ""), post("", eu)].concat());
    ["eu", "no region", "eu"].into_iter().zip(["200", "422", "200"]).for_each(|(text, status)| {
        peer.expect(status, text);
    });
}

#[test]
fn a_long_document_of_xml_goes_on_unchanged() {
    let backends = [replying("eu"), replying("us")];
    let server = site([&backends[0], &backends[1]]).start();
    let order = |region: &str, pad: usize| {
        format!("<order xmlns=\"urn:orders\" region=\"{region}\"><pad>{}</pad></order>", "x".repeat(pad))
    };
    for pad in [1, LOOK_AHEAD, 1 << 20] {
        server.check(&post("Content-Type: text/xml\r\n", &order("eu", pad)), "200", "eu");
        assert!(backends[0].request().ends_with(&order("eu", pad)), "{pad}");
        let mut peer = server.connect();
        peer.send(post("", &order("us", pad)));
        peer.expect("422", "no region");
    }
    let fault = "<order xmlns=\"urn:orders\"><a></b>";
    let mut peer = server.connect();
    peer.send(post("", fault));
    let reply = peer.reply(false);
    assert!(reply.status == 400 && reply.content.starts_with("malformed XML: "), "{reply:?}");
}

#[test]
fn malformed_content_gets_400_and_coded_content_415() {
    let backends = [replying("eu"), replying("us")];
    let server = site([&backends[0], &backends[1]]).start();
    let text = "malformed JSON: a field that decides about the request occurs twice at line 1 column 41\n";
    server.check(&post("", r#"{"order": {"region": "us", "region": "eu"}}"#), "400", text);
    server.check(
        &post("", "{\"order\" "),
        "400",
        "malformed JSON: EOF while parsing an object at line 1 column 9\n",
    );
    let mut peer = server.connect();
    peer.send(post("Content-Encoding: gzip\r\n", "x"));
    let reply = peer.expect("415", "this path accepts no content coding\n");
    assert_eq!(reply.field("accept-encoding"), Some("identity"));
    assert_eq!([backends[0].connections(), backends[1].connections()], [0, 0]);
}

/// Returns an order of `bytes` bytes. Its region begins after `before` bytes.
fn order(before: usize, bytes: usize) -> String {
    let head = format!(r#"{{"pad": "{}", "order": {{"region": "eu"}}, "rest": ""#, "x".repeat(before - 20));
    format!("{head}{}\"}}", "y".repeat(bytes - head.len() - 2))
}

#[test]
fn the_choice_is_the_same_however_the_content_comes() {
    let backends = [replying("eu"), replying("us")];
    // Without a free connection to the backend, long content goes through the spool.
    let spooled = site([&backends[0], &backends[1]]).tune(|options| {
        options.backends.iter_mut().for_each(|backend| backend.concurrency_max = 1);
    });
    for (way, server) in
        [("while it comes", site([&backends[0], &backends[1]]).start()), ("spooled", spooled.start())]
    {
        for (before, expected) in [(1000, "eu"), (LOOK_AHEAD - 60, "eu"), (LOOK_AHEAD + 1, "no region")] {
            for bytes in [LOOK_AHEAD + 200, 300_000] {
                let content = order(before, bytes);
                for piece in [700, LOOK_AHEAD, bytes] {
                    let mut peer = server.connect();
                    let request = post("", &content);
                    request.as_bytes().chunks(piece).for_each(|piece| peer.send(piece));
                    let status = if expected == "eu" { "200" } else { "422" };
                    let reply = peer.reply(false);
                    assert_eq!(
                        (reply.status.to_string().as_str(), reply.content.as_str()),
                        (status, expected),
                        "{way}, {before} of {bytes} bytes in pieces of {piece}"
                    );
                    if expected == "eu" {
                        let got = backends[0].request();
                        assert_eq!(field(&got, "content-length"), Some(bytes.to_string().as_str()));
                        assert!(got.ends_with(&content));
                    }
                }
            }
        }
    }
}

#[test]
fn requests_that_rules_lead_are_recorded() {
    let backends = [replying("eu"), replying("us")];
    let server = site([&backends[0], &backends[1]])
        .stream("s", Level::Received, &["path text request.path", "status int reply.status"])
        .tune_route(|route| route.stream = Some(0))
        .start();
    server.check(&post("", r#"{"order": {"region": "eu"}}"#), "200", "eu");
    server.check(&post("", r#"{}"#), "422", "no region");
    assert_eq!(server.records(), ["path=/orders status=200", "path=/orders status=422"]);
}

/// Returns an order of XML whose id ends after `before` bytes, and which ends after `bytes` bytes.
fn order_of_xml(before: usize, bytes: usize) -> String {
    let id = "<o:id>7</o:id>";
    let start = "<o:order xmlns:o='urn:orders' region='eu' n='12'><p>";
    let head = format!("{start}{}</p>{id}", "x".repeat(before - start.len() - "</p>".len() - id.len()));
    let end = "</r></o:order>";
    format!("{head}<r>{}{end}", "y".repeat(bytes - head.len() - "<r>".len() - end.len()))
}

#[test]
fn values_in_the_look_ahead_are_recorded_however_the_content_comes() {
    let backends = [replying("eu"), replying("us")];
    let columns = ["id text xml:/o:order/o:id", "n int xml:/*/@n", "is text xml://o:order/@region='eu'"];
    let server = site([&backends[0], &backends[1]])
        .stream("s", Level::Received, &columns)
        .key("xml:/o:order/o:id")
        .tune_route(|route| route.stream = Some(0))
        .start();
    let mut expect = Vec::new();
    for (before, id) in [(1000, "7"), (LOOK_AHEAD, "7"), (LOOK_AHEAD + 1, "null")] {
        // The short content is in memory, and the long content in the spool.
        for bytes in [LOOK_AHEAD + 200, 300_000] {
            let content = order_of_xml(before, bytes);
            for piece in [700, LOOK_AHEAD, bytes] {
                let mut peer = server.connect();
                post("", &content).as_bytes().chunks(piece).for_each(|piece| peer.send(piece));
                peer.expect("200", "eu");
                assert!(backends[0].request().ends_with(&content));
                let key = if id == "7" { key(&[b"7"]) } else { "null".to_owned() };
                expect.push(format!("id={id} n=12 is=true (key)={key}"));
            }
        }
    }
    assert_eq!(server.records(), expect);
}

#[test]
fn a_value_that_does_not_fit_its_column_is_a_reject_and_other_content_has_none() {
    let backends = [replying("eu"), replying("us")];
    let server = site([&backends[0], &backends[1]])
        .stream("s", Level::Received, &["n int xml:/*/@n"])
        .tune_route(|route| route.stream = Some(0))
        .start();
    server.check(&post("", "<a n='x'/>"), "422", "no region");
    server.check(&post("", r#"{"order": {"region": "eu"}}"#), "200", "eu");
    server.check(&post("Content-Type: text/plain\r\n", "<a n='1'/>"), "422", "no region");
    let records = server.records();
    assert!(records[0].contains(r#"column "n" takes int"#), "{records:?}");
    assert_eq!(records[1..], ["n=null", "n=null"]);
}

#[test]
fn scripts_read_the_rule_and_the_values() {
    let backends = [replying("eu"), replying("us")];
    let after = "local found = req.xml_route
        return { headers = { ['x-rule'] = `{found.rule} {found.values['/*/@n']}` } }";
    let server = site([&backends[0], &backends[1]])
        .stream("s", Level::Received, &["n text xml:/*/@n"])
        .tune_route(|route| route.stream = Some(0))
        .after(after)
        .start();
    for (content, rule) in [
        ("<order xmlns='urn:orders' region='eu' n='1'/>", "4 1"),
        ("<order n='2'/>", "nil 2"),
        (r#"{"order": {"region": "eu"}}"#, "2 nil"),
    ] {
        let mut peer = server.connect();
        peer.send(post("", content));
        assert_eq!(peer.reply(false).field("x-rule"), Some(rule), "{content}");
    }
}

#[test]
fn a_doctype_is_refused_or_skipped_as_the_option_says() {
    let backends = [replying("eu"), replying("us")];
    let order = "<order xmlns='urn:orders' region='eu'/>";
    for (doctype, status) in [(Doctype::Refuse, "400"), (Doctype::Skip, "200")] {
        let server =
            site([&backends[0], &backends[1]]).tune(|options| options.script.doctype = doctype).start();
        let check = |declaration: &str, status: &str| {
            let mut peer = server.connect();
            peer.send(post("", &format!("{declaration}{order}")));
            let reply = peer.reply(false);
            assert_eq!(reply.status.to_string(), status, "{declaration} {}", reply.content);
        };
        check("<!DOCTYPE order SYSTEM 'file:///etc/passwd'>", status);
        check("<!DOCTYPE order [<!ENTITY a 'b'>]>", "400");
    }
}

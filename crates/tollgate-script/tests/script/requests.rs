//! Tests of the fields of a request that a handler reads.

use std::rc::Rc;
use std::time::Duration;

use tollgate_script::{ClientCertificate, HostOptions, Step, TlsSession};

use crate::app::{App, fields, finish, get, handler_of, request, text};

const HEAD: &str = "POST /x?a=1&b=two+words&a=2 HTTP/1.1\r\nHost: test\r\nX-Twice: one\r\nx-twice: two\r\nContent-Length: 0\r\n\r\n";

fn check(expression: &str, expect: &str) {
    let app = App::new();
    let handler = app.handler(&handler_of(&format!("return tostring({expression})")));
    let outcome = finish(handler.call(request(HEAD, br#"{"n": [1, null]}"#)));
    assert_eq!(
        text(&outcome.unwrap_or_else(|error| panic!("{expression}: {error}"))),
        expect,
        "{expression}"
    );
}

#[test]
fn every_field_of_req_answers() {
    check("req.method", "POST");
    check("req.path", "/42/a rest");
    check("req.target", "/x?a=1&b=two+words&a=2");
    check("req.path_info", "/a rest");
    check("req.params.id", "42");
    check("req.params.other", "nil");
    check("req.remote_addr", "127.0.0.1");
    check("req.id", "00000000-0000-0000-0000-000000000001");
    check("string.format('%d', req.time)", "1700000000123456");
    check("req:body()", r#"{"n": [1, null]}"#);
    check("req:json().n[2] == tollgate.json.null", "true");
}

#[test]
fn the_certificate_of_the_client_is_a_table_or_nil() {
    check("req.client_certificate", "nil");
    let app = App::new();
    let client = ClientCertificate {
        subject: "CN=a".to_owned(),
        issuer: "CN=b".to_owned(),
        serial: "abc".to_owned(),
        names: vec!["dns:a".to_owned(), "ip:10.0.0.1".to_owned()],
        fingerprint: "00ff".to_owned(),
        not_after_us: 1_700_000_000_000_000,
    };
    let session = TlsSession { client: Some(client), ..TlsSession::default() };
    let mut request = get("/");
    Rc::get_mut(&mut request).unwrap().tls = Some(Rc::new(session));
    let body = "local c = req.client_certificate
        return table.concat({ c.subject, c.issuer, c.serial, c.fingerprint, c.names[2], string.format('%d', c.not_after) }, ' ')";
    let handler = app.load(&handler_of(body), &fields(&[])).unwrap();
    let expected = "CN=a CN=b abc 00ff ip:10.0.0.1 1700000000000000";
    assert_eq!(text(&finish(handler.call(request)).unwrap()), expected);
    assert!(app.error("return req.client_certifikate").contains("did you mean \"client_certificate\"?"));
}

#[test]
fn query_and_headers_give_the_first_value_and_all_gives_every_one() {
    check("req.query.a", "1");
    check("req.query.b", "two words");
    check("req.query.none", "nil");
    check("table.concat(req:all('query', 'a'), ',')", "1,2");
    check("req.headers['x-twice']", "one");
    check("req.headers['X-TWICE']", "one");
    check("req.headers['X-None']", "nil");
    check("table.concat(req:all('headers', 'X-twice'), ',')", "one,two");
    check("#req:all('headers', 'none')", "0");
}

#[test]
fn unknown_fields_of_req_are_errors_with_the_nearest_name() {
    let app = App::new();
    let check = |body: &str, part: &str| {
        let error = app.error(body);
        assert!(error.contains(part), "{body}: {error}");
    };
    check("return req.qeury", "did you mean \"query\"?");
    check("return req.qeury", "main.luau:2");
    check("return req.zzz", "no field \"zzz\"");
    check("return req[1]", "no field of type number");
    check("req.user = 1", "readonly");
    check("req.query.x = 1", "readonly");
    check("return req:all('header', 'x')", "did you mean \"headers\"?");
    check("return req.json({})", "another call");
}

#[test]
fn a_body_that_is_no_json_is_an_answer() {
    let app = App::new();
    let handler = app.handler(&handler_of("local v, why = req:json() return `{v}: {why}`"));
    let outcome = finish(handler.call(request(HEAD, b"{"))).unwrap();
    assert_eq!(text(&outcome), "nil: expected a key in double quotes at byte 2");
}

#[test]
fn a_req_that_was_kept_tells_nothing_of_later_calls() {
    let app = App::new();
    let handler = app.handler("local kept return function(req) kept = kept or req return kept.query.x end");
    assert_eq!(text(&finish(handler.call(get("/?x=first"))).unwrap()), "first");
    let error = finish(handler.call(get("/?x=second"))).unwrap_err().to_string();
    assert!(error.contains("another call"), "{error}");
}

#[test]
fn head_is_answered_by_get_unless_it_has_a_function_of_its_own() {
    let app = App::new();
    let head = || request("HEAD / HTTP/1.1\r\nHost: test\r\n\r\n", b"");
    let handler = app.handler("return { GET = function(req) return req.method end }");
    assert_eq!(text(&finish(handler.call(head())).unwrap()), "HEAD");
    let handler =
        app.handler("return { GET = function() return 'get' end, HEAD = function() return 'head' end }");
    assert_eq!(text(&finish(handler.call(head())).unwrap()), "head");
    let error = finish(app.handler("return { POST = print }").call(head())).unwrap_err().to_string();
    assert!(error.contains("no function for HEAD"), "{error}");
}

#[test]
fn a_req_tells_nothing_once_its_call_failed_and_nothing_while_it_waits() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(5), ..HostOptions::default() });
    let source = |end: &str| {
        format!(
            "local kept return function(req)
                if kept then return tostring(pcall(function() return kept.query.x end)) end
                kept = req
                local x = req.query.x
                {end}
                return x .. req.query.x
            end"
        )
    };
    let handler = app.handler(&source("error('no')"));
    assert!(finish(handler.call(get("/?x=first"))).is_err());
    assert_eq!(text(&finish(handler.call(get("/?x=second"))).unwrap()), "false");

    let handler = app.handler(&source("local stop = os.clock() + 0.5 while os.clock() < stop do end"));
    let mut first = handler.call(get("/?x=first"));
    assert!(matches!(first.resume(), Step::Sliced));
    assert_eq!(text(&finish(handler.call(get("/?x=second"))).unwrap()), "false");
    assert_eq!(text(&finish(first).unwrap()), "firstfirst");
}

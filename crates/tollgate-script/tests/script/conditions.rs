//! Tests of conditional requests for scripted resources: `etag` and `last_modified` of replies,
//! `req:precondition`.

use tollgate_script::Outcome;

use crate::app::{App, fields, finish, handler_of, request, text};

/// Modification time: 6 November 1994, 08:49:37 and a fraction, in microseconds since 1970.
const MODIFIED: &str = "784111777123456";
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn call(app: &App, method: &str, lines: &str, body: &str) -> Outcome {
    let head = format!("{method} / HTTP/1.1\r\nHost: test\r\n{lines}\r\n");
    let handler = app.load(&handler_of(body), &fields(&["x"])).unwrap();
    finish(handler.call(request(&head, b""))).unwrap_or_else(|error| panic!("{body}: {error}"))
}

fn header<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a str> {
    let found = outcome.headers.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| std::str::from_utf8(value).unwrap())
}

#[test]
fn a_reply_tells_its_validators() {
    let app = App::new();
    let outcome =
        call(&app, "GET", "", &format!("return {{ body = 'x', etag = 'v1', last_modified = {MODIFIED} }}"));
    assert_eq!((header(&outcome, "etag"), header(&outcome, "last-modified")), (Some("\"v1\""), Some(DATE)));
    for (given, expect) in [
        ("'W/\"v1\"'", "W/\"v1\""),
        ("'\"v1\"'", "\"v1\""),
        ("'W/v1'", "\"W/v1\""),
        ("'\u{e4}'", "\"\u{e4}\""),
    ] {
        let outcome = call(&app, "GET", "", &format!("return {{ etag = {given} }}"));
        assert_eq!(header(&outcome, "etag"), Some(expect), "{given}");
    }
    // A representation cannot be newer than the request.
    let outcome = call(&app, "GET", "", "return { last_modified = req.time + 1e12 }");
    assert_eq!(header(&outcome, "last-modified"), Some("Tue, 14 Nov 2023 22:13:20 GMT"));
}

#[test]
fn a_read_that_asks_for_news_gets_304_or_all() {
    let app = App::new();
    let reply = format!(
        "return {{ json = {{ 1 }}, etag = 'v1', last_modified = {MODIFIED}, record = {{ x = 7 }},
            headers = {{ ['cache-control'] = 'no-cache', ['content-language'] = 'de', vary = 'Cookie' }} }}"
    );
    let check = |method: &str, lines: &str, expect: u16| {
        let outcome = call(&app, method, lines, &reply);
        assert_eq!(outcome.status, expect, "{method} {lines}");
        assert_eq!(header(&outcome, "etag"), Some("\"v1\""));
        assert_eq!(header(&outcome, "vary"), Some("Cookie"));
        assert_eq!(outcome.record.values.len(), 1);
        assert_ne!(outcome.record.values[0], tollgate_script::FieldValue::Nil);
        let has_content = expect == 200;
        assert_eq!(text(&outcome), if has_content { "[1]" } else { "" });
        assert_eq!(outcome.content_type.is_some(), has_content);
        assert_eq!(header(&outcome, "content-language").is_some(), has_content);
    };
    for method in ["GET", "HEAD"] {
        check(method, "", 200);
        check(method, "If-None-Match: \"v1\"\r\n", 304);
        check(method, "If-None-Match: \"v0\", W/\"v1\"\r\n", 304);
        check(method, "If-None-Match: *\r\n", 304);
        check(method, "If-None-Match: \"v0\"\r\n", 200);
        check(method, &format!("If-Modified-Since: {DATE}\r\n"), 304);
        check(method, "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", 200);
        check(method, &format!("If-None-Match: \"v0\"\r\nIf-Modified-Since: {DATE}\r\n"), 200);
        check(method, "If-Match: \"v0\"\r\n", 412);
        check(method, "If-Match: \"v1\"\r\n", 200);
        check(method, "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", 412);
    }
    // A method that writes has already finished its write, so its reply does not change.
    check("PUT", "If-None-Match: \"v1\"\r\n", 200);
}

#[test]
fn only_a_reply_of_200_is_weighed() {
    let app = App::new();
    for status in [201, 206, 404, 500] {
        let body = format!("return {{ status = {status}, etag = 'v1' }}");
        assert_eq!(call(&app, "GET", "If-None-Match: \"v1\"\r\n", &body).status, status);
    }
    assert_eq!(call(&app, "GET", "If-None-Match: *\r\n", "return { body = 'x' }").status, 200);
}

#[test]
fn a_write_asks_before_it_begins() {
    let app = App::new();
    let check = |method: &str, lines: &str, given: &str, expect: u16| {
        let body =
            format!("local reply = req:precondition({given}) if reply then return reply end return 204");
        let outcome = call(&app, method, lines, &body);
        assert_eq!(outcome.status, expect, "{method} {lines} {given}");
        assert_eq!(text(&outcome), "");
        outcome
    };
    let v1 = "{ etag = 'v1' }";
    check("PUT", "", v1, 204);
    check("PUT", "If-Match: \"v1\"\r\n", v1, 204);
    let failed = check("PUT", "If-Match: \"v0\"\r\n", v1, 412);
    assert_eq!(header(&failed, "etag"), Some("\"v1\""));
    check("PUT", "If-Match: \"v1\"\r\n", "{ etag = 'W/\"v1\"' }", 412);
    check("PUT", "If-None-Match: *\r\n", v1, 412);
    check("DELETE", "If-None-Match: \"v1\"\r\n", v1, 412);
    check("GET", "If-None-Match: \"v1\"\r\n", v1, 304);
    let modified = format!("{{ last_modified = {MODIFIED} }}");
    check("PUT", &format!("If-Unmodified-Since: {DATE}\r\n"), &modified, 204);
    check("PUT", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", &modified, 412);
    // Without validators only `*` can match. Nothing matches a missing resource.
    check("PUT", "If-Match: *\r\n", "", 204);
    check("PUT", "If-Match: \"\"\r\n", "", 412);
    check("PUT", "If-None-Match: *\r\n", "{ exists = true }", 412);
    check("PUT", "If-None-Match: *\r\n", "{ exists = false }", 204);
    check("PUT", "If-Match: *\r\n", "{ exists = false }", 412);
    check("PUT", "", "{ exists = false }", 204);
}

#[test]
fn validators_that_are_none_are_errors() {
    let app = App::new();
    let check = |body: &str, expect: &str| {
        let error = app.error(body);
        assert!(error.contains(expect), "{body}: {error}");
    };
    for tag in ["''", "'a b'", "'a\"b'", "'\"a'", "'\"\"'", "'a\\r\\nX: y'", "'a\\0'", "('a'):rep(300)"] {
        check(&format!("return {{ etag = {tag} }}"), "reply.etag is \"");
        check(&format!("return req:precondition({{ etag = {tag} }})"), "etag of req:precondition is \"");
    }
    check("return { etag = 1 }", "reply.etag is a number: allowed is a string");
    check("return { last_modified = '1994' }", "reply.last_modified is a string");
    check("return { last_modified = -1 }", "reply.last_modified is -1");
    check("return { last_modified = 1.5 }", "reply.last_modified is 1.5");
    check("return { last_modified = 1e18 }", "reply.last_modified is 1000000000000000000");
    check("return { etag = 'a', headers = { ETag = '\"a\"' } }", "twice");
    check("return { ettag = 'a' }", "did you mean \"etag\"?");
    check("req:precondition({ tag = 'a' })", "unknown field \"tag\"");
    check("req:precondition({ lastmodified = 1 })", "did you mean \"last_modified\"?");
    check("req:precondition({ exists = 1 })", "exists of req:precondition is a ");
    check("req:precondition('a')", "argument of req:precondition is a string");
    check("req.precondition({}, {})", "another call");
}

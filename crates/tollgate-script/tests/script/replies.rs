//! Tests of the return values of a handler, and of the resulting replies.

use tollgate_script::{ContentType, FieldValue, HeaderLine, RecordFields};

use crate::app::{App, fields, finish, get, handler_of, recorded, text};

#[test]
fn a_number_is_a_status_and_a_text_is_plain_text() {
    let app = App::new();
    let outcome = app.run("return 204").unwrap();
    assert_eq!((outcome.status, outcome.content_type, outcome.body.len()), (204, None, 0));
    assert_eq!(outcome.headers, []);
    let outcome = app.run("return 'hello'").unwrap();
    assert_eq!((outcome.status, text(&outcome).as_str()), (200, "hello"));
    assert_eq!((outcome.content_type, outcome.headers), (Some(ContentType::Text), vec![]));
}

#[test]
fn the_kind_of_body_decides_the_content_type_unless_headers_do() {
    let app = App::new();
    let check = |body: &str, expect| {
        let outcome = app.run(body).unwrap();
        assert_eq!((outcome.content_type, outcome.headers), (Some(expect), vec![]), "{body}");
    };
    check("return { body = 'x' }", ContentType::Text);
    check("return { json = { x = 1 } }", ContentType::Json);
    check("return { html = '<p>' }", ContentType::Html);
    check("return { body = buffer.create(3) }", ContentType::Text);
    let outcome = app.run("return { body = 'x', headers = { ['Content-Type'] = 'image/png' } }").unwrap();
    assert_eq!((outcome.content_type, outcome.headers), (None, vec![header("Content-Type", "image/png")]));
}

#[test]
fn headers_are_text_or_numbers_or_lists_of_one_line_each() {
    let app = App::new();
    let outcome = app.run("return { headers = { b = { 'x', 'y' }, a = 5 } }").unwrap();
    assert_eq!(outcome.headers, [header("a", "5"), header("b", "x"), header("b", "y")]);
}

#[test]
fn a_value_that_is_no_reply_is_an_error_that_names_it() {
    let app = App::new();
    let check = |body: &str, parts: &[&str]| {
        let error = app.error(body);
        assert!(error.starts_with("script returned no valid reply: "), "{body}: {error}");
        parts.iter().for_each(|part| assert!(error.contains(part), "{body}: {error}"));
    };
    check("", &["returned nothing"]);
    check("return nil", &["returned nothing"]);
    check("return true", &["boolean", "allowed"]);
    check("return 200, 'x'", &["more than one value"]);
    check("return 99", &["99", "200 to 599"]);
    check("return 600", &["600"]);
    check("return 200.5", &["200.5"]);
    check("return { status = '200' }", &["reply.status", "string"]);
    check("return { stauts = 200 }", &["stauts", "did you mean \"status\"?"]);
    check("return { 200 }", &["[1]"]);
    check("return { body = 'x', json = 1 }", &["body", "json", "one of"]);
    check("return { body = 5 }", &["reply.body", "number"]);
    check("return { status = 204, body = 'x' }", &["204", "no content"]);
    check("return { status = 205, body = 'x' }", &["205", "no content"]);
    check("return { json = { a = { 1, 0/0 } } }", &["reply.json.a[2]", "NaN"]);
    check("return { json = { f = print } }", &["reply.json.f", "function"]);
    check("return { headers = 'x' }", &["reply.headers", "string"]);
    check("return { headers = { 'x' } }", &["[1]", "field names"]);
    check("return { headers = { ['a b'] = 'x' } }", &["a b", "not a field name"]);
    check("return { headers = { a = 'x\\r\\nb: y' } }", &["\"a\"", "\\r\\n"]);
    check("return { headers = { a = 'x\\0' } }", &["not a field value"]);
    check("return { headers = { a = true } }", &["boolean"]);
    check("return { headers = { a = { x = 1 } } }", &["\"a\"", "list"]);
    check("return { headers = { ['Content-Length'] = 1 } }", &["Content-Length", "server"]);
    check("return { headers = { ['transfer-encoding'] = 'chunked' } }", &["transfer-encoding"]);
    check("return { headers = { ['Tollgate-Ack'] = 'loaded' } }", &["Tollgate-Ack", "only the server sets"]);
    check("return { headers = { ['content-type'] = { 'a/b', 'c/d' } } }", &["content-type", "twice"]);
    check("return { headers = { Location = '/a', location = '/b' } }", &["ocation", "twice"]);
    check("return { headers = { ['X-Request-Id'] = { 'a', 'a' } } }", &["X-Request-Id", "twice"]);
    check("return { record = 1 }", &["reply.record", "number"]);
}

#[test]
fn a_reply_beyond_its_limit_is_refused() {
    let app = App::with(tollgate_script::HostOptions { reply_bytes_max: 1000, ..Default::default() });
    for body in
        ["return ('x'):rep(1001)", "return { html = ('x'):rep(1001) }", "return { json = ('x'):rep(1000) }"]
    {
        assert!(app.error(body).contains("limit"), "{body}");
    }
    assert!(app.run("return ('x'):rep(1000)").is_ok());
}

#[test]
fn header_lines_count_towards_the_limit_of_a_reply() {
    let app = App::with(tollgate_script::HostOptions { reply_bytes_max: 1000, ..Default::default() });
    for body in [
        "return { headers = { a = ('x'):rep(996) } }",
        "return { headers = { [('a'):rep(996)] = 'x' } }",
        "return { headers = { a = table.create(20, ('x'):rep(100)) } }",
        "return { etag = ('x'):rep(200), headers = { a = ('x'):rep(800) } }",
        "return { headers = { a = ('x'):rep(500) }, body = ('x'):rep(500) }",
        "return { headers = { a = ('x'):rep(500) }, json = { ('x'):rep(500) } }",
    ] {
        assert!(app.error(body).contains("exceeds limit"), "{body}: {}", app.error(body));
    }
    assert!(app.run("return { headers = { a = ('x'):rep(495) }, body = ('x'):rep(500) }").is_ok());
}

#[test]
fn record_values_come_in_the_order_of_the_names() {
    let app = App::new();
    let source = handler_of("return { record = { b = 1.5, a = 'x', z = 1, [5] = 2 } }");
    let handler = app.load(&source, &fields(&["a", "b", "c"])).unwrap();
    let record = finish(handler.call(get("/"))).unwrap().record;
    assert_eq!(record.values, [FieldValue::Text(b"x".to_vec()), FieldValue::Float(1.5), FieldValue::Nil]);
    assert_eq!(record.unknown, ["[5]", "z"]);
    assert_eq!(record.whole, None);
}

#[test]
fn record_as_a_whole_is_json_and_knows_no_unknown_keys() {
    let app = App::new();
    let wanted = RecordFields { names: vec!["a".to_owned()], whole: true };
    let handler = app.load(&handler_of("return { record = { b = { 1, 2 }, a = 1 } }"), &wanted).unwrap();
    let record = finish(handler.call(get("/"))).unwrap().record;
    assert_eq!(record.whole.as_deref(), Some(r#"{"a":1,"b":[1,2]}"#));
    assert_eq!(record.values, [FieldValue::Int(1)]);
    assert!(record.unknown.is_empty());
}

#[test]
fn each_luau_value_has_its_form_in_a_record() {
    let app = App::new();
    let check = |value: &str, expect: FieldValue| assert_eq!(recorded(&app, value), expect, "{value}");
    check("nil", FieldValue::Nil);
    check("tollgate.json.null", FieldValue::Nil);
    check("true", FieldValue::Bool(true));
    check("7", FieldValue::Int(7));
    check("1.0", FieldValue::Int(1));
    check("2^53", FieldValue::Int(1 << 53));
    check("integer.fromstring('9223372036854775807')", FieldValue::Int(i64::MAX));
    check("0.5", FieldValue::Float(0.5));
    check("math.huge", FieldValue::Float(f64::INFINITY));
    check("'\\255'", FieldValue::Text(vec![255]));
    check("buffer.fromstring('ab')", FieldValue::Text(b"ab".to_vec()));
    check("{ 1, 2 }", FieldValue::Json("[1,2]".to_owned()));
    check("{ a = {} }", FieldValue::Json(r#"{"a":{}}"#.to_owned()));
    check("{ a = 0/0 }", FieldValue::Unfit("value.a: NaN cannot be encoded as JSON".to_owned()));
    check("print", FieldValue::Unfit("a function cannot be recorded".to_owned()));
}

#[test]
fn error_values_of_every_type_are_put_into_words() {
    let app = App::new();
    let check = |body: &str, part: &str| {
        let error = app.error(body);
        assert!(error.contains(part), "{body}: {error}");
    };
    check("error('boom')", "main.luau:2: boom");
    check("error('boom')", "main.luau:2");
    check("error()", "nil was raised");
    check("error({ code = 1 })", "a table without __tostring");
    check("error(print)", "a function without __tostring");
    check("error(true)", "boolean");
    check("error(setmetatable({}, { __tostring = function() return 'told' end }))", "told");
    check("error(setmetatable({}, { __tostring = function() error('again') end }))", "again");
    check("local x = nil; return x.y", "attempt to index nil");
    check("return coroutine.yield(1)", "coroutine.yield");
    check("local function f() return 1 + f() end return f()", "stack overflow");
}

fn header(name: &'static str, value: &'static str) -> HeaderLine {
    (name.into(), value.into())
}

#[test]
fn a_flood_of_values_is_refused_whatever_they_are() {
    let app = App::new();
    let nested = "local t = {} for i = 1, 100 do t = { t } end";
    for count in [1_000, 999_990] {
        let error = app.error(&format!("{nested} return {{ json = t }}, table.unpack({{}}, 1, {count})"));
        assert!(error.contains("more than one value"), "{count}: {error}");
    }
    assert_eq!(app.text("return 'alive'"), "alive");
}

#[test]
fn an_error_of_any_length_is_told_shortly() {
    let error = App::new().error("error(('\u{fc}'):rep(1000000))");
    assert!(error.len() < 5000 && error.contains("... (20000"), "{}", error.len());
}

#[test]
fn the_texts_of_a_record_are_bounded_together() {
    let app = App::new();
    let body = "local x = ('x'):rep(9000000) return { record = { a = x, b = x } }";
    let handler = app.load(&handler_of(body), &fields(&["a", "b"])).unwrap();
    let outcome = finish(handler.call(get("/"))).unwrap();
    let texts = outcome.record.values.iter().filter(|value| matches!(value, FieldValue::Text(_))).count();
    assert_eq!(texts, 1);
    assert!(outcome.record.values.iter().any(|value| matches!(value, FieldValue::Unfit(_))));
}

//! Tests of cookies and forms of a request.

use tollgate_script::{HostOptions, Outcome};

use crate::app::{App, finish, handler_of, request, text};

const URLENCODED: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data; boundary=b";

fn post(app: &App, content_type: &str, body: &[u8], script: &str) -> Outcome {
    let head = format!("POST / HTTP/1.1\r\nHost: test\r\n{content_type}Content-Length: 0\r\n\r\n");
    let handler = app.handler(&handler_of(script));
    finish(handler.call(request(&head, body))).unwrap_or_else(|error| panic!("{script}: {error}"))
}

fn form(content_type: &str, body: &[u8], expression: &str) -> String {
    let script = format!(
        "local form, why = req:form() if not form then return `nil: {{why}}` end return tostring({expression})"
    );
    text(&post(&App::new(), &format!("Content-Type: {content_type}\r\n"), body, &script))
}

#[test]
fn cookies_are_read_from_all_fields() {
    let app = App::new();
    let head =
        "GET / HTTP/1.1\r\nHost: test\r\nCookie: a=1; b=\"x\"; a=2; c\r\nX: y\r\ncookie: a=3;B=z\r\n\r\n";
    let check = |expression: &str, expect: &str| {
        let handler = app.handler(&handler_of(&format!("return tostring({expression})")));
        assert_eq!(text(&finish(handler.call(request(head, b""))).unwrap()), expect, "{expression}");
    };
    check("req.cookies.a", "1");
    check("req.cookies.b", "\"x\"");
    check("req.cookies.B", "z");
    check("req.cookies.c", "nil");
    check("table.concat(req:all('cookies', 'a'), ',')", "1,2,3");
    check("#req:all('cookies', 'none')", "0");
    check("req.cookies == req.cookies", "true");
    check("pcall(function() req.cookies.a = 1 end)", "false");
    assert!(app.error("return req.cookie").contains("did you mean \"cookies\"?"));
    assert!(app.error("return req:all('cookie', 'a')").contains("did you mean \"cookies\"?"));
}

#[test]
fn an_urlencoded_form_has_the_first_value_of_each_field() {
    let check = |expression: &str, expect: &str| {
        let body = b"a=1&b=two+words&a=2&%c3%a9=%26&=empty&flag";
        assert_eq!(form(URLENCODED, body, expression), expect, "{expression}");
    };
    check("form.a", "1");
    check("form.b", "two words");
    check("form['\u{e9}']", "&");
    check("form['']", "empty");
    check("form.flag", "");
    check("form.none", "nil");
    check("table.concat(req:all('form', 'a'), ',')", "1,2");
    check("#req:all('form', 'none')", "0");
    check("select('#', req:all('form', 'a'))", "1");
    assert_eq!(form("Application/X-WWW-Form-URLEncoded ; charset=utf-8", b"a=1", "form.a"), "1");
    assert_eq!(form(URLENCODED, b"", "next(form)"), "nil");
}

#[test]
fn a_multipart_form_has_texts_and_files() {
    let body = b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n\
        --b\r\nContent-Disposition: form-data; name=a\r\n\r\n2\r\n\
        --b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.bin\"\r\nContent-Type: image/png\r\n\r\n\x00\xff\r\n\r\n\
        --b\r\nContent-Disposition: form-data; name=f; filename=\"\"\r\n\r\n\r\n--b--\r\n";
    let check = |expression: &str, expect: &str| assert_eq!(form(MULTIPART, body, expression), expect);
    check("form.a", "1");
    check("table.concat(req:all('form', 'a'), ',')", "1,2");
    check(
        "`{form.f.filename}|{form.f.content_type}|{#form.f.body}|{form.f.body == '\\0\\255\\r\\n'}`",
        "x.bin|image/png|4|true",
    );
    check("#req:all('form', 'f')", "2");
    check("`{req:all('form', 'f')[2].filename}|{req:all('form', 'f')[2].content_type}`", "|text/plain");
}

#[test]
fn bytes_of_a_form_that_are_no_text_become_u_fffd_but_a_file_keeps_them() {
    assert_eq!(form(URLENCODED, b"a=Zo\xeb&b=%EB", "form.a .. form.b"), "Zo\u{fffd}\u{fffd}");
    let part = |name: &[u8], content: &[u8]| {
        let head = [b"--b\r\nContent-Disposition: form-data; ", name, b"\r\n\r\n"].concat();
        [&head, content, b"\r\n"].concat()
    };
    let body = [part(b"name=t", b"Zo\xeb"), part(b"name=f; filename=\"\xeb\"", b"\xeb"), b"--b--".to_vec()];
    let expression = "form.t .. string.byte(form.f.filename) .. #form.f.body .. string.byte(form.f.body)";
    assert_eq!(form(MULTIPART, &body.concat(), expression), "Zo\u{fffd}2351235");
}

#[test]
fn a_malformed_form_is_answered_with_its_reason() {
    let check = |content_type: &str, body: &[u8], expect: &str| {
        let found = form(content_type, body, "'read'");
        assert!(found.starts_with("nil: ") && found.contains(expect), "{content_type}: {found}");
    };
    check("text/plain", b"a=1", "content-type is \"text/plain\": allowed are application/x-www-form");
    check("multipart/mixed; boundary=b", b"--b--", "body is not a form");
    check("multipart/form-data", b"--b--", "no boundary");
    check(MULTIPART, b"a=1", "does not begin with its boundary");
    check(
        MULTIPART,
        b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1",
        "ends before its last boundary",
    );
    check(MULTIPART, b"--b\r\nX: y\r\n\r\n1\r\n--b--", "no content-disposition, at byte 6");
    check(URLENCODED, "a=1&".repeat(1001).as_bytes(), "exceeds limit: 1000 fields");
    assert_eq!(form(URLENCODED, "a=1&".repeat(1000).as_bytes(), "form.a"), "1");
    let app = App::new();
    let why = "local form, why = req:form() return `{form}: {why}`";
    assert!(
        text(&post(&app, "", b"a=1", why))
            .starts_with("nil: body is not a form, its content-type is missing")
    );
    let twice = "Content-Type: text/plain\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    assert!(text(&post(&app, twice, b"a=1", why)).contains("repeated"));
    let all = "local list, why = req:all('form', 'a') return `{list}: {why}`";
    assert!(text(&post(&app, "", b"a=1", all)).starts_with("nil: body is not a form"));
}

#[test]
fn a_form_is_bounded_by_the_memory_and_the_time_of_its_call() {
    // The limit is far below the form, because garbage from loading may be collected during the call, which
    // gives the call more memory.
    let memory_bytes_max = 256 << 10;
    let app = App::with(HostOptions { memory_bytes_max, ..HostOptions::default() });
    let line = format!("Content-Type: {URLENCODED}\r\n");
    let long = [b"a=".as_slice(), &vec![b'x'; 8 * memory_bytes_max]].concat();
    let script = "local ok, why = pcall(req.form, req) return `{ok}: {why}`";
    assert!(text(&post(&app, &line, &long, script)).contains("not enough memory"));
    let file = [
        b"--b\r\nContent-Disposition: form-data; name=a; filename=f\r\n\r\n".as_slice(),
        &long,
        b"\r\n--b--",
    ];
    let line = format!("Content-Type: {MULTIPART}\r\n");
    assert!(text(&post(&app, &line, &file.concat(), script)).contains("not enough memory"));
    assert_eq!(text(&post(&app, &line, b"--b--", "return tostring(next(req:form()))")), "nil");
}

#[test]
fn a_form_of_another_call_is_not_read() {
    let app = App::new();
    let error = app.error("return req.form({})");
    assert!(error.contains("another call"), "{error}");
    assert!(app.error("return req:frm()").contains("did you mean \"form\"?"));
}

//! Tests of `tollgate.cookie.make` and `tollgate.redirect`: results and refusals.

use crate::app::{App, text};

#[test]
fn a_cookie_is_written_as_browsers_read_it() {
    let app = App::new();
    let check = |arguments: &str, expect: &str| {
        assert_eq!(app.text(&format!("return tollgate.cookie.make({arguments})")), expect, "{arguments}");
    };
    check("'a', 'b'", "a=b");
    check("'a', ''", "a=");
    check("'a', '\"b\"'", "a=\"b\"");
    check("'a', 'b', {}", "a=b");
    check("'a', 'b', { max_age = 0, secure = false }", "a=b; Max-Age=0");
    check("'a', 'b', { expires = 784111777000000 }", "a=b; Expires=Sun, 06 Nov 1994 08:49:37 GMT");
    check(
        "'a', 'b', { expires = tollgate.time.parse('9999-12-31T23:59:59Z') }",
        "a=b; Expires=Fri, 31 Dec 9999 23:59:59 GMT",
    );
    check("'a', tollgate.url.encode('x;\\r\\n'), { same_site = 'lax' }", "a=x%3B%0D%0A; SameSite=Lax");
    check(
        "'a', 'b', { path = '/x', domain = '.example.com', max_age = 60, secure = true, http_only = true, same_site = 'None' }",
        "a=b; Path=/x; Domain=.example.com; Max-Age=60; Secure; HttpOnly; SameSite=None",
    );
    check("'__Host-a', 'b', { secure = true, path = '/' }", "__Host-a=b; Path=/; Secure");
}

#[test]
fn a_cookie_that_would_be_another_is_refused() {
    let app = App::new();
    let check = |arguments: &str, expect: &str| {
        let error = app.error(&format!("return tollgate.cookie.make({arguments})"));
        assert!(error.contains(expect), "{arguments}: {error}");
    };
    for name in ["''", "'a b'", "'a='", "'a;b'", "'a\\r\\nX: y'", "'\u{e4}'", "('n'):rep(5000)"] {
        check(&format!("{name}, 'v'"), "cookie name is \"");
    }
    for value in
        ["'a b'", "'a;b'", "'a,b'", "'a\"'", "'\"a'", "'a\\\\'", "'a\\r\\nX: y'", "'a\\0'", "'\u{e4}'"]
    {
        check(&format!("'a', {value}"), "cookie value is \"");
    }
    check("'a'", "cookie value is a nil: allowed is a string");
    check("'a', 1", "cookie value is a ");
    check("('n'):rep(2100), ('v'):rep(2100)", "exceeds limit: 4200 bytes, limit 4096 bytes");
    for path in ["''", "'x'", "'/;a'", "'/\\r\\n'", "'/\u{e4}'"] {
        check(&format!("'a', 'b', {{ path = {path} }}"), "cookie path is \"");
    }
    for domain in ["''", "'.'", "'a..b'", "'a b'", "'a;b'", "'a:1'"] {
        check(&format!("'a', 'b', {{ domain = {domain} }}"), "cookie domain is \"");
    }
    check("'a', 'b', { max_age = -1 }", "cookie max_age is -1");
    check("'a', 'b', { max_age = 1.5 }", "cookie max_age is 1.5");
    check("'a', 'b', { max_age = '60' }", "cookie max_age is a string");
    check("'a', 'b', { expires = 0/0 }", "cookie expires is NaN");
    check("'a', 'b', { secure = 1 }", "cookie secure is a ");
    check("'a', 'b', { same_site = 'loose' }", "allowed are strict, lax, none");
    check("'a', 'b', { same_site = 'none' }", "needs secure = true");
    check("'__Secure-a', 'b'", "needs secure = true");
    check("'__host-a', 'b', { secure = true }", "path = \"/\" and no domain");
    check("'__Host-a', 'b', { secure = true, path = '/', domain = 'a' }", "no domain");
    check("'a', 'b', { httponly = true }", "unknown field \"httponly\", did you mean \"http_only\"?");
    check("'a', 'b', 'c'", "options of a cookie is a string: allowed is a table");
    assert!(app.error("return tollgate.cookie.mak()").contains("did you mean \"make\"?"));
}

#[test]
fn a_redirect_leads_elsewhere() {
    let app = App::new();
    let outcome = app.run("return tollgate.redirect('/next?a=1')").unwrap();
    assert_eq!((outcome.status, text(&outcome).as_str()), (302, ""));
    assert_eq!(outcome.headers, [("location".into(), "/next?a=1".into())]);
    for status in [301, 302, 303, 307, 308] {
        let outcome = app.run(&format!("return tollgate.redirect('https://a.example/', {status})")).unwrap();
        assert_eq!(outcome.status, status);
    }
    let more = "local reply = tollgate.redirect('/') reply.headers['set-cookie'] = 'a=b' reply.record = {} return reply";
    assert_eq!(app.run(more).unwrap().headers.len(), 2);
}

#[test]
fn a_redirect_cannot_write_other_lines() {
    let app = App::new();
    let check = |arguments: &str, expect: &str| {
        let error = app.error(&format!("return tollgate.redirect({arguments})"));
        assert!(error.contains(expect), "{arguments}: {error}");
    };
    for location in
        ["''", "'/\\\\evil.example'", "'/a b'", "'/\\r\\nSet-Cookie: a=b'", "'/\\n'", "'/\\0'", "'/\u{e4}'"]
    {
        check(location, "allowed is visible ASCII");
    }
    check("", "location of tollgate.redirect is a nil");
    check("'/', 200", "is 200: allowed are 301, 302, 303, 307, 308");
    check("'/', 304", "is 304");
    check("'/', '301'", "is a string");
}

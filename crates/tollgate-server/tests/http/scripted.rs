//! Tests of scripted resources over a socket: forms, cookies, conditions.

use crate::site::Site;

const RESOURCE: &str = "return {
    GET = function(req)
        return { json = { 1 }, etag = 'v1', headers = { ['cache-control'] = 'no-cache' }, record = { n = 7 } }
    end,
    PUT = function(req)
        return req:precondition{ etag = 'v1' } or { status = 204, etag = 'v2' }
    end,
}";

#[test]
fn a_read_that_has_it_already_gets_304_without_content_and_the_connection_goes_on() {
    let site = Site::new().stream(
        "reads",
        tollgate_log::Level::Synced,
        &["n int record.n", "status int reply.status"],
    );
    let server = site.script("/a", RESOURCE).start();
    let mut peer = server.connect();
    peer.send("GET /a HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"v1\"\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"v0\"\r\n\r\n");
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("etag"), reply.field("content-type")), (304, Some("\"v1\""), None));
    assert_eq!((reply.field("cache-control"), reply.field("content-length")), (Some("no-cache"), None));
    let reply = peer.expect("200", "[1]");
    assert_eq!(reply.field("content-type"), Some("application/json"));
    peer.send("HEAD /a HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"v1\"\r\n\r\n");
    assert_eq!(peer.reply(true).status, 304);
    drop(peer);
    assert_eq!(server.records().len(), 3);
}

#[test]
fn a_write_whose_condition_fails_is_412() {
    let server = Site::new().script("/a", RESOURCE).start();
    let put = |line: &str| {
        let mut peer = server.connect();
        peer.send(format!("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n{line}\r\n"));
        let reply = peer.reply(false);
        (reply.status, reply.field("etag").unwrap().to_owned())
    };
    assert_eq!(put(""), (204, "\"v2\"".to_owned()));
    assert_eq!(put("If-Match: \"v1\"\r\n"), (204, "\"v2\"".to_owned()));
    assert_eq!(put("If-Match: \"v0\"\r\n"), (412, "\"v1\"".to_owned()));
    assert_eq!(put("If-None-Match: *\r\n"), (412, "\"v1\"".to_owned()));
}

#[test]
fn a_form_comes_in_and_a_cookie_goes_out() {
    let login = "local form = req:form()
        local reply = tollgate.redirect('/', 303)
        reply.headers['set-cookie'] = tollgate.cookie.make('name', tollgate.url.encode(form.name), { http_only = true })
        return reply";
    let server = Site::new()
        .handler("/in", login)
        .handler("/", "return tollgate.url.decode(req.cookies.name)")
        .start();
    let mut peer = server.connect();
    let body = "name=a%3Bb+c";
    peer.send(format!(
        "POST /in HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("location")), (303, Some("/")));
    assert_eq!(reply.field("set-cookie"), Some("name=a%3Bb%20c; HttpOnly"));
    peer.send("GET / HTTP/1.1\r\nHost: a\r\nCookie: other=1; name=a%3Bb%20c\r\n\r\n");
    peer.expect("200", "a;b c");
}

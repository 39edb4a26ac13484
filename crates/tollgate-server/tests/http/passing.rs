//! Tests of handlers that pass a request to the next route, and of scripts before and after handlers.

use tollgate_http::Method;
use tollgate_log::Level;

use crate::peer::Reply;
use crate::site::{Running, Site};

fn ask(server: &Running, request: &str) -> Reply {
    let mut peer = server.connect();
    peer.send(request);
    peer.reply(request.starts_with("HEAD"))
}

fn get(server: &Running, target: &str) -> Reply {
    ask(server, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
}

#[test]
fn a_handler_that_passes_has_the_next_route_answer() {
    let server = Site::new()
        .files("/*", |_| ())
        .file("public/docs/page.txt", "the file")
        .handler("/docs/*", "return tollgate.pass")
        .handler("/docs/{name}", "if req.params.name == 'own' then return 'own' end return tollgate.pass")
        .handler("/docs/deep/*", "return 'deep ' .. req.path_info")
        .start();
    assert_eq!(get(&server, "/docs/page.txt").content, "the file");
    assert_eq!(get(&server, "/docs/own").content, "own");
    assert_eq!(get(&server, "/docs/deep/x").content, "deep /x");
    assert_eq!(get(&server, "/docs/absent").status, 404);
    let head = ask(&server, "HEAD /docs/page.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, head.field("content-length")), (200, Some("8")));
}

#[test]
fn the_next_route_sees_the_request_as_its_own() {
    let server = Site::new()
        .handler("/*", "return { json = { info = req.path_info, id = req.params.id, ctx = req.ctx, body = req:body() } }")
        .handler("/a/{id}", "req.ctx.from = req.params.id return tollgate.pass")
        .tune_route(|route| route.host = Some("a".to_owned()))
        .start();
    let request = "POST /a/%78%2e HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(ask(&server, request).content, r#"{"body":"hi","ctx":{"from":"x."},"info":"/a/x."}"#);
}

#[test]
fn a_pass_goes_only_to_routes_that_take_the_request() {
    let server = Site::new()
        .handler("/*", "return 'get'")
        .tune_route(|route| route.methods = Some([Method::Get].into_iter().collect()))
        .handler("/small/*", "return 'small'")
        .tune_route(|route| route.body_bytes_max = 1)
        .handler("/small/x", "return tollgate.pass")
        .handler("/x", "return tollgate.pass")
        .start();
    assert_eq!(get(&server, "/x").content, "get");
    let post = |path| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    let reply = ask(&server, &post("/x"));
    assert_eq!((reply.status, &*reply.content), (404, "no resource has this path\n"));
    assert_eq!(ask(&server, &post("/small/x")).status, 413);
}

#[test]
fn the_route_that_answers_records() {
    let server = Site::new()
        .stream("all", Level::Synced, &["who text record.who", "status int reply.status"])
        .stream("audit", Level::Synced, &["who text record.who"])
        .handler("/*", "return { status = 202, record = { who = 'second' } }")
        .handler("/a", "tollgate.emit('audit', { who = 'first' }) return tollgate.pass")
        .handler("/b/c", "return tollgate.pass")
        .tune_route(|route| route.host = Some("b".to_owned()))
        .start();
    assert_eq!(get(&server, "/a").status, 202);
    assert_eq!(server.records(), ["who=second status=202"]);
}

#[test]
fn a_script_before_goes_on_or_replies_itself() {
    let server = Site::new()
        .handler("/script", "return 'hello ' .. req.ctx.user")
        .before("if not req.query.user then return { status = 401, body = 'who?' } end req.ctx.user = req.query.user")
        .before("if req.ctx.user == 'eve' then return 403 end return tollgate.pass")
        .fixed("/fixed", "fixed")
        .before("if req.query.no then return 403 end")
        .files("/files/*", |_| ())
        .file("public/x", "file")
        .before("if req.query.wait then tollgate.sleep(0.001) end if req.query.no then return 403 end")
        .start();
    let check = |target: &str, status: u16, content: &str| {
        let reply = get(&server, target);
        assert_eq!((reply.status, &*reply.content), (status, content), "{target}");
    };
    check("/script", 401, "who?");
    check("/script?user=eve", 403, "");
    check("/script?user=ann", 200, "hello ann");
    check("/fixed", 200, "fixed");
    check("/fixed?no=1", 403, "");
    check("/files/x", 200, "file");
    check("/files/x?wait=1", 200, "file");
    check("/files/x?wait=1&no=1", 403, "");
}

#[test]
fn a_script_before_collect_keeps_items_out() {
    let server = Site::new()
        .stream("all", Level::Synced, &["n int record.n"])
        .collect("/collect")
        .before("if req.headers['x-key'] ~= 'k' then return 403 end")
        .start();
    let post = |key: &str| {
        format!("POST /collect HTTP/1.1\r\nHost: a\r\nX-Key: {key}\r\nContent-Length: 7\r\n\r\n{{\"n\":1}}")
    };
    assert_eq!(ask(&server, &post("no")).status, 403);
    assert_eq!(ask(&server, &post("k")).status, 200);
    // The refusal by the script is a transaction of the route, so it has a record.
    assert_eq!(server.records(), ["n=null", "n=1"]);
}

#[test]
fn scripts_after_see_the_reply_and_change_its_headers() {
    let after = "tollgate.shared.incr('seen')
        return { headers = { ['x-seen'] = `{reply.status} {reply.headers['content-type']} {req.ctx.user}`, ['x-own'] = 'after' } }";
    let server = Site::new()
        .handler(
            "/script",
            "req.ctx.user = 'ann' return { status = 201, headers = { ['X-Own'] = 'script' }, json = {} }",
        )
        .after(after)
        .after("if reply.headers['x-own'] ~= 'after' then error('order') end")
        .handler("/stream", "return { write = function(out) out:write('streamed') end }")
        .after("return { headers = { ['x-own'] = 'after' } }")
        .fixed("/fixed", "fixed")
        .after("tollgate.sleep(0.001) return { headers = { ['content-type'] = 'text/x' } }")
        .files("/files/*", |_| ())
        .file("public/x.txt", "file")
        .after("return { headers = { ['cache-control'] = 'private', etag = '\"mine\"' } }")
        .start();
    let reply = get(&server, "/script");
    assert_eq!((reply.status, reply.field("x-seen")), (201, Some("201 application/json ann")));
    assert_eq!(reply.head.to_ascii_lowercase().matches("x-own").count(), 1);
    assert_eq!(reply.field("x-own"), Some("after"));
    let mut peer = server.connect();
    peer.send("GET /stream HTTP/1.0\r\n\r\n");
    let head = peer.head();
    assert_eq!((head.status, head.field("x-own")), (200, Some("after")));
    assert_eq!(peer.rest(), "streamed");
    let reply = get(&server, "/fixed");
    assert_eq!((&*reply.content, reply.field("content-type")), ("fixed", Some("text/x")));
    let reply = get(&server, "/files/x.txt");
    assert_eq!((&*reply.content, reply.field("etag")), ("file", Some("\"mine\"")));
    assert_eq!(reply.field("cache-control"), Some("private"));
}

#[test]
fn scripts_beside_a_handler_emit_and_their_failures_are_its_own() {
    let server = Site::new()
        .stream("own", Level::Synced, &["who text record.who", "status int reply.status"])
        .stream("audit", Level::Synced, &["what text record.what"])
        .handler("/", "tollgate.emit('audit', { what = 'main' }) return { body = 'fine', record = { who = 'main' } }")
        .before("tollgate.emit('audit', { what = 'before' }) if req.query.fail == 'before' then error('broken') end")
        .after("tollgate.emit('audit', { what = 'after' }) if req.query.fail == 'after' then error('broken') end")
        .start();
    assert_eq!(get(&server, "/").content, "fine");
    assert_eq!(get(&server, "/?fail=before").status, 500);
    assert_eq!(get(&server, "/?fail=after").status, 500);
    assert_eq!(
        server.records(),
        [
            "who=main status=200",
            "what=before",
            "what=main",
            "what=after",
            "who=null status=500",
            "who=null status=500",
        ]
    );
}

#[test]
fn scripts_after_see_a_fixed_reply_wherever_its_request_stands() {
    const AFTER: &str = "return { headers = { ['x-own'] = 'after' } }";
    let server = Site::new()
        .handler("/slow", "tollgate.sleep(0.05) return 'slow'")
        .fixed("/fixed", "fixed")
        .after(AFTER)
        .fixed("/guarded", "fixed")
        .before("return tollgate.pass")
        .after(AFTER)
        .start();
    let mut peer = server.connect();
    let paths = ["/fixed", "/guarded", "/slow", "/fixed", "/guarded"];
    peer.send(paths.map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).concat());
    for path in paths {
        let reply = peer.reply(false);
        let expected = (path != "/slow").then_some("after");
        assert_eq!((reply.status, reply.field("x-own")), (200, expected), "{path}");
    }
}

#[test]
fn an_after_script_changes_nothing_but_headers() {
    let after = |body: &str| Site::new().fixed("/", "fixed").after(body).start();
    for body in [
        "return 404",
        "return { status = 404 }",
        "return { body = 'x' }",
        "return { headers = { etag = 1 }, record = {} }",
        "return 'x'",
    ] {
        assert_eq!(get(&after(body), "/").status, 500, "{body}");
    }
    assert_eq!(get(&after("return tollgate.pass"), "/").status, 500, "whoever replied has replied");
    assert_eq!(get(&after("reply.status = 1"), "/").status, 500);
}

#[test]
fn scripts_by_method_stand_beside_the_methods_that_they_name() {
    let server = Site::new()
        .handler("/", "return req.ctx.seen or 'not seen'")
        .before("return { POST = function(req) req.ctx.seen = 'seen' end }")
        .start();
    assert_eq!(get(&server, "/").content, "not seen");
    let reply = ask(&server, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(reply.content, "seen");
}

#[test]
fn a_script_that_passes_while_nothing_is_behind_it_is_404() {
    let server = Site::new().handler("/only", "return tollgate.pass").start();
    let reply = get(&server, "/only");
    assert_eq!((reply.status, &*reply.content), (404, "no resource has this path\n"));
}

#[test]
fn budgets_hold_beside_a_handler_too() {
    let tune = |site: Site| {
        site.tune(|options| options.script.cpu_budget = std::time::Duration::from_millis(20)).start()
    };
    let server = tune(Site::new().fixed("/", "fixed").before("while true do end"));
    assert_eq!(get(&server, "/").status, 500);
    let server = tune(Site::new().fixed("/", "fixed").after("while true do end"));
    assert_eq!(get(&server, "/").status, 500);
}

#[test]
fn replies_stay_in_the_order_of_their_requests() {
    let server = Site::new()
        .handler("/*", "return 'last' .. req.path_info")
        .after("if req.query.wait then tollgate.sleep(0.005) end")
        .handler("/a/*", "tollgate.sleep(0.002) return tollgate.pass")
        .start();
    let mut peer = server.connect();
    let paths = ["/a/1", "/2", "/3?wait=1", "/a/4", "/5"];
    peer.send(paths.map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).concat());
    for path in paths {
        let path = path.trim_end_matches("?wait=1");
        assert_eq!(peer.reply(false).content, format!("last{path}"));
    }
}

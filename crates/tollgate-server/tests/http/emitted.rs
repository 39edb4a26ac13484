//! Tests of records that scripts emit in addition to the record of their reply.

use std::time::Duration;

use tollgate_log::{Level, LogOptions, SinkPlace};
use tollgate_server::Ack;

use crate::site::Site;

fn site(body: &str) -> Site {
    Site::new()
        .stream("own", Level::Synced, &["name text record.name", "status int reply.status"])
        .stream("audit", Level::Written, &["what text record.what", "path text request.path"])
        .stream("loose", Level::Received, &["all json record"])
        .handler("/", body)
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn records_of_a_call_are_together_and_in_their_order() {
    let body = "tollgate.emit('audit', { what = 'first' })
        tollgate.emit('loose', { any = { 1, 2 } })
        tollgate.emit('audit', { what = 'second' })
        return { body = 'fine', record = { name = 'own' } }";
    let server = site(body).start();
    server.check(&get("/"), "200", "fine");
    assert_eq!(
        server.records(),
        ["name=own status=200", "what=first path=/", "all={\"any\":[1,2]}", "what=second path=/",]
    );
}

#[test]
fn a_route_without_a_stream_emits_too_and_its_reply_waits_for_the_strictest() {
    let emit = |stream: &str| format!("tollgate.emit('{stream}', {{ what = 'x' }}) return 'fine'");
    for (emits, level) in [
        (vec!["audit"], Some("written")),
        (vec!["loose"], Some("received")),
        (vec!["loose", "audit"], Some("written")),
        (vec!["loose", "audit", "own"], None),
    ] {
        let body: String = emits.iter().map(|stream| format!("tollgate.emit('{stream}', {{}}) ")).collect();
        let body = body + &emit(emits[0]).replace("{ what = 'x' }", "{}");
        let server = site(&body).tune_route(|route| route.stream = None).start();
        let mut peer = server.connect();
        peer.send(get("/"));
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("tollgate-ack")), (200, level), "{emits:?}");
        assert_eq!(server.records().len(), emits.len() + 1, "{emits:?}");
    }
}

#[test]
fn a_handler_that_fails_leaves_its_own_record_alone() {
    let server = site("tollgate.emit('audit', { what = 'x' }) error('broken')").start();
    server.check(&get("/"), "500", "the script failed\n");
    assert_eq!(server.records(), ["name=null status=500"]);
}

#[test]
fn a_fault_of_a_record_is_an_error_where_it_is_emitted() {
    let body = "local ok, problem = pcall(function()
            local case = req.query.case
            if case == 'stream' then tollgate.emit('audt', {}) end
            if case == 'column' then tollgate.emit('audit', { wat = 1 }) end
            if case == 'table' then tollgate.emit('audit', 'x') end
            if case == 'name' then tollgate.emit(true, {}) end
            if case == 'value' then tollgate.emit('audit', { what = print }) end
            if case == 'json' then tollgate.emit('loose', { x = print }) end
        end)
        return string.match(tostring(problem), 'runtime error: ([^\\n]*)') or tostring(problem)";
    let server = site(body).start();
    for (case, expect) in [
        ("stream", "tollgate.emit: unknown stream \"audt\", did you mean \"audit\"?"),
        (
            "column",
            "tollgate.emit: stream \"audit\" has no column with the source record.wat, \
             did you mean \"what\"?",
        ),
        ("table", "the record of tollgate.emit is a string: allowed is a table"),
        ("name", "the stream of tollgate.emit is a boolean: allowed is a string"),
        ("value", "tollgate.emit: stream \"audit\", what: a function cannot be recorded"),
        ("json", "tollgate.emit: record.x: a function cannot be encoded as JSON"),
    ] {
        let mut peer = server.connect();
        peer.send(get(&format!("/?case={case}")));
        let content = peer.reply(false).content;
        assert!(content.contains(expect), "{case}: {content}");
    }
    assert_eq!(server.records().len(), 6);
}

#[test]
fn a_value_that_does_not_fit_its_column_is_a_reject_of_its_stream() {
    let site = Site::new()
        .stream("own", Level::Synced, &["status int reply.status"])
        .stream("counts", Level::Synced, &["n int record.n"])
        .handler("/", "tollgate.emit('counts', { n = 'many' }) return 'fine'");
    let server = site.start();
    server.check(&get("/"), "200", "fine");
    let records = server.records();
    assert_eq!(records[0], "status=200");
    assert!(records[1].starts_with("reject ") && records[1].contains("\"many\""), "{records:?}");
}

#[test]
fn the_records_that_one_call_emits_are_bounded() {
    let body = "local count = 0
        local ok, problem = pcall(function()
            while true do
                tollgate.emit('audit', { what = string.rep('x', tonumber(req.query.bytes)) })
                count += 1
            end
        end)
        local limit = `exceed limit: {req.query.most} records, 4194304 bytes`
        return `{count} {string.find(tostring(problem), limit) ~= nil}`";
    let server = |most| site(body).tune(|options| options.script.emit_records_max = most).start();
    server(20).check(&get("/?bytes=1&most=20"), "200", "20 true");
    let server = server(1500);
    server.check(&get("/?bytes=1&most=1500"), "200", "1500 true");
    let mut peer = server.connect();
    peer.send(get("/?bytes=65536&most=1500"));
    let content = peer.reply(false).content;
    assert!(content.ends_with(" true") && content.len() < 10, "{content}");
}

#[test]
fn records_that_have_no_room_together_are_a_failure_of_the_script() {
    let body = "for n = 1, 60 do tollgate.emit('audit', { what = string.rep('x', 65536) }) end return 'fine'";
    let server = site(body).tune_log(|log: &mut LogOptions| log.transaction_bytes_max = 1 << 20).start();
    server.check(&get("/"), "500", "the script failed\n");
    assert_eq!(server.records(), ["name=null status=500"]);
}

#[test]
fn nothing_is_emitted_behind_the_head_nor_while_a_script_is_loaded() {
    let body = "return { write = function(out)
            local ok, problem = pcall(tollgate.emit, 'audit', { what = 'x' })
            out:write(tostring(string.find(tostring(problem), 'after the head of the reply') ~= nil))
        end }";
    let server = site(body).start();
    let mut peer = server.connect();
    peer.send(get("/").replace("1.1", "1.0"));
    assert!(peer.rest().ends_with("true"));
    assert_eq!(server.records(), ["name=null status=200"]);
}

#[test]
fn one_reply_does_not_wait_for_two_databases() {
    let loaded = |place| Ack::Loaded { sink: SinkPlace(place), timeout: Duration::from_secs(1) };
    let site = Site::new().stream("first", loaded(0), &["n int record.n"]).stream(
        "second",
        loaded(1),
        &["n int record.n"],
    );
    let server = site
        .handler("/", "tollgate.emit('first', {}) tollgate.emit('second', {}) return 'fine'")
        .tune_route(|route| route.stream = None)
        .start();
    server.check(&get("/"), "500", "the script failed\n");
}

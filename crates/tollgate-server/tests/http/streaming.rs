//! Tests of replies that a script writes while it runs: framing, slow and lost clients, errors, and records.

use std::time::{Duration, Instant};

use tollgate_log::Level;

use crate::asking::{ask, get, until};
use crate::peer::PATIENCE;
use crate::site::{Running, Site};

/// `/parts` writes a part, and writes the next part after a request for `/release`. `/runs` returns the
/// number of calls of its `write` function.
const PARTS: &str = "
    local is_released, runs = false, 0
    return {
        GET = function(req)
            local what = req.params.what
            if what == 'release' then is_released = true return 'released' end
            if what == 'runs' then return tostring(runs) end
            if what == 'plain' then return 'plain' end
            return {
                status = 201,
                headers = { ['x-own'] = 'yes' },
                record = { n = 7 },
                write = function(out)
                    runs += 1
                    out:write('first ')
                    out:write(req.query.q or 'none')
                    while not is_released do tollgate.sleep(0.002) end
                    assert(out:write(buffer.fromstring('second')))
                    out:write('')
                end,
            }
        end,
    }";

/// `/pour` writes blocks up to `mib` MiB. `/written` returns the number of written bytes, and `/end` the
/// result.
const POURER: &str = "
    local written, ending = 0, 'none'
    local block = string.rep('x', 16384)
    return function(req)
        local what = req.params.what
        if what == 'written' then return tostring(written) end
        if what == 'end' then return ending end
        local last = tonumber(req.query.mib) * 64
        return { write = function(out)
            ending = 'under way'
            for i = 1, last do
                if not out:write(block) then ending = 'gone' return end
                written += #block
            end
            ending = 'whole'
        end }
    end";

/// Adds `PARTS` on `/{what}` to a site. The end of a slice between two parts would send them as two
/// chunks, so the slice is longer than the patience of a test.
fn parts(site: Site) -> Site {
    site.script("/{what}", PARTS)
        .tune(|options| (options.script.slice, options.script.cpu_budget) = (PATIENCE, PATIENCE))
}

fn until_not(server: &Running, what: &str, before: &str) {
    let begun = Instant::now();
    while ask(server, what) == before {
        assert!(begun.elapsed() < PATIENCE, "{what} is still {before}");
    }
}

/// Repeats a request until the answer stays the same, and returns the answer.
fn settled(server: &Running, what: &str) -> u64 {
    let begun = Instant::now();
    let mut before = String::new();
    let mut since = Instant::now();
    loop {
        let now = ask(server, what);
        if now != before {
            (before, since) = (now, Instant::now());
        } else if since.elapsed() > Duration::from_millis(300) {
            return before.parse().unwrap();
        }
        assert!(begun.elapsed() < PATIENCE, "{what} is {before} and changes");
    }
}

#[test]
fn parts_leave_as_chunks_when_they_are_written_and_the_connection_goes_on() {
    let server = parts(Site::new()).start();
    let mut peer = server.connect();
    peer.send([get("/parts?q=here"), get("/plain")].concat());
    let head = peer.head();
    assert_eq!(head.status, 201);
    assert_eq!(head.field("transfer-encoding"), Some("chunked"));
    assert_eq!(head.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!((head.field("x-own"), head.field("content-length")), (Some("yes"), None));
    peer.expect_bytes(b"a\r\nfirst here\r\n");
    assert_eq!(ask(&server, "/release"), "released");
    peer.expect_bytes(b"6\r\nsecond\r\n0\r\n\r\n");
    peer.expect("200", "plain");
    peer.send(get("/plain"));
    peer.expect("200", "plain");
}

#[test]
fn a_streamed_reply_waits_for_those_before_it() {
    let server = parts(Site::new()).handler("/nap", "tollgate.sleep(0.05) return 'nap'").start();
    ask(&server, "/release");
    let mut peer = server.connect();
    peer.send([get("/nap"), get("/parts"), get("/nap"), get("/parts")].concat());
    for _ in 0..2 {
        peer.expect("200", "nap");
        assert_eq!(peer.head().status, 201);
        let content = peer.through(b"\r\n0\r\n\r\n");
        assert!(content.contains("first none"), "{content}");
    }
}

#[test]
fn a_content_for_http_1_0_ends_with_the_connection() {
    let server = parts(Site::new()).start();
    ask(&server, "/release");
    let mut peer = server.connect();
    peer.send("GET /parts HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let head = peer.head();
    assert_eq!((head.field("transfer-encoding"), head.field("connection")), (None, Some("close")));
    peer.expect_bytes(b"first nonesecond");
    peer.expect_end();
}

#[test]
fn a_content_for_http_1_0_that_a_drain_cuts_does_not_look_whole() {
    let short =
        |options: &mut tollgate_server::ServerOptions| options.drain_timeout = Duration::from_millis(200);
    let server = parts(Site::new()).tune(short).start();
    let mut peer = server.connect();
    peer.send("GET /parts HTTP/1.0\r\n\r\n");
    assert_eq!(peer.head().status, 201);
    peer.expect_bytes(b"first none");
    drop(server.drain());
    peer.expect_reset();
}

#[test]
fn head_gets_the_head_alone_and_nothing_is_written() {
    let server = parts(Site::new()).start();
    let mut peer = server.connect();
    peer.send(["HEAD /parts HTTP/1.1\r\nHost: a\r\n\r\n", &get("/runs")].concat());
    let head = peer.head();
    assert_eq!((head.status, head.field("transfer-encoding")), (201, Some("chunked")));
    peer.expect("200", "0");
}

#[test]
fn a_request_whose_reply_is_streamed_is_recorded_once_before_it_leaves() {
    let columns =
        ["n int record.n", "status int reply.status", "bytes int reply.bytes", "outcome text reply.outcome"];
    let server = parts(Site::new().stream("all", Level::Synced, &columns)).start();
    let mut peer = server.connect();
    peer.send(get("/parts"));
    peer.head();
    peer.expect_bytes(b"a\r\nfirst none\r\n");
    // The content has begun, and will never be complete.
    peer.reset();
    assert_eq!(server.records(), ["n=7 status=201 bytes=null outcome=streamed"]);
}

#[test]
fn an_error_behind_the_head_breaks_the_connection() {
    let body = "return { write = function(out) out:write('some') tollgate.sleep(0.01) error('late') end }";
    let endless =
        "return { write = function(out) out:write('some') tollgate.sleep(0) while true do end end }";
    let waits = "return { write = function(out) out:write('some') tollgate.sleep(3600) end }";
    let server = Site::new()
        .handler("/error", body)
        .handler("/endless", endless)
        .handler("/waits", waits)
        .handler("/fine", "return 'fine'")
        .tune(|options| options.script.wall_budget = Duration::from_millis(100))
        .start();
    for target in ["/error", "/endless", "/waits"] {
        let mut peer = server.connect();
        peer.send([get(target), get("/fine")].concat());
        assert_eq!(peer.head().status, 200);
        peer.expect_bytes(b"4\r\nsome\r\n");
        peer.expect_end();
        let mut peer = server.connect();
        peer.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
        peer.head();
        peer.expect_reset();
    }
    assert_eq!(ask(&server, "/fine"), "fine");
}

#[test]
fn a_slow_client_slows_the_script_down_and_gets_all() {
    let server = Site::new().script("/{what}", POURER).start();
    let mut peer = server.connect();
    peer.send("GET /pour?mib=64 HTTP/1.0\r\n\r\n");
    until_not(&server, "/written", "0");
    let written = settled(&server, "/written");
    assert!(written < 48 << 20, "{written} bytes were written for a client that takes nothing");
    peer.head();
    let came = peer.left();
    assert_eq!(came + peer.sip(1 << 20, Duration::ZERO), 64 << 20);
    until(&server, "/end", "whole");
}

#[test]
fn a_script_hears_that_its_client_is_gone() {
    let server = Site::new().script("/{what}", POURER).start();
    let mut peer = server.connect();
    peer.send(get("/pour?mib=4096"));
    until_not(&server, "/written", "0");
    settled(&server, "/written");
    peer.reset();
    until(&server, "/end", "gone");
}

#[test]
fn a_client_that_takes_nothing_for_too_long_is_cut_off() {
    let server = Site::new()
        .script("/{what}", POURER)
        .tune(|options| options.connection.write_timeout = Duration::from_millis(100))
        .start();
    let mut peer = server.connect();
    peer.send(get("/pour?mib=4096"));
    until(&server, "/end", "gone");
    drop(peer);
}

#[test]
fn a_client_that_leaves_ends_a_stream_that_sleeps() {
    let script = "
        local ticks = 0
        return function(req)
            if req.params.what == 'ticks' then return tostring(ticks) end
            return { write = function(out)
                out:write('begun')
                while true do tollgate.sleep(0.01) ticks += 1 end
            end }
        end";
    let server = Site::new().script("/{what}", script).start();
    let mut peer = server.connect();
    peer.send(get("/ticker"));
    peer.head();
    peer.expect_bytes(b"5\r\nbegun\r\n");
    peer.reset();
    settled(&server, "/ticks");
}

#[test]
fn budgets_of_a_stream_begin_anew_with_each_wait() {
    let body = "local function burn() local stop = os.clock() + 0.02 while os.clock() < stop do end end
        return { write = function(out)
            for i = 1, 8 do
                burn()
                local garbage = string.rep(tostring(i), 3e6)
                out:write(tostring(i))
                tollgate.sleep(0)
            end
        end }";
    let server = Site::new()
        .handler("/burn", body)
        .tune(|options| options.script.memory_bytes_max = 8 << 20)
        .tune(|options| options.script.cpu_budget = Duration::from_millis(100))
        .start();
    let mut peer = server.connect();
    peer.send("GET /burn HTTP/1.0\r\n\r\n");
    peer.head();
    peer.expect_bytes(b"12345678");
    peer.expect_end();
}

#[test]
fn a_stream_that_runs_gives_others_their_turn() {
    let script = "
        local is_over = false
        return function(req)
            if req.params.what == 'end' then is_over = true return 'ended' end
            return { write = function(out) while not is_over do out:write('x') end end }
        end";
    let server = Site::new().script("/{what}", script).start();
    let mut peer = server.connect();
    peer.send("GET /run HTTP/1.0\r\n\r\n");
    peer.head();
    peer.expect_bytes(b"xxx");
    let ending = std::thread::spawn(move || ask(&server, "/end"));
    // A stream that failed would end with a reset, so this read shows a regular end.
    assert_eq!(peer.rest().replace('x', ""), "");
    assert_eq!(ending.join().unwrap(), "ended");
}

#[test]
fn a_malformed_streamed_reply_is_a_500() {
    let server = Site::new()
        .handler("/204", "return { status = 204, write = function() end }")
        .handler("/both", "return { body = 'a', write = function() end }")
        .handler("/text", "return { events = 'no function' }")
        .start();
    for target in ["/204", "/both", "/text"] {
        server.check(&get(target), "500", "the script failed\n");
    }
}

#[test]
fn an_out_of_another_reply_is_an_error_and_so_is_a_value_that_is_no_text() {
    let script = "
        local kept
        return function(req)
            local what = req.params.what
            return { write = function(out)
                if what == 'keep' then kept = out end
                local ok, problem = pcall(function()
                    if what == 'other' then kept:write('a') end
                    if what == 'number' then out:write(1) end
                    if what == 'dot' then out.write('a') end
                    if what == 'own' then coroutine.wrap(function() out:write('a') end)() end
                end)
                out:write(string.match(tostring(problem), '[^\\n]*'))
            end }
        end";
    let server = Site::new().script("/{what}", script).start();
    for (what, expect) in [
        ("keep", "nil"),
        ("other", "this out belongs to another reply: use it only while its reply is written"),
        ("number", "argument of out:write is a number: allowed are a string, a buffer"),
        ("dot", "out is a string: call out:write(text)"),
        ("own", "out:write cannot wait inside a coroutine of the script: call it outside"),
    ] {
        let mut peer = server.connect();
        peer.send(format!("GET /{what} HTTP/1.0\r\n\r\n"));
        peer.head();
        let content = peer.rest();
        assert!(content.ends_with(expect), "{what}: {content}");
    }
}

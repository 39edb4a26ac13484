//! Tests of server-sent events: valid forms, refused forms, and the end of a stream.

use std::thread;
use std::time::{Duration, Instant};

use crate::peer::PATIENCE;
use crate::peer::Peer;
use crate::site::{Running, Site};

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Requests events with HTTP/1.0, so that they arrive without chunks, and reads the head.
fn listen(server: &Running, target: &str) -> Peer {
    let mut peer = server.connect();
    peer.send(format!("GET {target} HTTP/1.0\r\nLast-Event-ID: 41\r\n\r\n"));
    let head = peer.head();
    assert_eq!(head.status, 200);
    assert_eq!(head.field("content-type"), Some("text/event-stream"));
    assert_eq!(head.field("cache-control"), Some("no-store"));
    assert_eq!(head.field("x-accel-buffering"), Some("no"));
    peer
}

#[test]
fn events_have_the_form_that_browsers_read() {
    let body = "return { events = function(out)
            out:send{ data = 'plain' }
            out:send{ event = 'tick', id = tostring(tonumber(req.headers['last-event-id']) + 1), retry = 1500, data = 'a\\nb\\r\\nc\\rd' }
            out:send{ id = '' }
            out:send{ data = '' }
        end }";
    let server = Site::new().handler("/events", body).start();
    let mut peer = listen(&server, "/events");
    peer.expect_bytes(b"data: plain\n\nevent: tick\nid: 42\nretry: 1500\ndata: a\ndata: b\ndata: c\ndata: d\n\nid: \n\ndata: \n\n");
    peer.expect_end();
}

#[test]
fn a_script_may_set_the_fields_of_a_stream_of_events_itself() {
    let body = "return { headers = { ['X-Accel-Buffering'] = 'yes', ['cache-control'] = 'private' },
        events = function(out) out:send{ data = 'plain' } end }";
    let server = Site::new().handler("/events", body).start();
    let mut peer = server.connect();
    peer.send(get("/events"));
    let head = peer.head();
    let lines = ["X-Accel-Buffering: yes", "cache-control: private"];
    let own = ["buffering", "cache-control"].map(|name| head.head.to_lowercase().matches(name).count());
    assert!(lines.iter().all(|line| head.head.contains(line)) && own == [1, 1], "{}", head.head);
}

#[test]
fn an_event_that_would_be_another_is_refused() {
    let body = "return { events = function(out)
            local ok, problem = pcall(function()
                local case = req.query.case
                if case == 'event' then out:send{ event = 'a\\nb' } end
                if case == 'id' then out:send{ id = 'a\\rb' } end
                if case == 'nul' then out:send{ id = 'a\\0b' } end
                if case == 'retry' then out:send{ retry = 1.5 } end
                if case == 'name' then out:send{ dat = 'x' } end
                if case == 'empty' then out:send{} end
                if case == 'text' then out:send('x') end
                if case == 'number' then out:send{ data = 1 } end
            end)
            out:send{ data = string.match(tostring(problem), '[^\\n]*') }
        end }";
    let server = Site::new().handler("/events", body).start();
    for (case, expect) in [
        ("event", "event has a line break or NUL"),
        ("id", "id has a line break or NUL"),
        ("nul", "id has a line break or NUL"),
        ("retry", "retry is 1.5: allowed are whole milliseconds from 0 to 1000000000"),
        ("name", "unknown field \"dat\", did you mean \"data\"?: allowed are event, data, id, retry"),
        ("empty", "an event has no field: add one, such as data"),
        ("text", "an event is a string: allowed is a table"),
        ("number", "data is a number: allowed is a string"),
    ] {
        let mut peer = listen(&server, &format!("/events?case={case}"));
        let content = peer.rest();
        assert!(content.ends_with(&format!("out:send: {expect}\n\n")), "{case}: {content}");
    }
}

#[test]
fn a_pause_is_filled_with_comments() {
    let body = "return { events = function(out) out:send{ data = 'a' } tollgate.sleep(3600) end }";
    let server = Site::new()
        .handler("/events", body)
        .tune(|options| options.script.heartbeat = Duration::from_millis(20))
        // The wall budget is short, because it must not end a stream of events.
        .tune(|options| options.script.wall_budget = Duration::from_millis(30))
        .start();
    let mut peer = listen(&server, "/events");
    peer.expect_bytes(b"data: a\n\n:\n\n:\n\n:\n\n:\n\n:\n\n");
}

#[test]
fn the_fields_that_the_script_sets_in_its_reply_count() {
    let body = "return {
            headers = { ['cache-control'] = 'no-cache', ['content-type'] = 'text/event-stream; charset=utf-8' },
            events = function(out) end,
        }";
    let server = Site::new().handler("/events", body).start();
    let mut peer = server.connect();
    peer.send(get("/events"));
    let head = peer.head();
    assert_eq!(head.field("cache-control"), Some("no-cache"));
    assert_eq!(head.field("content-type"), Some("text/event-stream; charset=utf-8"));
    peer.expect_bytes(b"0\r\n\r\n");
}

#[test]
fn a_server_that_drains_ends_them_as_if_they_were_whole() {
    let quiet = "return { events = function(out) out:send{ data = 'a' } tollgate.sleep(3600) end }";
    let busy =
        "return { events = function(out) while out:send{ data = 'a' } do tollgate.sleep(0.001) end end }";
    for body in [quiet, busy] {
        let server =
            Site::new().handler("/events", body).tune(|options| options.drain_timeout = 2 * PATIENCE).start();
        let mut peer = server.connect();
        peer.send(get("/events"));
        peer.head();
        peer.expect_bytes(b"9\r\ndata: a\n\n\r\n");
        let begun = Instant::now();
        let draining = thread::spawn(move || server.drain());
        assert!(peer.rest().ends_with("0\r\n\r\n"));
        draining.join().unwrap();
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[test]
fn a_client_that_left_is_found_out_by_the_comments() {
    let script = "
        local listening = 0
        return function(req)
            if req.params.what == 'listening' then return tostring(listening) end
            return { events = function(out)
                listening += 1
                while out:send{ data = string.rep('x', 1000) } do end
                listening -= 1
            end }
        end";
    let server = Site::new().script("/{what}", script).start();
    let peer = listen(&server, "/events");
    drop(peer);
    let begun = Instant::now();
    loop {
        let mut other = server.connect();
        other.send(get("/listening"));
        if other.reply(false).content == "0" {
            break;
        }
        assert!(begun.elapsed() < PATIENCE);
    }
}

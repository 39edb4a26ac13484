//! Tests of scripts whose calls keep memory. The VM of such scripts is replaced while it serves requests.

use std::fs;
use std::time::{Duration, Instant};

use tollgate_server::AppSpec;

use crate::peer::PATIENCE;
use crate::peer::{Peer, Reply};
use crate::site::{Running, Site};

/// Script that keeps about 100 KB of each call in a local of its file. The script returns the number of kept
/// tables, and the number of calls.
const HOARD: &str = "local kept = {}
    return function(req)
        local mine = {}
        for i = 1, 1000 do mine[i] = { i } end
        table.insert(kept, mine)
        return #kept .. ' of ' .. tollgate.shared.incr('calls', 1)
    end";

fn small(site: Site) -> Site {
    site.tune(|options| {
        options.script.memory_bytes_max = 1 << 20;
        options.script.vm_bytes_max = 8 << 20;
    })
}

fn ask(peer: &mut Peer, path: &str) -> Reply {
    peer.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    peer.reply(false)
}

/// Calls `path` until VMs were replaced `count` times.
fn hoard(server: &Running, path: &str, count: u64) {
    let mut peer = server.connect();
    until(|| {
        ask(&mut peer, path);
        server.vms_replaced() >= count
    });
}

fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not after {PATIENCE:?}");
    }
}

#[test]
fn a_vm_that_keeps_too_much_is_replaced_while_others_are_served() {
    let server = small(Site::new()).script("/hoard", HOARD).handler("/other", "return 'other'").start();
    let (mut hoarder, mut other) = (server.connect(), server.connect());
    let (mut calls, mut last, mut falls) = (0, 0, 0);
    until(|| {
        let neighbour = ask(&mut other, "/other");
        let reply = ask(&mut hoarder, "/hoard");
        if reply.status == 503 {
            // The new VM is full, and cannot be replaced so soon after the earlier VM.
            assert!(reply.field("retry-after").is_some(), "{reply:?}");
            return false;
        }
        // The other script may be refused only after the first replacement.
        assert!(neighbour.content == "other" || server.vms_replaced() > 0, "{neighbour:?}");
        calls += 1;
        let (kept, all) = reply.content.split_once(" of ").unwrap();
        let kept: u64 = kept.parse().unwrap();
        // Shared values are outside of the VM, so the count continues.
        assert_eq!(all, calls.to_string());
        if kept <= last {
            assert_eq!(kept, 1);
            falls += 1;
        }
        last = kept;
        falls == 2
    });
    assert!(server.vms_replaced() >= 2);
}

#[test]
fn garbage_is_no_reason_to_replace_a_vm() {
    let garbage = "local calls = 0
        return function(req)
            calls += 1
            local garbage = table.create(700000, 1)
            return tostring(calls)
        end";
    // The slice is long, so that no call is suspended: the memory of a suspended call is not garbage.
    let site = small(Site::new()).tune(|options| {
        options.script.memory_bytes_max = 16 << 20;
        (options.script.slice, options.script.cpu_budget) = (Duration::from_secs(5), Duration::from_secs(5));
    });
    let server = site.script("/garbage", garbage).start();
    let mut peer = server.connect();
    for call in 1..=50 {
        // Each call needs more memory than the VM may keep. A call may be refused before the garbage is
        // collected.
        until(|| {
            let reply = ask(&mut peer, "/garbage");
            assert!(reply.status == 503 || reply.content == call.to_string(), "{reply:?}");
            reply.status == 200
        });
    }
    assert_eq!(server.vms_replaced(), 0);
}

#[test]
fn coroutines_that_are_never_resumed_go_with_their_vm() {
    let coroutines = "local kept = {}
        return function(req)
            for i = 1, 200 do
                local sleeper = coroutine.create(function() local held = { i } coroutine.yield() return held end)
                coroutine.resume(sleeper)
                table.insert(kept, sleeper)
            end
            return tostring(#kept)
        end";
    let server = small(Site::new()).script("/sleepers", coroutines).start();
    hoard(&server, "/sleepers", 2);
    until(|| ask(&mut server.connect(), "/sleepers").status == 200);
}

#[test]
fn a_call_ends_in_the_vm_that_it_began_in() {
    let script = "local generation = tollgate.shared.incr('generations', 1)
        local kept = {}
        return function(req)
            if req.params.what == 'wait' then
                kept.mark = 'mine'
                tollgate.shared.set('state', 'waits')
                while not tollgate.shared.get('go') do tollgate.sleep(0.01) end
                return generation .. kept.mark
            elseif req.params.what == 'hoard' then
                table.insert(kept, string.rep('x', 500000 + #kept))
            end
            return generation .. tostring(tollgate.shared.get('state'))
        end";
    let site = small(Site::new()).script("/{what}", script);
    // An app has a separate VM. The calls of this app keep nothing.
    let site = site.handler("/app/go", "tollgate.shared.set('go', true) return 204").tune(|options| {
        options.routes.last_mut().unwrap().app = Some(0);
        let (base, streams, script) = ("/app".to_owned(), Vec::new(), options.script.clone());
        options.apps.push(AppSpec { base, host: None, streams, script });
    });
    let server = site.start();
    let mut waits = server.connect();
    waits.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    until(|| ask(&mut server.connect(), "/look").content == "1waits");
    hoard(&server, "/hoard", 1);
    assert_eq!(ask(&mut server.connect(), "/look").content, "2waits");
    // No third VM is created before the calls in the first VM have ended. Until then the second VM fills up,
    // and its calls are refused.
    let mut peer = server.connect();
    until(|| ask(&mut peer, "/hoard").status == 503);
    assert_eq!(server.vms_replaced(), 1);
    assert!(server.refusals("script_memory") > 0);
    let refused = ask(&mut peer, "/hoard");
    assert_eq!(refused.field("tollgate-outcome"), Some("refused"), "{refused:?}");
    assert_eq!(ask(&mut peer, "/app/go").status, 204);
    waits.expect("200", "1mine");
    until(|| server.vms_replaced() == 2);
    assert_eq!(ask(&mut server.connect(), "/look").content, "3waits");
}

#[test]
fn a_vm_is_made_again_of_what_it_was_made_of() {
    let script = "local text = require('text') local kept = {}
        return function(req)
            table.insert(kept, string.rep('x', 500000 + #kept))
            return text .. #kept
        end";
    let site = small(Site::new()).file("text.luau", "return 'first'").script("/a", script);
    let (module, file) = (site.folder().join("text.luau"), site.folder().join("route0.luau"));
    let server = site.start();
    fs::write(module, "return 'second'").unwrap();
    fs::remove_file(file).unwrap();
    hoard(&server, "/a", 1);
    let mut peer = server.connect();
    until(|| {
        let reply = ask(&mut peer, "/a");
        assert!(reply.status == 503 || reply.content.starts_with("first"), "{reply:?}");
        reply.content == "first1" || server.vms_replaced() > 1
    });
}

#[test]
fn scripts_that_do_not_load_again_serve_on_in_the_old_vm() {
    let script = "local times, kept = tollgate.shared.incr('loaded', 1), {}
        assert(times ~= 2, 'not twice')
        return function(req)
            table.insert(kept, string.rep('x', 500000 + #kept))
            return times .. ' ' .. #kept
        end";
    let server = small(Site::new()).script("/a", script).handler("/other", "return 'other'").start();
    let mut peer = server.connect();
    let mut last = 0;
    // The second load of the script fails, and the third load succeeds.
    until(|| {
        assert!([200, 503].contains(&ask(&mut peer, "/other").status));
        let reply = ask(&mut peer, "/a");
        if reply.status == 503 {
            return false;
        }
        let (times, kept) = reply.content.split_once(' ').unwrap();
        let kept: u64 = kept.parse().unwrap();
        assert!(times == "3" || times == "1" && kept > last, "{reply:?}");
        last = kept;
        times == "3"
    });
    assert_eq!(server.vms_replaced(), 1);
}

#[test]
fn replies_that_stream_on_in_a_vm_that_was_replaced_end() {
    let script = "local kept = {}
        return function(req)
            if req.params.what == 'events' then
                return { events = function(out) out:send{ data = 'a' } while true do tollgate.sleep(0.01) end end }
            elseif req.params.what == 'idle' then
                return { events = function(out) tollgate.sleep(86400) end }
            elseif req.params.what == 'write' then
                return { write = function(out) out:write('a') while true do tollgate.sleep(0.01) end end }
            end
            table.insert(kept, string.rep('x', 500000 + #kept))
            return 204
        end";
    let server = small(Site::new())
        .script("/{what}", script)
        .tune(|options| options.script.wall_budget = Duration::from_millis(100))
        .tune(|options| options.script.heartbeat = Duration::from_millis(50))
        .start();
    let (mut events, mut idle, mut write) = (server.connect(), server.connect(), server.connect());
    for (peer, path) in [(&mut events, "/events"), (&mut idle, "/idle"), (&mut write, "/write")] {
        peer.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        peer.head();
    }
    events.expect_bytes(b"9\r\ndata: a\n\n");
    write.expect_bytes(b"1\r\na\r\n");
    hoard(&server, "/hoard", 1);
    // The reply is complete, and the connection stays open.
    for mut peer in [events, idle] {
        peer.through(b"\r\n0\r\n\r\n");
        until(|| ask(&mut peer, "/other").status == 204);
    }
    write.expect_end();
    // The VM can be replaced again, because no call holds the earlier VM any more.
    hoard(&server, "/hoard", 2);
}

#[test]
fn a_reload_has_scripts_in_a_vm_of_its_own_and_bounds() {
    let site = small(Site::new()).script("/hoard", HOARD);
    let options = site.options.clone();
    let server = site.start();
    server.reload(options);
    hoard(&server, "/hoard", 1);
}

//! Tests of a slow disk: requests whose records would wait for the disk are refused before any other work.
//! All other requests are answered.

use std::thread;
use std::time::{Duration, Instant};

use tollgate_log::Level;

use crate::asking::{ask, get, until};
use crate::peer::PATIENCE;
use crate::peer::{Peer, Reply};
use crate::site::{Running, Site};
use crate::stalling_disk::{Stall, StallingDisk};

/// Maximum age of the queue. The value is short, so that a test can wait for this age.
const AGE_MAX: Duration = Duration::from_millis(20);
const SCRIPT: &str = "return function(req)
    if req.path == '/runs' then return tostring(tollgate.shared.get('runs') or 0) end
    tollgate.shared.incr('runs', 1)
    return { body = 'kept', record = { n = tonumber(req.query.n) } }
end";

/// Starts a server with streams of three ack levels, a route for each, and routes without a stream.
fn server(disk: &StallingDisk) -> Running {
    let site = Site::new().disk(disk.storage()).tune_log(|log| log.queue_age_max = AGE_MAX);
    let columns = ["n int record.n"];
    let site = site.stream("synced", Level::Synced, &columns);
    let site = site.stream("written", Level::Written, &columns).stream("received", Level::Received, &columns);
    let site = site.script("/synced", SCRIPT).script("/written", SCRIPT).tune_route(|to| to.stream = Some(1));
    let site = site.script("/received", SCRIPT).tune_route(|to| to.stream = Some(2));
    let site = site.collect("/collect").script("/runs", SCRIPT).tune_route(|to| to.stream = None);
    let site = site.fixed("/fixed", "fixed").file("public/file", "file");
    site.files("/files/*", |_| {}).tune_route(|to| to.stream = None).start()
}

/// Sends a request whose reply waits for the disk, and waits until its record is older than `AGE_MAX`.
fn with_old_queue(server: &Running, target: &str) -> Peer {
    let mut peer = server.connect();
    peer.send(get(target));
    wait_until("the queue is old", || server.log_status().queue_age > AGE_MAX);
    peer
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it never came to be that {what}");
        thread::yield_now();
    }
}

/// Sends requests on new connections until the status is 200. Several requests may be needed, because the
/// thread of the writer may run late.
fn until_taken(server: &Running, target: &str) {
    wait_until("it is taken", || {
        let mut peer = server.connect();
        peer.send(get(target));
        peer.reply(false).status == 200
    });
}

fn check_refused(reply: &Reply) {
    let told = (reply.status, reply.field("tollgate-outcome"), reply.field("retry-after"));
    assert_eq!(told, (503, Some("refused"), Some("1")), "{reply:?}");
    assert_eq!(reply.content, "the disk is too slow: nothing was recorded\n");
}

fn refuse(server: &Running, request: &str) -> Peer {
    let mut peer = server.connect();
    peer.send(request);
    check_refused(&peer.reply(false));
    peer
}

#[test]
fn requests_that_would_wait_for_a_hanging_sync_are_refused_before_their_script() {
    let disk = StallingDisk::new();
    let server = server(&disk);
    disk.stall(Stall::Syncs);
    let mut first = with_old_queue(&server, "/synced?n=1");
    refuse(&server, &get("/synced?n=2"));
    // The connection stays open after this refusal.
    let mut peer = refuse(&server, &get("/synced?n=3"));
    peer.send([get("/fixed"), get("/synced?n=4")].concat());
    peer.expect("200", "fixed");
    check_refused(&peer.reply(false));
    // No content of these requests is sent.
    let head = "Host: a\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n";
    for target in ["/synced", "/collect"] {
        refuse(&server, &format!("POST {target} HTTP/1.1\r\n{head}\r\n")).expect_end();
        refuse(&server, &format!("POST {target} HTTP/1.1\r\n{head}Expect: 100-continue\r\n\r\n"))
            .expect_end();
    }
    assert_eq!(ask(&server, "/runs"), "1");
    assert_eq!(server.refusals("log_queue"), 7);
    server.check(&get("/fixed"), "200", "fixed");
    server.check(&get("/files/file"), "200", "file");
    server.check(&get("/received?n=5"), "200", "kept");
    until_taken(&server, "/written?n=6");
    disk.stall(Stall::None);
    first.expect("200", "kept");
    until_taken(&server, "/synced?n=7");
    assert_eq!(server.records(), ["n=1", "n=5", "n=6", "n=7"]);
}

#[test]
fn written_is_refused_too_and_received_is_taken_while_a_write_hangs() {
    let disk = StallingDisk::new();
    let server = server(&disk);
    disk.stall(Stall::Writes);
    let mut first = with_old_queue(&server, "/written?n=1");
    refuse(&server, &get("/written?n=2"));
    refuse(&server, &get("/synced?n=3"));
    server.check(&get("/received?n=4"), "200", "kept");
    assert_eq!(ask(&server, "/runs"), "2");
    assert_eq!(server.refusals("log_queue"), 2);
    disk.stall(Stall::None);
    first.expect("200", "kept");
    until_taken(&server, "/written?n=5");
    until_taken(&server, "/synced?n=6");
    assert_eq!(server.records(), ["n=1", "n=4", "n=5", "n=6"]);
}

#[test]
fn a_script_that_ran_before_the_disk_was_behind_is_refused_when_it_returns() {
    let disk = StallingDisk::new();
    let site = Site::new().disk(disk.storage()).tune_log(|log| log.queue_age_max = AGE_MAX);
    let script = "return function(req)
        local shared = tollgate.shared
        if req.path == '/set' then shared.set(req.query.key, true) return 'set' end
        if req.path == '/get' then return tostring(shared.get(req.query.key) or false) end
        if req.query.n == '1' then
            shared.set('begun', true)
            while not shared.get('go') do tollgate.sleep(0.001) end
        end
        return { body = 'kept', record = { n = tonumber(req.query.n) } }
    end";
    let site = site.stream("synced", Level::Synced, &["n int record.n"]).script("/synced", script);
    let server = site.script("/{what}", script).tune_route(|to| to.stream = None).start();
    let mut slow = server.connect();
    slow.send(get("/synced?n=1"));
    until(&server, "/get?key=begun", "true");
    disk.stall(Stall::Syncs);
    let mut first = with_old_queue(&server, "/synced?n=2");
    assert_eq!(ask(&server, "/set?key=go"), "set");
    check_refused(&slow.reply(false));
    disk.stall(Stall::None);
    first.expect("200", "kept");
    assert_eq!(server.records(), ["n=2"]);
}

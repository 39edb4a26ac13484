//! Tests of requests that are sent before earlier requests are answered (RFC 9112 section 9.3.2). The tests
//! check the requests that run at the same time, and the order of replies and records. The tests also check
//! the number of requests, and the end of requests when the connection ends.
//!
//! Slow handlers are scripts that run longer than their slice. A script that must wait for another request
//! watches a shared value.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_log::Level;

use crate::asking::{ask, get, until};
use crate::peer::PATIENCE;
use crate::peer::Peer;
use crate::site::{NEXT, Running, Site};

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Function whose work is longer than two slices.
const BURN: &str = "local function burn() local n = 0 while n < 600000 do n += 1 end end\n";

/// `/hold` returns after a request for `/release`, and `/quick` returns at once. `/entered` returns the
/// number of calls of both that have begun. `/spins` returns the progress of the held calls.
const GATE: &str = "
    local entered, spins, is_released = 0, 0, false
    return function(req)
        local what = req.params.what
        if what == 'release' then is_released = true end
        if what == 'entered' then return tostring(entered) end
        if what == 'spins' then return tostring(spins) end
        if what == 'ping' then return 'pong' end
        entered += 1
        while what == 'hold' and not is_released do spins += 1 end
        return { body = what, record = { n = tonumber(req.query.n) } }
    end";

fn recorded() -> Site {
    let columns = ["n int record.n", "status int reply.status", "outcome text reply.outcome"];
    patient(Site::new().stream("all", Level::Synced, &columns))
}

/// Sets a CPU budget that is longer than a test.
fn patient(site: Site) -> Site {
    site.tune(|options| options.script.cpu_budget = 2 * PATIENCE)
}

fn burning(site: Site) -> Site {
    let tail = "return function(req) burn() return { body = req.params.n, record = { n = tonumber(req.params.n) } } end";
    site.script("/burn/{n}", &format!("{BURN}{tail}"))
}

fn gate(site: Site) -> Site {
    site.script("/{what}", GATE)
}

/// Waits until no held call runs any more, because all of them were cancelled.
fn until_still(server: &Running) {
    let begun = Instant::now();
    let mut before = String::new();
    loop {
        let spins = ask(server, "/spins");
        if spins == before {
            return;
        }
        before = spins;
        assert!(begun.elapsed() < PATIENCE, "handlers run on");
    }
}

fn expect_all(peer: &mut Peer, contents: &[&str]) {
    for content in contents {
        peer.expect("200", content);
    }
}

#[test]
fn safe_requests_run_side_by_side() {
    let script = "
        local arrived = 0
        return function(req)
            arrived += 1
            while arrived < 16 do end
            return req.params.n
        end";
    let server = patient(Site::new()).script("/meet/{n}", script).start();
    let mut peer = server.connect();
    let numbers: Vec<_> = (0..16).map(|n| n.to_string()).collect();
    peer.send(numbers.iter().map(|n| get(&format!("/meet/{n}"))).collect::<String>());
    for n in &numbers {
        peer.expect("200", n);
    }
}

#[test]
fn a_request_that_comes_later_joins_those_that_run() {
    let server = gate(patient(Site::new())).start();
    let mut peer = server.connect();
    peer.send(get("/hold"));
    until(&server, "/entered", "1");
    peer.send(get("/release"));
    expect_all(&mut peer, &["hold", "release"]);
}

#[test]
fn replies_and_records_are_in_the_order_of_the_requests_whoever_returns_first() {
    let script = "
        local left = 8
        return function(req)
            local n = tonumber(req.params.n)
            while left ~= n do end
            left -= 1
            return { body = req.params.n, record = { n = n } }
        end";
    let server = recorded().script("/last-first/{n}", script).start();
    let mut peer = server.connect();
    peer.send((1..=8).map(|n| get(&format!("/last-first/{n}"))).collect::<String>());
    expect_all(&mut peer, &["1", "2", "3", "4", "5", "6", "7", "8"]);
    drop(peer);
    let expect: Vec<_> = (1..=8).map(|n| format!("n={n} status=200 outcome=complete")).collect();
    assert_eq!(server.records(), expect);
}

#[test]
fn a_reply_does_not_wait_for_the_requests_behind_it() {
    let server = burning(gate(patient(Site::new()))).start();
    let mut peer = server.connect();
    peer.send([get("/burn/1"), get("/hold")].concat());
    peer.expect("200", "1");
    assert_eq!(ask(&server, "/release"), "release");
    peer.expect("200", "hold");
}

#[test]
fn an_unsafe_request_waits_for_those_before_it_and_those_behind_wait_for_it() {
    let script = "
        local state = 'before'
        local function watch() local seen = state burn() return seen .. '-' .. state end
        local function change() state = 'during' burn() state = 'after' return state end
        return { GET = watch, OPTIONS = watch, POST = change, PUT = change, PATCH = change, DELETE = change }";
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let server = patient(Site::new()).script("/state", &format!("{BURN}{script}")).start();
        let mut peer = server.connect();
        let ask = |method: &str| format!("{method} /state HTTP/1.1\r\nHost: a\r\n\r\n");
        peer.send([ask("GET"), ask("OPTIONS"), ask(method), ask("GET"), ask(method), ask("GET")].concat());
        let before = "before-before";
        expect_all(&mut peer, &[before, before, "after", "after-after", "after", "after-after"]);
    }
}

#[test]
fn an_unsafe_request_is_entered_before_the_replies_ahead_of_it_are_taken() {
    let big = "return function(req) burn() return string.rep('x', 8000000) end";
    let note = "
        local noted = 'no'
        return { GET = function() return noted end, POST = function() burn() noted = 'yes' return 'done' end }";
    let server = patient(Site::new())
        .script("/big", &format!("{BURN}{big}"))
        .script("/note", &format!("{BURN}{note}"))
        .start();
    let mut peer = server.connect();
    peer.send([get("/big"), "POST /note HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()].concat());
    // The second handler runs although no byte of the first reply was read.
    until(&server, "/note", "yes");
    assert_eq!(peer.reply(false).content.len(), 8_000_000);
    peer.expect("200", "done");
}

#[test]
fn no_more_run_than_the_depth_allows() {
    let server = gate(patient(Site::new())).tune(|options| options.connection.pipeline_depth_max = 4).start();
    let mut peer = server.connect();
    peer.send(get("/hold").repeat(10));
    until(&server, "/entered", "4");
    // These requests show that the running calls had several turns.
    (0..10).for_each(|_| server.check(&get("/ping"), "200", "pong"));
    assert_eq!([ask(&server, "/entered"), ask(&server, "/release")], ["4", "release"]);
    expect_all(&mut peer, &["hold"; 10]);
}

#[test]
fn no_more_run_than_the_bytes_allow_and_their_requests_count() {
    let server = gate(patient(Site::new())).start();
    let mut peer = server.connect();
    let body = "x".repeat(100_000);
    let request = format!("GET /hold HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut sender = peer.clone();
    let sending = thread::spawn(move || sender.send(request.repeat(10)));
    until(&server, "/entered", "3");
    (0..10).for_each(|_| server.check(&get("/ping"), "200", "pong"));
    assert_eq!([ask(&server, "/entered"), ask(&server, "/release")], ["3", "release"]);
    expect_all(&mut peer, &["hold"; 10]);
    sending.join().unwrap();
}

#[test]
fn the_server_reads_no_further_than_it_may_handle() {
    for method in ["GET", "POST"] {
        let server =
            gate(patient(Site::new())).tune(|options| options.connection.pipeline_depth_max = 4).start();
        let mut peer = server.connect();
        let padding = "x".repeat(8000);
        peer.send(format!("{method} /hold HTTP/1.1\r\nHost: a\r\n\r\n"));
        let request = format!("GET /quick HTTP/1.1\r\nHost: a\r\nX: {padding}\r\n\r\n");
        let count = peer.fill(request.as_bytes(), || server.check(&get("/ping"), "200", "pong"));
        assert_eq!(ask(&server, "/entered"), if method == "GET" { "4" } else { "1" });
        ask(&server, "/release");
        peer.expect("200", "hold");
        expect_all(&mut peer, &vec!["quick"; count]);
    }
}

#[test]
fn a_malformed_request_is_refused_behind_the_replies_to_those_before() {
    let server = burning(recorded()).start();
    let mut peer = server.connect();
    peer.send(
        [get("/burn/1").as_bytes(), get("/burn/2").as_bytes(), b"GET / HTTP/1.1\r\n\r\n", NEXT].concat(),
    );
    for n in ["1", "2"] {
        assert_eq!(peer.expect("200", n).field("connection"), None);
    }
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("connection")), (400, Some("close")));
    peer.expect_end();
    let expect = ["n=1 status=200 outcome=complete", "n=2 status=200 outcome=complete"];
    assert_eq!(server.records(), expect);
}

#[test]
fn a_reply_of_the_server_itself_has_its_place_too() {
    let server = burning(Site::new()).fixed("/fixed", "fixed").start();
    let mut peer = server.connect();
    peer.send([get("/burn/1"), get("/nowhere"), get("/fixed"), get("/burn/2"), get("/%zz")].concat());
    peer.expect("200", "1");
    peer.expect("404", "no resource has this path\n");
    expect_all(&mut peer, &["fixed", "2"]);
    assert_eq!(peer.reply(false).status, 400);
}

#[test]
fn nothing_behind_a_request_that_closes_is_handled() {
    let closing =
        ["GET /burn/2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET /burn/2 HTTP/1.0\r\n\r\n"];
    for closing in closing {
        let server = burning(recorded()).start();
        let mut peer = server.connect();
        peer.send([&get("/burn/1"), closing, &get("/burn/3")].concat());
        assert_eq!(peer.expect("200", "1").field("connection"), None);
        assert_eq!(peer.expect("200", "2").field("connection"), Some("close"));
        peer.expect_end();
        assert_eq!(server.records().len(), 2);
    }
}

#[test]
fn an_old_client_that_stays_is_told_so_by_each_reply() {
    let server = burning(Site::new()).start();
    let mut peer = server.connect();
    let old = |n| format!("GET /burn/{n} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    peer.send([old(1), old(2), get("/burn/3")].concat());
    for (n, expect) in [("1", Some("keep-alive")), ("2", Some("keep-alive")), ("3", None)] {
        assert_eq!(peer.expect("200", n).field("connection"), expect);
    }
}

#[test]
fn the_last_request_that_a_connection_may_make_is_told_so_and_no_other() {
    let server = burning(Site::new()).tune(|options| options.connection.requests_max = Some(3)).start();
    let mut peer = server.connect();
    peer.send((1..=5).map(|n| get(&format!("/burn/{n}"))).collect::<String>());
    for (n, expect) in [("1", None), ("2", None), ("3", Some("close"))] {
        assert_eq!(peer.expect("200", n).field("connection"), expect);
    }
    peer.expect_end();
}

#[test]
fn handlers_of_a_client_that_is_gone_are_cancelled_and_recorded_in_order() {
    let server = gate(recorded()).start();
    let mut peer = server.connect();
    let post = "POST /quick?n=4 HTTP/1.1\r\nHost: a\r\n\r\n";
    peer.send([&get("/hold?n=1"), &get("/hold?n=2"), &get("/quick?n=3"), post].concat());
    until(&server, "/entered", "3");
    peer.reset();
    until_still(&server);
    let records = server.records();
    let of_peer: Vec<_> = records.iter().filter(|record| !record.starts_with("n=null status=200")).collect();
    // The handler of the last request did not begin.
    let expect = [
        "n=null status=null outcome=cancelled",
        "n=null status=null outcome=cancelled",
        "n=3 status=200 outcome=complete",
    ];
    assert_eq!(of_peer, expect);
}

#[test]
fn a_client_that_is_gone_cancels_an_unsafe_request_too() {
    let server = gate(recorded()).start();
    let mut peer = server.connect();
    peer.send("POST /hold?n=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    until(&server, "/entered", "1");
    peer.reset();
    until_still(&server);
    assert!(server.records().contains(&"n=null status=null outcome=cancelled".to_owned()));
}

#[test]
fn a_client_that_only_sends_no_more_gets_all_its_replies() {
    for (rest, refused) in [("", false), ("GET /hold HT", true)] {
        let server = gate(patient(Site::new())).start();
        let mut peer = server.connect();
        peer.send([&get("/hold"), &get("/quick"), rest].concat());
        peer.finish();
        until(&server, "/entered", "2");
        (0..10).for_each(|_| server.check(&get("/ping"), "200", "pong"));
        ask(&server, "/release");
        expect_all(&mut peer, &["hold", "quick"]);
        if refused {
            assert_eq!(peer.reply(false).status, 400);
        }
        peer.expect_end();
    }
}

#[test]
fn a_server_that_drains_answers_what_runs_and_begins_nothing_behind_it() {
    let server = gate(recorded()).start();
    let mut halfway = server.connect();
    let release = get("/release?n=9");
    halfway.send(&release[..20]);
    let mut peer = server.connect();
    peer.send([get("/hold?n=1"), get("/hold?n=2")].concat());
    until(&server, "/entered", "2");
    let mut idle = server.connect();
    let (drained, is_drained) = channel();
    let draining = thread::spawn(move || {
        let records = server.records();
        drained.send(()).unwrap();
        records
    });
    idle.expect_end();
    assert!(is_drained.try_recv().is_err(), "requests are on their way");
    peer.send(get("/quick?n=3"));
    halfway.send(&release[20..]);
    halfway.expect("200", "release");
    assert_eq!(peer.expect("200", "hold").field("connection"), None);
    assert_eq!(peer.expect("200", "hold").field("connection"), Some("close"));
    peer.expect_end();
    let records = draining.join().unwrap();
    let counted = |n: &str| records.iter().filter(|record| record.starts_with(n)).count();
    assert_eq!(["n=1 ", "n=2 ", "n=3 "].map(counted), [1, 1, 0]);
}

#[test]
fn a_request_that_runs_at_the_drain_deadline_is_cancelled_and_recorded() {
    let server = gate(recorded()).tune(|options| options.drain_timeout = Duration::from_millis(200)).start();
    let mut peer = server.connect();
    peer.send([get("/hold?n=1"), get("/quick?n=2")].concat());
    until(&server, "/entered", "2");
    let records = server.records();
    let expect = ["n=null status=null outcome=cancelled", "n=2 status=200 outcome=complete"];
    assert_eq!(records[records.len() - 2..], expect);
}

#[test]
fn a_client_is_told_to_go_on_behind_the_replies_to_what_it_asked_before() {
    let server = burning(Site::new()).handler("/echo", "return req:body()").start();
    let mut peer = server.connect();
    let post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    peer.send([&get("/burn/1"), &get("/burn/2"), post].concat());
    expect_all(&mut peer, &["1", "2"]);
    peer.expect_bytes(CONTINUE);
    peer.send("hello");
    peer.expect("200", "hello");
}

#[test]
fn a_pipeline_of_handlers_that_take_their_time_reads_the_same_wherever_it_is_cut() {
    let pipeline = [
        &get("/burn/1"),
        "HEAD /burn/2 HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /burn/3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        &get("/burn/4"),
    ]
    .concat();
    let server = burning(recorded()).tune(|options| options.script.slice = Duration::from_millis(1)).start();
    for cut in 1..pipeline.len() {
        let mut peer = server.connect();
        peer.send(&pipeline[..cut]);
        peer.send(&pipeline[cut..]);
        peer.expect("200", "1");
        assert_eq!(peer.reply(true).field("content-length"), Some("1"));
        expect_all(&mut peer, &["3", "4"]);
    }
    let expect = [1, 2, 3, 4].map(|n| format!("n={n} status=200 outcome=complete"));
    let records = server.records();
    assert_eq!(records.len(), 4 * (pipeline.len() - 1));
    for connection in records.chunks(4) {
        assert_eq!(connection, expect);
    }
}

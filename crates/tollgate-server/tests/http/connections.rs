//! Tests of connections: pipelining, half-close, draining.

use std::fmt::Write;
use std::sync::mpsc::channel;
use std::thread;

use tollgate_log::Level;

use crate::peer::Peer;
use crate::site::Site;

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn numbers() -> Site {
    Site::new()
        .stream("all", Level::Synced, &["n int record.n"])
        .handler("/n/{n}", "return { body = req.params.n, record = { n = tonumber(req.params.n) } }")
}

#[test]
fn pipelined_replies_come_in_the_order_of_their_requests() {
    let server = numbers().tune(|options| options.connection.pipeline_depth_max = 7).start();
    let mut peer = server.connect();
    let mut batch = String::new();
    for n in 0..1000 {
        batch.push_str(&request(&format!("/n/{n}")));
    }
    peer.send(&batch);
    for n in 0..1000 {
        peer.expect("200", &n.to_string());
    }
    let mut expect = Vec::new();
    for n in 0..1000 {
        expect.push(format!("n={n}"));
    }
    drop(peer);
    assert_eq!(server.records(), expect);
}

#[test]
fn a_pipeline_cut_at_any_byte_reads_the_same() {
    let server = numbers().start();
    let pipeline = [
        request("/n/1"),
        "POST /n/2 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nGET / HTT".to_owned(),
        "POST /n/3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_owned(),
        request("/n/4"),
    ]
    .concat();
    for cut in 1..pipeline.len() {
        let mut peer = server.connect();
        peer.send(&pipeline[..cut]);
        peer.send(&pipeline[cut..]);
        for n in 1..=4 {
            peer.expect("200", &n.to_string());
        }
    }
}

#[test]
fn a_client_that_sends_no_more_still_gets_all_its_replies() {
    let server = numbers().start();
    let mut peer = server.connect();
    peer.send([request("/n/1"), request("/n/2")].concat());
    peer.finish();
    peer.expect("200", "1");
    peer.expect("200", "2");
    peer.expect_end();
}

#[test]
fn a_slow_script_does_not_hold_up_other_connections() {
    let server = Site::new()
        .handler("/slow", "local n = 0 while n < 2000000 do n += 1 end return 'slow'")
        .fixed("/fast", "fast")
        .tune(|options| options.script.cpu_budget = std::time::Duration::from_secs(10))
        .start();
    let mut slow = server.connect();
    slow.send(request("/slow"));
    let mut fast_replies = 0;
    while slow.is_silent() {
        server.check(&request("/fast"), "200", "fast");
        fast_replies += 1;
    }
    slow.expect("200", "slow");
    assert!(fast_replies > 1, "{fast_replies} replies meanwhile");
}

#[test]
fn large_replies_to_a_client_that_reads_late_arrive_whole() {
    let server = Site::new().handler("/big", "return string.rep('x', 1000000)").start();
    let mut peer = server.connect();
    peer.send(request("/big").repeat(8));
    let expect = "x".repeat(1_000_000);
    for _ in 0..8 {
        peer.expect("200", &expect);
    }
}

#[test]
fn draining_answers_what_came_and_closes_what_is_idle() {
    let server = numbers().start();
    let mut idle = server.connect();
    idle.send(request("/n/1"));
    idle.expect("200", "1");
    let mut halfway = server.connect();
    halfway.send(&request("/n/2")[..20]);
    let (drained, is_drained) = channel();
    let draining = thread::spawn(move || {
        let records = server.records();
        drained.send(()).unwrap();
        records
    });
    idle.expect_end();
    assert!(is_drained.try_recv().is_err(), "a request is on its way");
    halfway.send(&request("/n/2")[20..]);
    assert_eq!(halfway.expect("200", "2").field("connection"), Some("close"));
    halfway.expect_end();
    assert_eq!(draining.join().unwrap(), ["n=1", "n=2"]);
}

#[test]
fn draining_answers_a_request_whose_beginning_came_with_the_one_before() {
    let server = numbers().start();
    let mut peer = server.connect();
    let (one, other) = (request("/n/1"), request("/n/2"));
    peer.send([one.as_bytes(), &other.as_bytes()[..20]].concat());
    peer.expect("200", "1");
    let mut idle = server.connect();
    idle.send(request("/n/3"));
    idle.expect("200", "3");
    let draining = thread::spawn(move || server.records());
    idle.expect_end();
    peer.send(&other[20..]);
    assert_eq!(peer.expect("200", "2").field("connection"), Some("close"));
    peer.expect_end();
    assert_eq!(draining.join().unwrap(), ["n=1", "n=3", "n=2"]);
}

#[test]
fn clients_that_ask_again_as_a_drain_begins_are_answered_with_connection_close() {
    let server = numbers().start();
    let mut silent = server.connect();
    let mut asking: Vec<_> = (0..20).map(|_| server.connect()).collect();
    let mut numbers = 1..;
    let mut ask = |peer: &mut Peer| {
        let n = numbers.next().unwrap();
        peer.send(request(&format!("/n/{n}")));
        let reply = peer.expect("200", &n.to_string());
        reply.field("connection") == Some("close")
    };
    assert!(asking.iter_mut().all(|peer| !ask(peer)));
    let draining = thread::spawn(move || server.records());
    while !asking.is_empty() {
        asking.retain_mut(|peer| !ask(peer));
    }
    silent.expect_end();
    let count = numbers.start - 1;
    let mut records = draining.join().unwrap();
    records.sort_unstable();
    let mut expected: Vec<_> = (1..=count).map(|n| format!("n={n}")).collect();
    expected.sort_unstable();
    assert_eq!(records, expected);
}

#[test]
fn a_worker_that_has_drained_is_not_taken_for_one_that_hangs() {
    let server = numbers().start();
    let watch = server.watch();
    server.check("GET /n/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200", "1");
    drop(server.drain());
    assert!(watch.status().workers.iter().all(|worker| worker.silence.is_zero()));
}

#[test]
fn connections_come_and_go() {
    let server = Site::new().fixed("/", "hello").tune(|options| options.workers = 2).start();
    let mut log = String::new();
    for n in 0..500 {
        server.check("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200", "hello");
        write!(log, "{n} ").unwrap();
    }
    drop(server.drain());
}

//! Tests of replies that wait until a sink has their records. The tests act as the sink.

use std::time::{Duration, Instant};

use tollgate_log::{Exception, Follower, LogId, Mishap, Sequence, SinkBreaker, SinkPlace};
use tollgate_server::{Ack, WhenAway};

use crate::peer::PATIENCE;
use crate::peer::{Peer, Reply};
use crate::site::{Running, Site};

/// Time that is longer than any test.
const LONG: Duration = Duration::from_secs(60);

/// Starts a server whose replies wait for a sink. Returns the server and the follower of that sink.
fn serve(timeout: Duration) -> (Running, Follower) {
    serve_at(Ack::Loaded { sink: SinkPlace(0), timeout })
}

fn serve_at(ack: Ack) -> (Running, Follower) {
    let server = Site::new()
        .stream("all", ack, &["n int record.n"])
        .handler("/a/{n}", "return { body = req.params.n, record = { n = tonumber(req.params.n) } }")
        .handler(
            "/s/{n}",
            "return { record = { n = tonumber(req.params.n) }, write = function(out) out:write('part') end }",
        )
        .handler("/e/{n}", "tollgate.emit('all', { n = tonumber(req.params.n) }) return 'emitted'")
        .tune_route(|route| route.stream = None)
        .fixed("/free", "nothing is recorded")
        .start();
    let follower = server.sink_follower();
    (server, follower)
}

/// Sends requests for these numbers together, and waits until a sink could load their records.
fn send(peer: &mut Peer, numbers: std::ops::RangeInclusive<u64>, follower: &Follower) -> LogId {
    send_to(peer, "/a", numbers, follower)
}

fn send_to(
    peer: &mut Peer,
    route: &str,
    numbers: std::ops::RangeInclusive<u64>,
    follower: &Follower,
) -> LogId {
    let before = follower.watermark().synced;
    let requests: String = numbers.clone().map(|n| get(&format!("{route}/{n}"))).collect();
    let last = before.after(numbers.count() as u64);
    peer.send(requests);
    await_synced(follower, last)
}

fn await_synced(follower: &Follower, last: Sequence) -> LogId {
    let begun = Instant::now();
    while follower.watermark().synced < last {
        assert!(begun.elapsed() < PATIENCE, "never synced: {last}");
        follower.wait_beyond(follower.watermark().synced, Duration::from_millis(50));
    }
    follower.watermark().log
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn exception(sequence: u64, mishap: Mishap) -> Exception {
    Exception { first: Sequence(sequence), last: Sequence(sequence), mishap }
}

fn outcome(reply: &Reply) -> (u16, Option<&str>) {
    (reply.status, reply.field("tollgate-outcome"))
}

#[test]
fn no_reply_leaves_before_the_sink_has_its_record() {
    let (server, follower) = serve(LONG);
    let mut peer = server.connect();
    let log = send(&mut peer, 1..=3, &follower);
    // This request shows that the worker had a turn after the records were synced.
    server.check(&get("/free"), "200", "nothing is recorded");
    assert!(peer.is_silent());
    follower.settle(log, Sequence(3), &[]);
    for n in 1..=3 {
        peer.expect("200", &n.to_string());
    }
}

#[test]
fn no_byte_of_a_streamed_reply_leaves_before_the_sink_has_its_record() {
    let (server, follower) = serve(LONG);
    let mut peer = server.connect();
    let log = send_to(&mut peer, "/s", 1..=1, &follower);
    server.check(&get("/free"), "200", "nothing is recorded");
    assert!(peer.is_silent());
    follower.settle(log, Sequence(1), &[]);
    assert_eq!(peer.head().status, 200);
    peer.expect_bytes(b"4\r\npart\r\n0\r\n\r\n");
}

#[test]
fn a_streamed_reply_whose_record_is_missing_is_not_written() {
    let (server, follower) = serve(LONG);
    let mut peer = server.connect();
    let log = send_to(&mut peer, "/s", 1..=1, &follower);
    follower.settle(log, Sequence(1), &[exception(1, Mishap::Missing)]);
    assert_eq!(outcome(&peer.reply(false)), (503, Some("unknown")));
    peer.send(get("/free"));
    peer.expect("200", "nothing is recorded");
}

#[test]
fn pipelined_requests_each_get_the_outcome_of_their_own_record_in_order() {
    let (server, follower) = serve(LONG);
    let mut peer = server.connect();
    let log = send(&mut peer, 1..=4, &follower);
    let secret = Mishap::Rejected("constraint \"inner\" of the database".to_owned());
    follower.settle(log, Sequence(4), &[exception(2, secret), exception(3, Mishap::Missing)]);
    assert_eq!(outcome(&peer.reply(false)), (200, None));
    let rejected = peer.reply(false);
    assert_eq!(outcome(&rejected), (422, Some("rejected")));
    let expected = "{\"recorded\":0,\"rejected_count\":1,\"rejected\":[{\"index\":0,\"reason\":\"the database refused this record and kept it as a reject\"}]}\n";
    assert_eq!(rejected.content, expected);
    let missing = peer.reply(false);
    assert_eq!((outcome(&missing), missing.field("retry-after")), ((503, Some("unknown")), None));
    assert_eq!(outcome(&peer.reply(false)), (200, None));
    // The connection is still usable.
    let log = send(&mut peer, 5..=5, &follower);
    follower.settle(log, Sequence(5), &[]);
    peer.expect("200", "5");
}

#[test]
fn a_reply_that_waited_too_long_is_unknown_and_later_ones_have_their_own_outcome() {
    let (server, follower) = serve(Duration::from_millis(300));
    let (mut early, mut late) = (server.connect(), server.connect());
    send(&mut early, 1..=2, &follower);
    for _ in 1..=2 {
        let reply = early.reply(false);
        assert_eq!((outcome(&reply), reply.field("retry-after")), ((503, Some("unknown")), None));
    }
    let log = send(&mut late, 3..=3, &follower);
    follower.settle(log, Sequence(3), &[exception(1, Mishap::Missing)]);
    late.expect("200", "3");
    let log = send(&mut early, 4..=4, &follower);
    follower.settle(log, Sequence(4), &[]);
    early.expect("200", "4");
}

#[test]
fn a_client_that_leaves_while_it_waits_holds_up_no_other() {
    let (server, follower) = serve(LONG);
    let (mut gone, mut there) = (server.connect(), server.connect());
    send(&mut gone, 1..=1, &follower);
    let log = send(&mut there, 2..=2, &follower);
    gone.reset();
    follower.settle(log, Sequence(2), &[]);
    there.expect("200", "2");
}

#[test]
fn no_handler_runs_while_the_breaker_is_open_and_other_routes_are_served() {
    let (server, follower) = serve(LONG);
    follower.set_breaker(SinkBreaker::Open);
    let mut peer = server.connect();
    peer.send(get("/a/1"));
    let refused = peer.reply(false);
    assert_eq!((outcome(&refused), refused.field("retry-after")), ((503, Some("refused")), Some("1")));
    peer.send(get("/free"));
    peer.expect("200", "nothing is recorded");
    follower.set_breaker(SinkBreaker::Closed);
    let log = send(&mut peer, 2..=2, &follower);
    follower.settle(log, Sequence(1), &[]);
    peer.expect("200", "2");
    drop(follower);
    assert_eq!(server.records(), ["n=2"]);
}

/// Checks the texts for clients: about a refused request, a reject, and a reply that waited too long.
fn check_texts(ack: impl Fn(Duration) -> Ack, noun: &str) {
    let (server, follower) = serve_at(ack(LONG));
    let mut peer = server.connect();
    follower.set_breaker(SinkBreaker::Open);
    for target in ["/a/1", "/e/1"] {
        peer.send(get(target));
        let refused = peer.reply(false).content;
        assert_eq!(
            refused.trim_end(),
            format!("the {noun} does not answer: nothing was recorded"),
            "{target}"
        );
    }
    follower.set_breaker(SinkBreaker::Closed);
    let log = send(&mut peer, 1..=1, &follower);
    follower.settle(log, Sequence(1), &[exception(1, Mishap::Rejected("internal".to_owned()))]);
    let rejected = peer.reply(false).content;
    assert!(rejected.contains(&format!("the {noun} refused this record")), "{rejected}");
    let (server, _follower) = serve_at(ack(Duration::from_millis(1)));
    let mut peer = server.connect();
    peer.send(get("/a/1"));
    let late = peer.reply(false).content;
    assert!(late.contains(&format!("not yet in the {noun}: its outcome is unknown")), "{late}");
}

#[test]
fn each_text_names_the_database_or_the_queue_that_the_reply_waits_for() {
    let sink = SinkPlace(0);
    check_texts(|timeout| Ack::Loaded { sink, timeout }, "database");
    check_texts(|timeout| Ack::Queued { sink, timeout, when_away: WhenAway::Refused }, "queue");
}

#[test]
fn a_request_that_waits_when_the_server_drains_is_answered_as_unknown() {
    let (server, follower) = serve(LONG);
    let mut peer = server.connect();
    send(&mut peer, 1..=1, &follower);
    drop(follower);
    assert_eq!(server.records(), ["n=1"]);
    let reply = peer.reply(false);
    assert_eq!((outcome(&reply), reply.field("connection")), ((503, Some("unknown")), None));
    peer.expect_end();
}

#[test]
fn files_among_replies_that_did_not_come_true_stay_whole_and_those_are_not_sent() {
    // The content is too long to be held in memory, so it is sent by sendfile.
    let content: String = (0..40 << 10).map(|place| char::from(b'a' + (place / 7 % 26) as u8)).collect();
    let ack = Ack::Loaded { sink: SinkPlace(0), timeout: LONG };
    let server = Site::new()
        .stream("all", ack, &["path text request.path"])
        .file("public/large", &content)
        .file("public/a.txt", "alpha")
        .files("/*", |_| {})
        .start();
    let follower = server.sink_follower();
    let mut peer = server.connect();
    // After these requests, the files are cached, so that later replies with them wait together.
    peer.send([get("/large"), get("/a.txt")].concat());
    let log = await_synced(&follower, Sequence(2));
    follower.settle(log, Sequence(2), &[]);
    peer.expect("200", &content);
    peer.expect("200", "alpha");
    let targets = ["/large", "/a.txt", "/large", "/large", "/a.txt"];
    peer.send(targets.map(get).concat());
    await_synced(&follower, Sequence(7));
    let rejected = exception(3, Mishap::Rejected("a reason".to_owned()));
    follower.settle(log, Sequence(7), &[rejected, exception(6, Mishap::Missing)]);
    assert_eq!(outcome(&peer.reply(false)), (422, Some("rejected")));
    peer.expect("200", "alpha");
    peer.expect("200", &content);
    assert_eq!(outcome(&peer.reply(false)), (503, Some("unknown")));
    peer.expect("200", "alpha");
}

//! Tests of the limits of one route over all workers: the number of running requests, and the rate of
//! requests.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_log::Level;
use tollgate_server::{
    AnyOr, CorsSpec, RateKey, RateSpec, RouteLimits, ServerOptions, Source, TrustedProxies,
};

use crate::asking::{ask, get, until_status};
use crate::peer::PATIENCE;
use crate::peer::{Peer, Reply};
use crate::site::{Running, Site};

const WORKERS: usize = 4;

pub(crate) fn hourly(count: u32, by: RateKey) -> RateSpec {
    RateSpec { count, period: Duration::from_secs(3600), burst: count, by, keys_max: RateSpec::KEYS_MAX }
}

fn rates(rates: Vec<RateSpec>) -> RouteLimits {
    RouteLimits { concurrency_max: None, rates }
}

/// Returns a site with limits on `/` and none on `/free`.
fn site(limits: RouteLimits) -> Site {
    let site = Site::new().fixed("/free", "free").fixed("/", "hello");
    site.tune_route(|route| route.limits = limits).tune(|options| options.workers = WORKERS)
}

fn from(server: &Running, last: u8) -> Peer {
    Peer::connect_from(Ipv4Addr::new(127, 0, 0, last), server.address())
}

fn status(mut peer: Peer, request: &str) -> u16 {
    peer.send(request);
    peer.reply(false).status
}

/// Sends this number of requests, each on a new connection. Returns the number of requests that are not
/// refused.
fn answered(server: &Running, last: u8, count: usize) -> usize {
    let statuses: Vec<_> = (0..count).map(|_| status(from(server, last), &get("/"))).collect();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    statuses.iter().filter(|status| **status == 200).count()
}

fn assert_told(reply: &Reply, status: u16, wait: &str) {
    let fields = ["tollgate-outcome", "retry-after"].map(|name| reply.field(name));
    assert_eq!((reply.status, fields), (status, [Some("refused"), Some(wait)]), "{reply:?}");
}

#[test]
fn each_client_has_its_rate_over_all_workers() {
    let server = site(rates(vec![hourly(30, RateKey::Client)])).start();
    let clients = [2, 3, 4];
    let counts = thread::scope(|scope| {
        let server = &server;
        let threads: Vec<_> =
            clients.iter().map(|last| scope.spawn(move || answered(server, *last, 60))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(counts, [30, 30, 30]);
    assert_eq!(server.refusals("rate"), 90);
    server.check(&get("/free"), "200", "free");
}

#[test]
fn a_client_that_asks_too_often_is_told_when_to_come_again_and_may_then() {
    let rate =
        RateSpec { count: 1, period: Duration::from_secs(1), burst: 1, by: RateKey::Client, keys_max: 64 };
    let server = site(rates(vec![rate])).start();
    let mut peer = server.connect();
    let mut ask = || {
        peer.send(get("/"));
        peer.reply(false)
    };
    assert_told(&until_status(429, &mut ask), 429, "1");
    until_status(200, &mut ask);

    let server = site(rates(vec![RateSpec { burst: 1, ..hourly(60, RateKey::Client) }])).start();
    assert_eq!(status(server.connect(), &get("/")), 200);
    let mut peer = server.connect();
    peer.send(get("/"));
    assert_told(&peer.reply(false), 429, "60");
}

#[test]
fn each_client_behind_a_trusted_proxy_has_its_rate() {
    let networks = vec!["127.0.0.1".parse().unwrap()];
    let proxies = TrustedProxies { networks, ..TrustedProxies::default() };
    let site = site(rates(vec![hourly(2, RateKey::Client)]));
    let server = site.tune(|options| options.trusted_proxies = proxies).start();
    let mut peer = server.connect();
    let mut of = |client: &str| {
        peer.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n"));
        peer.reply(false).status
    };
    assert_eq!(["203.0.113.1"; 3].map(&mut of), [200, 200, 429]);
    assert_eq!(
        ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"].map(&mut of),
        [200, 200, 429, 200]
    );
    // A client that is not a trusted proxy cannot name another client.
    let mut spoof = |client: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n");
        status(from(&server, 9), &request)
    };
    assert_eq!(["203.0.113.7", "203.0.113.8", "203.0.113.9"].map(&mut spoof), [200, 200, 429]);
}

#[test]
fn a_key_has_its_rate_wherever_it_comes_from() {
    let key = RateKey::Named(Source::from_name("request.header.x-key").unwrap());
    let server = site(rates(vec![hourly(2, key)])).start();
    let asks = |last, key: &str| {
        status(from(&server, last), &format!("GET / HTTP/1.1\r\nHost: a\r\nX-Key: {key}\r\n\r\n"))
    };
    assert_eq!([asks(2, "a"), asks(3, "a"), asks(4, "a"), asks(4, "b")], [200, 200, 429, 200]);
}

#[test]
fn a_request_over_its_rate_is_refused_before_its_body_and_leaves_no_record() {
    let site = Site::new().stream("all", Level::Synced, &["n int record.n"]);
    let site = site.handler("/", "return { body = req:body(), record = { n = 1 } }");
    let server = site.tune_route(|route| route.limits = rates(vec![hourly(1, RateKey::Client)])).start();
    let mut peer = server.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    peer.expect("200", "hi");
    // No byte of these bodies was sent.
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(peer.reply(false).status, 429);
    peer.expect_end();
    let mut peer = server.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n");
    assert_eq!(peer.reply(false).status, 429);
    peer.expect_end();
    // A short body is read and dropped, and the connection stays open.
    let mut peer = server.connect();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(peer.reply(false).status, 429);
    peer.send(get("/none"));
    assert_eq!(peer.reply(false).status, 404);
    assert_eq!(server.records(), ["n=1"]);
}

#[test]
fn pages_of_other_origins_can_read_that_they_ask_too_often() {
    let any = || AnyOr::Any;
    let cors = CorsSpec {
        origins: tollgate_server::Origins::Any,
        methods: None,
        headers: any(),
        expose: AnyOr::Listed(Vec::new()),
        credentials: false,
        max_age: Duration::ZERO,
    };
    let site = site(rates(vec![hourly(1, RateKey::Route)])).tune_route(|route| route.cors = Some(cors));
    let server = site.start();
    let asked = "GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://b.example\r\n\r\n";
    assert_eq!(status(server.connect(), asked), 200);
    let mut peer = server.connect();
    peer.send(asked);
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("access-control-allow-origin")), (429, Some("*")));
}

#[test]
fn a_reload_keeps_what_was_counted_unless_the_rule_is_another() {
    let site = site(rates(vec![hourly(5, RateKey::Client)]));
    let (same, mut other) = (site.options.clone(), site.options.clone());
    other.routes[1].limits = rates(vec![hourly(6, RateKey::Client)]);
    let server = site.start();
    assert_eq!(answered(&server, 2, 4), 4);
    server.reload(same);
    assert_eq!(answered(&server, 2, 4), 1);
    server.reload(other);
    assert_eq!(answered(&server, 2, 10), 6);
}

/// A script that sleeps before it replies, or in the middle of a stream.
const SLEEPER: &str = "
    return function(req)
        if req.params.what == 'stream' then
            return { write = function(out) out:write('begun') tollgate.sleep(60) end }
        end
        tollgate.sleep(60)
        return 'slept'
    end";

fn sleepers(concurrency_max: u32, tune: impl FnOnce(&mut ServerOptions)) -> Running {
    let limits = RouteLimits { concurrency_max: Some(concurrency_max), rates: Vec::new() };
    let site = Site::new().fixed("/fast", "fast").script("/{what}", SLEEPER);
    site.tune_route(|route| route.limits = limits).tune(tune).start()
}

/// Sends a request on each of `count` connections. Returns the connections that were not refused.
fn crowd(server: &Running, path: &str, count: usize, taken: usize) -> Vec<Peer> {
    let mut peers: Vec<_> = (0..count).map(|_| server.connect()).collect();
    peers.iter_mut().for_each(|peer| peer.send(get(path)));
    let begun = Instant::now();
    let mut refused = 0;
    while refused < count - taken {
        peers.retain_mut(|peer| {
            if peer.is_silent() || peer.left() > 0 {
                return true;
            }
            assert_told(
                &peer.expect("503", "too many requests of this route run at once: nothing was recorded\n"),
                503,
                "1",
            );
            refused += 1;
            false
        });
        assert!(begun.elapsed() < PATIENCE, "{refused} refused");
    }
    assert_eq!(peers.len(), taken);
    peers
}

#[test]
fn a_slow_route_does_not_hurt_the_fast_ones() {
    let server = sleepers(10, |options| options.workers = WORKERS);
    let slow = crowd(&server, "/sleep", 200, 10);
    assert_eq!(server.refusals("concurrency"), 190);
    let mut fast = server.connect();
    for _ in 0..1000 {
        fast.send(get("/fast"));
        fast.expect("200", "fast");
    }
    assert!(slow.into_iter().all(|mut peer| peer.is_silent()));
}

#[test]
fn clients_that_are_gone_make_room() {
    let server = sleepers(3, |_| {});
    crowd(&server, "/sleep", 10, 3).into_iter().for_each(Peer::reset);
    let begun = Instant::now();
    loop {
        let mut peer = server.connect();
        peer.send(get("/stream"));
        if peer.head().status == 200 {
            return;
        }
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[test]
fn bodies_that_come_slowly_count_too() {
    let server = sleepers(2, |_| {});
    let mut posting: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for peer in &mut posting {
        peer.send("POST /sleep HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(peer.head().status, 100);
    }
    assert_eq!(status(server.connect(), &get("/sleep")), 503);
    assert_eq!(ask(&server, "/fast"), "fast");
}

#[test]
fn a_streamed_reply_counts_to_its_end() {
    let server = sleepers(1, |_| {});
    let mut streaming = server.connect();
    streaming.send(get("/stream"));
    streaming.through(b"begun");
    assert_eq!(status(server.connect(), &get("/sleep")), 503);
}

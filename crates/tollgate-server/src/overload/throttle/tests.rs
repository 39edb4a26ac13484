//! Tests of route limits, with times that the tests choose.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tollgate_http::{HeadReader, Limits};

use super::*;
use crate::options::HandlerSpec;
use crate::options::stream::Source;

fn rate(count: u32, by: RateKey) -> RateSpec {
    RateSpec { count, period: Duration::from_secs(3600), burst: count, by, keys_max: 1024 }
}

fn route(path: &str, concurrency_max: Option<u32>, rates: Vec<RateSpec>) -> RouteSpec {
    let (content_type, body) = (String::new(), Bytes::new());
    let handler = HandlerSpec::Reply { status: 200, content_type, body };
    RouteSpec { limits: RouteLimits { concurrency_max, rates }, ..RouteSpec::new(path, handler) }
}

fn head(fields: &str) -> RequestHead {
    let text = format!("GET /?key=q HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    HeadReader::default().read(&mut BytesMut::from(&*text), &Limits::default()).unwrap().unwrap()
}

fn throttle(spec: &RouteSpec) -> Arc<Throttle> {
    Throttle::new(spec, &[]).unwrap()
}

/// Returns the number of requests in ten that are admitted while none of them ends.
fn taken(throttle: &Throttle, fields: &str, client: &str) -> usize {
    let (head, client, now) = (head(fields), client.parse().ok(), Instant::now());
    let permits = (0..10).map(|_| throttle.admit(&head, || client, now));
    let permits: Vec<_> = permits.collect();
    permits.iter().filter(|permit| permit.is_ok()).count()
}

#[test]
fn a_route_without_bounds_has_nothing_to_look_at() {
    assert!(Throttle::new(&route("/", None, Vec::new()), &[]).is_none());
}

#[test]
fn requests_that_run_are_as_many_as_may_be_and_those_that_ended_make_room() {
    let throttle = throttle(&route("/", Some(3), Vec::new()));
    assert_eq!(taken(&throttle, "", ""), 3);
    assert_eq!(taken(&throttle, "", ""), 3);
    assert_eq!(throttle.running.load(Ordering::Relaxed), 0);
}

#[test]
fn keys_are_what_the_request_says_and_its_client_where_it_says_nothing() {
    let named = |name| RateKey::Named(Source::from_name(name).unwrap());
    for (by, one, other) in [
        (named("request.header.x-key"), "X-Key: 1\r\n", "x-key: 2\r\n"),
        (named("request.cookie.key"), "Cookie: a=b; key=1\r\n", "Cookie: key=2\r\n"),
    ] {
        let throttle = throttle(&route("/", None, vec![rate(4, by)]));
        assert_eq!(taken(&throttle, one, "10.0.0.1"), 4);
        assert_eq!(taken(&throttle, one, "10.0.0.2"), 0);
        assert_eq!(taken(&throttle, other, "10.0.0.1"), 4);
        assert_eq!(
            ["10.0.0.1", "10.0.0.2", "10.0.0.1"].map(|client| taken(&throttle, "", client)),
            [4, 4, 0]
        );
    }
    let throttle = throttle(&route("/", None, vec![rate(4, named("request.query.key"))]));
    assert_eq!(["10.0.0.1", "10.0.0.2"].map(|client| taken(&throttle, "", client)), [4, 0]);
}

#[test]
fn rules_are_looked_at_in_their_order() {
    let rates = vec![rate(4, RateKey::Client), rate(6, RateKey::Route)];
    let throttle = throttle(&route("/", None, rates));
    assert_eq!(["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|client| taken(&throttle, "", client)), [4, 2, 0]);
}

#[test]
fn the_wait_is_in_whole_seconds_and_at_least_one() {
    let wait = |count, period| {
        let spec = RateSpec { count, period, burst: 1, by: RateKey::Route, keys_max: 1 };
        let rate = Rate::new(&spec);
        let now = Instant::now();
        [(); 2].map(|()| rate.take(&head(""), || None, now))[1]
    };
    assert_eq!(wait(100, Duration::from_secs(1)), Err(1));
    assert_eq!(wait(1, Duration::from_secs(1)), Err(1));
    assert_eq!(wait(2, Duration::from_secs(3)), Err(2));
    assert_eq!(wait(6, Duration::from_secs(60)), Err(10));
}

#[test]
fn a_reload_keeps_what_was_counted_while_route_and_rule_are_the_same() {
    let rates = || vec![rate(4, RateKey::Client)];
    let before = Throttle::new(&route("/a", Some(9), rates()), &[]);
    let old = before.clone().unwrap();
    assert_eq!(taken(&old, "", "10.0.0.1"), 4);
    let reload = |spec: &RouteSpec| Throttle::new(spec, std::slice::from_ref(&before)).unwrap();
    assert_eq!(taken(&reload(&route("/a", Some(9), rates())), "", "10.0.0.1"), 0);
    assert_eq!(taken(&reload(&route("/a", None, rates())), "", "10.0.0.1"), 0);
    assert_eq!(taken(&reload(&route("/a", None, vec![rate(5, RateKey::Client)])), "", "10.0.0.1"), 5);
    assert_eq!(taken(&reload(&route("/b", None, rates())), "", "10.0.0.1"), 4);

    let old = throttle(&route("/a", Some(9), Vec::new()));
    let running: Vec<_> = (0..7).map(|_| old.admit(&head(""), || None, Instant::now()).unwrap()).collect();
    let new = Throttle::new(&route("/a", Some(8), Vec::new()), &[Some(old)]).unwrap();
    assert_eq!(taken(&new, "", ""), 1);
    drop(running);
    assert_eq!(taken(&new, "", ""), 8);
}

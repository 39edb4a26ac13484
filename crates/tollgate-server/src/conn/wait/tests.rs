//! Tests of the pause of a refused client.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::conn::bench::{Bench, FOR_EVER, PATIENCE, head, in_turns};
use crate::options::{RateKey, RateSpec, RouteLimits};

/// Time that is a little shorter than the longest pause.
const REST: Duration = Duration::from_millis(900);

/// Creates a worker with two limited routes. A client that `/once` refuses pauses for nearly a second.
/// `/single` admits one request at a time.
fn crowded() -> Bench {
    let bench = Bench::with(&[("/once", "return 204"), ("/single", "return 204")], |routes, _| {
        let once = RateSpec {
            count: 1,
            period: Duration::from_secs(3600),
            burst: 1,
            by: RateKey::Route,
            keys_max: RateSpec::KEYS_MAX,
        };
        routes[0].limits = RouteLimits { concurrency_max: None, rates: vec![once] };
        routes[1].limits = RouteLimits { concurrency_max: Some(1), rates: Vec::new() };
    });
    bench.worker.admission.learn(FOR_EVER / 3);
    let now = Instant::now();
    (0..100_000).for_each(|_| bench.worker.refusal_pauses.book(now));
    bench.worker.refusal_pauses.take();
    bench
}

/// Uses up the rate of `/once`. Returns a connection that was not refused yet.
async fn used_up(bench: &Bench) -> DuplexStream {
    let mut peer = bench.send(&["/once"]).await;
    heard(&mut peer, "HTTP/1.1 204").await;
    peer
}

async fn heard(peer: &mut DuplexStream, expected: &str) {
    let mut reply = [0; 4096];
    let count = timeout(PATIENCE, peer.read(&mut reply)).await.unwrap().unwrap();
    assert!(reply[..count].starts_with(expected.as_bytes()), "{}", String::from_utf8_lossy(&reply[..count]));
}

#[test]
fn a_refusal_leaves_when_its_content_is_there_and_later_requests_are_read_after_it() {
    in_turns(async {
        let bench = crowded();
        let mut peer = used_up(&bench).await;
        let begun = Instant::now();
        peer.write_all(b"POST /once HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n").await.unwrap();
        for _ in 0..20 {
            yield_now().await;
        }
        peer.write_all(format!("abc{}", head("/single")).as_bytes()).await.unwrap();
        heard(&mut peer, "HTTP/1.1 429").await;
        assert!(begun.elapsed() < REST, "{:?}", begun.elapsed());
        heard(&mut peer, "HTTP/1.1 204").await;
        assert!(begun.elapsed() >= REST, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_request_behind_a_refused_one_takes_no_place_before_its_client_has_rested() {
    in_turns(async {
        let bench = crowded();
        let mut peer = used_up(&bench).await;
        let begun = Instant::now();
        let behind = "POST /single HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
        peer.write_all(format!("{}{behind}", head("/once")).as_bytes()).await.unwrap();
        heard(&mut peer, "HTTP/1.1 429").await;
        heard(&mut bench.send(&["/single"]).await, "HTTP/1.1 204").await;
        assert!(begun.elapsed() < REST, "{:?}", begun.elapsed());
        peer.write_all(b"abc").await.unwrap();
        heard(&mut peer, "HTTP/1.1 204").await;
    });
}

#[test]
fn a_drain_ends_a_rest() {
    in_turns(async {
        let bench = crowded();
        let mut peer = used_up(&bench).await;
        let begun = Instant::now();
        peer.write_all(format!("{}{}", head("/once"), head("/single")).as_bytes()).await.unwrap();
        heard(&mut peer, "HTTP/1.1 429").await;
        bench.worker.deadlines.drain();
        heard(&mut peer, "HTTP/1.1 204").await;
        assert!(begun.elapsed() < REST, "{:?}", begun.elapsed());
    });
}

//! Tests of scripts that need more than a slice. Such scripts run one after the other, and quick scripts run
//! between their slices. A request whose script would wait for too many scripts is refused.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::{spawn_local, yield_now};
use tokio::time::timeout;
use tollgate_server::{RateKey, RouteLimits, RouteStatus, StreamServer};

use crate::asking::{ask, get, until};
use crate::peer::PATIENCE;
use crate::peer::Peer;
use crate::site::{Running, Site};
use crate::throttles::hourly;

/// `/run/hold` runs until a request for `/release`. `/run/nap` then sleeps for an hour. `/run/behind` runs
/// until another of these scripts has run. `entered` counts the calls. `switches` counts the changes of the
/// running script.
const RUN: &str = "
    local last
    local function run_on(own)
        if last ~= own then tollgate.shared.incr('switches', 1, 0) end
        last = own
    end
    return function(req)
        local what, own = req.params.what, tollgate.shared.incr('entered', 1, 0)
        run_on(own)
        local switches = tollgate.shared.get('switches')
        if what == 'behind' then
            while tollgate.shared.get('switches') == switches do run_on(own) end
            return 'behind'
        end
        while not tollgate.shared.get('released') do run_on(own) end
        if what == 'nap' then tollgate.sleep(3600) end
        return 'held'
    end";

/// Value of `queue_age_max` for a server that refuses no request.
const FOR_EVER: Duration = Duration::from_secs(3600);

fn holders(queue_age_max: Duration) -> Site {
    Site::new()
        .script("/run/{what}", RUN)
        .handler("/see/{what}", "return tostring(tollgate.shared.get(req.params.what) or 0)")
        .handler("/release", "tollgate.shared.set('released', true) return 'released'")
        .tune(|options| {
            options.script.cpu_budget = 2 * PATIENCE;
            options.capacity.queue_age_max = queue_age_max;
        })
}

/// Sends a request for a script, and waits until `entered` calls have begun.
fn enter(server: &Running, what: &str, entered: usize) -> Peer {
    let mut peer = server.connect();
    peer.send(get(what));
    until(server, "/see/entered", &entered.to_string());
    peer
}

/// A worker on this thread, so that its turns can be counted.
struct Turning {
    server: Rc<StreamServer>,
}

impl Turning {
    /// Sends a request on a new connection.
    async fn ask(&self, what: &str) -> DuplexStream {
        self.send(what, 1 << 16).await
    }

    /// Sends a request on a connection that holds this many unread bytes.
    async fn send(&self, what: &str, held_bytes: usize) -> DuplexStream {
        self.open(&format!("GET {what} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), held_bytes).await
    }

    async fn open(&self, requests: &str, held_bytes: usize) -> DuplexStream {
        let (mut near, far) = duplex(held_bytes);
        let server = self.server.clone();
        spawn_local(async move { server.serve(far, IpAddr::V4(Ipv4Addr::LOCALHOST)).await });
        near.write_all(requests.as_bytes()).await.unwrap();
        near
    }

    async fn number(&self, what: &str) -> usize {
        content(self.ask(what).await).await.parse().unwrap()
    }

    /// Returns whether the script writes within the next turns.
    async fn writes_on(&self) -> bool {
        let before = self.number("/see/written").await;
        turns(50).await;
        self.number("/see/written").await != before
    }
}

async fn turns(count: usize) {
    for _ in 0..count {
        yield_now().await;
    }
}

async fn content(mut peer: DuplexStream) -> String {
    let mut reply = String::new();
    timeout(PATIENCE, peer.read_to_string(&mut reply)).await.unwrap().unwrap();
    reply.split("\r\n\r\n").nth(1).unwrap().to_owned()
}

fn in_turns(site: &Site, test: impl AsyncFnOnce(&Turning)) {
    site.on_this_thread(async |server| test(&Turning { server }).await);
}

#[test]
fn long_scripts_go_on_one_after_the_other() {
    in_turns(&holders(FOR_EVER), async |turning| {
        let mut peers = Vec::new();
        for _ in 0..4 {
            peers.push(turning.ask("/run/hold").await);
        }
        while turning.number("/see/entered").await < 4 {}
        let before = turning.number("/see/switches").await;
        turns(200).await;
        let switches = turning.number("/see/switches").await - before;
        // A script runs eight slices before the next. With a change after each slice, fifty slices would have
        // fifty changes.
        assert!((10..50).contains(&switches), "{switches} in 200 slices");
        assert_eq!(content(turning.ask("/release").await).await, "released");
        for peer in peers {
            assert_eq!(content(peer).await, "held");
        }
    });
}

#[test]
fn a_quick_script_waits_for_a_slice_and_not_for_the_script_queue() {
    // Even on a busy machine, a quick script needs only a small part of such a long slice.
    let slice = Duration::from_millis(8);
    in_turns(&holders(FOR_EVER).tune(|options| options.script.slice = slice), async |turning| {
        let mut peers = Vec::new();
        for _ in 0..30 {
            peers.push(turning.ask("/run/hold").await);
        }
        while turning.number("/see/entered").await < 30 {}
        for _ in 0..20 {
            let before = turning.number("/see/switches").await;
            let switches = turning.number("/see/switches").await - before;
            assert!(switches <= 2, "{switches} others went before");
        }
        assert_eq!(content(turning.ask("/release").await).await, "released");
        for peer in peers {
            assert_eq!(content(peer).await, "held");
        }
    });
}

#[test]
fn a_script_that_waits_stops_nobody() {
    let server = holders(FOR_EVER).start();
    let _sleeper = enter(&server, "/run/nap", 1);
    let mut next = enter(&server, "/run/hold", 2);
    ask(&server, "/release");
    next.expect("200", "held");
}

#[test]
fn a_script_that_does_not_end_stops_nobody_for_ever() {
    let server = holders(FOR_EVER).start();
    let mut endless = enter(&server, "/run/hold", 1);
    for entered in 2..6 {
        enter(&server, "/run/behind", entered).expect("200", "behind");
    }
    ask(&server, "/release");
    endless.expect("200", "held");
}

#[test]
fn clients_that_are_gone_leave_the_queue_to_those_behind_them() {
    let server = holders(FOR_EVER).start();
    let mut peers: Vec<_> = (1..=8).map(|entered| enter(&server, "/run/hold", entered)).collect();
    let mut last = peers.pop().unwrap();
    peers.into_iter().for_each(Peer::reset);
    ask(&server, "/release");
    last.expect("200", "held");
}

#[test]
fn a_stream_that_nobody_takes_stops_nobody() {
    let script = "
        return { write = function(out)
            while true do
                out:write(tostring(tollgate.shared.incr('written', 1, 0)))
                for _ = 1, 20000 do end
            end
        end }";
    in_turns(&holders(FOR_EVER).handler("/stream", script), async |turning| {
        let slow = turning.send("/stream", 1000).await;
        // Waits until the buffer to the client is full, so that the script writes nothing more.
        while turning.number("/see/written").await == 0 || turning.writes_on().await {}
        let next = turning.ask("/run/hold").await;
        while turning.number("/see/entered").await == 0 {}
        assert_eq!(content(turning.ask("/release").await).await, "released");
        assert_eq!(content(next).await, "held");
        drop(slow);
    });
}

#[test]
fn requests_of_a_pipeline_have_one_place_together() {
    in_turns(&holders(FOR_EVER), async |turning| {
        let mut pipeline = turning.open(&get("/run/hold").repeat(20), 1 << 16).await;
        while turning.number("/see/entered").await < 20 {}
        let behind = turning.ask("/run/behind").await;
        let behind = spawn_local(content(behind));
        let mut waited = 0;
        while !behind.is_finished() {
            turns(1).await;
            waited += 1;
        }
        assert_eq!(behind.await.unwrap(), "behind");
        // If each request of the pipeline had a separate place, the script would wait for more than a hundred
        // slices.
        assert!(waited < 50, "{waited} slices");
        assert_eq!(content(turning.ask("/release").await).await, "released");
        pipeline.shutdown().await.unwrap();
        let mut replies = String::new();
        timeout(PATIENCE, pipeline.read_to_string(&mut replies)).await.unwrap().unwrap();
        assert_eq!(replies.matches("held").count(), 20);
    });
}

#[test]
fn scripts_that_would_wait_are_refused_when_too_many_wait_and_no_other_requests() {
    let server = holders(Duration::from_secs(1))
        .handler("/quick/script", "return 'quick'")
        .fixed("/quick/fixed", "fixed")
        .start();
    let peers = too_many(&server);
    assert!(peers.len() >= 3, "{} are enough", peers.len());
    server.check(&get("/quick/script"), "200", "quick");
    server.check(&get("/quick/fixed"), "200", "fixed");
    let mut refused = 1;
    let begun = Instant::now();
    while !refuses_scripts(&server) {
        assert!(begun.elapsed() < PATIENCE, "nobody is told");
        let mut peer = server.connect();
        peer.send(get("/run/hold"));
        is_refused(peer);
        refused += 1;
    }
    let routes = server.watch().status().routes;
    let refused_of = |route: &RouteStatus| route.refusals.iter().map(|(_, count)| count).sum::<u64>();
    let refusing: Vec<_> = routes.iter().filter(|route| refused_of(route) > 0).collect();
    assert_eq!(refusing.len(), 1);
    assert_eq!((refusing[0].name.path.as_str(), refused_of(refusing[0])), ("/run/{what}", refused));
    ask(&server, "/release");
    for mut peer in peers {
        peer.expect("200", "held");
    }
    // No script waits any more, and new scripts are accepted.
    ask(&server, "/run/hold");
    let begun = Instant::now();
    while refuses_scripts(&server) {
        assert!(begun.elapsed() < PATIENCE, "scripts are refused for ever");
        std::thread::yield_now();
    }
}

#[test]
fn a_refused_client_that_comes_again_at_once_rests_and_no_other_does() {
    let server = holders(Duration::from_secs(1)).fixed("/fixed", "fixed").start();
    let _peers = too_many(&server);
    let mut crowd = server.connect();
    rests(&mut crowd, "/run/hold", 503);
    // The pause applies only to the connection of the refused client.
    crowd.send(get("/run/hold"));
    server.check(&get("/fixed"), "200", "fixed");
    assert_eq!(crowd.reply(false).status, 503);
    ask(&server, "/release");
}

#[test]
fn a_client_over_a_limit_that_comes_again_at_once_rests_while_others_wait() {
    let once = hourly(1, RateKey::Route);
    let server = holders(Duration::from_secs(1))
        .fixed("/once", "once")
        .tune_route(|route| route.limits = RouteLimits { concurrency_max: None, rates: vec![once] })
        .start();
    let mut holder = enter(&server, "/run/hold", 1);
    server.check(&get("/once"), "200", "once");
    rests(&mut server.connect(), "/once", 429);
    ask(&server, "/release");
    holder.expect("200", "held");
}

/// Checks that a client is refused two thousand times, and that pauses slow it down.
fn rests(peer: &mut Peer, path: &str, status: u16) {
    let begun = Instant::now();
    for _ in 0..40 {
        peer.send(get(path).repeat(50));
        (0..50).for_each(|_| assert_eq!(peer.reply(false).status, status));
    }
    // Each refusal adds a pause of 80 us. The first refusals, the last refusals, and refusals while the queue
    // is short add no pause.
    assert!(begun.elapsed() >= Duration::from_micros(80) * 1600, "{:?}", begun.elapsed());
}

/// Sends requests until a request is refused because too many scripts wait.
fn too_many(server: &Running) -> Vec<Peer> {
    let mut peers = Vec::new();
    while server.refusals("script_queue") == 0 {
        let mut peer = server.connect();
        peer.send(get("/run/hold"));
        peers.push(peer);
        assert!(peers.len() < 100, "nobody is refused");
        until_known(server, peers.len());
    }
    is_refused(peers.pop().unwrap());
    peers
}

fn is_refused(mut peer: Peer) {
    let refused = peer.reply(false);
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    assert_eq!(refused.field("tollgate-outcome"), Some("refused"));
}

/// Returns whether the status of the server shows that it refuses scripts.
fn refuses_scripts(server: &Running) -> bool {
    server.watch().status().workers[0].refuses_scripts
}

/// Waits until the scripts of this many requests have begun, or the requests were refused.
fn until_known(server: &Running, count: usize) {
    let begun = Instant::now();
    while ask(server, "/see/entered").parse::<usize>().unwrap() + server.refusals("script_queue") as usize
        != count
    {
        assert!(begun.elapsed() < PATIENCE, "a request is not entered");
    }
}

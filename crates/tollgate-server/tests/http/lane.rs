//! Scripts that take more than a slice: they go on one after the other, whoever is quick goes between their slices, and those
//! are refused who would wait for too many of them.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{spawn_local, yield_now};
use tollgate_log::{DiskStorage, Log, LogOptions};
use tollgate_server::StreamServer;

use crate::asking::{PATIENCE, ask, get, until};
use crate::peer::Peer;
use crate::site::{Running, Site};

/// `/run/hold` runs until somebody asked for `/release`, and `/run/nap` then sleeps for an hour; `/run/behind` runs until
/// another did. `entered` is how many were, `switches` how often another of them ran than before.
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

/// How long a request may wait, where nobody is to be refused.
const FOR_EVER: Duration = Duration::from_secs(3600);

fn holders(queue_age_max: Duration) -> Site {
    Site::new()
        .script("/run/{what}", RUN)
        .handler("/see/{what}", "return tostring(tollgate.shared.get(req.params.what) or 0)")
        .handler("/release", "tollgate.shared.set('released', true) return 'released'")
        .tune(|options| {
            options.script.cpu_budget = 2 * PATIENCE;
            options.crowd.queue_age_max = queue_age_max;
        })
}

/// Asks for something that is entered, and waits until it is.
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
    /// Asks on a connection of its own.
    async fn send(&self, what: &str) -> DuplexStream {
        let (mut near, far) = duplex(1 << 16);
        let server = self.server.clone();
        spawn_local(async move { server.serve(far, IpAddr::V4(Ipv4Addr::LOCALHOST)).await });
        let request = format!("GET {what} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        near.write_all(request.as_bytes()).await.unwrap();
        near
    }

    async fn content(mut peer: DuplexStream) -> String {
        let mut reply = String::new();
        peer.read_to_string(&mut reply).await.unwrap();
        reply.split("\r\n\r\n").nth(1).unwrap().to_owned()
    }

    async fn number(&self, what: &str) -> usize {
        Self::content(self.send(what).await).await.parse().unwrap()
    }
}

fn in_turns(test: impl AsyncFnOnce(&Turning)) {
    let site = holders(FOR_EVER);
    let log = LogOptions::new(&site.folder().join("log"));
    let (log, _) = Log::open(Arc::new(DiskStorage), log, Vec::new(), |event| panic!("{event:?}")).unwrap();
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap();
    runtime.block_on(async {
        let server = Rc::new(StreamServer::new(&site.options, &log).unwrap());
        test(&Turning { server }).await;
    });
}

#[test]
fn long_scripts_go_on_one_after_the_other() {
    in_turns(async |turning| {
        let mut peers = Vec::new();
        for _ in 0..4 {
            peers.push(turning.send("/run/hold").await);
        }
        while turning.number("/see/entered").await < 4 {}
        let before = turning.number("/see/switches").await;
        for _ in 0..200 {
            yield_now().await;
        }
        let switches = turning.number("/see/switches").await - before;
        // In turns there would be as many in fifty.
        assert!((10..50).contains(&switches), "{switches} in 200 slices");
        assert_eq!(Turning::content(turning.send("/release").await).await, "released");
        for peer in peers {
            assert_eq!(Turning::content(peer).await, "held");
        }
    });
}

#[test]
fn who_is_quick_waits_for_a_slice_and_not_for_the_lane() {
    in_turns(async |turning| {
        let mut peers = Vec::new();
        for _ in 0..30 {
            peers.push(turning.send("/run/hold").await);
        }
        while turning.number("/see/entered").await < 30 {}
        for _ in 0..20 {
            let before = turning.number("/see/switches").await;
            let switches = turning.number("/see/switches").await - before;
            assert!(switches <= 2, "{switches} others went before");
        }
        assert_eq!(Turning::content(turning.send("/release").await).await, "released");
        for peer in peers {
            assert_eq!(Turning::content(peer).await, "held");
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
fn clients_that_are_gone_leave_the_lane_to_those_behind_them() {
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
        local is_full = false
        return function(req)
            if req.params.what == 'full' then return tostring(is_full) end
            return { write = function(out)
                for n = 1, 1000000 do
                    out:write(string.rep('x', 1000))
                    is_full = n > 10000
                    for _ = 1, 1000 do end
                end
            end }
        end";
    let server = holders(FOR_EVER).script("/stream/{what}", script).start();
    let mut slow = server.connect();
    slow.send(get("/stream/run"));
    let mut next = enter(&server, "/run/hold", 1);
    ask(&server, "/release");
    next.expect("200", "held");
    slow.expect_bytes(b"HTTP/1.1 200");
}

#[test]
fn requests_of_a_pipeline_have_one_place_together() {
    let server = holders(FOR_EVER).start();
    let mut pipeline = server.connect();
    pipeline.send(get("/run/hold").repeat(20));
    until(&server, "/see/entered", "20");
    for entered in 21..25 {
        enter(&server, "/run/behind", entered).expect("200", "behind");
    }
    ask(&server, "/release");
    (0..20).for_each(|_| drop(pipeline.expect("200", "held")));
}

#[test]
fn when_too_many_wait_scripts_that_would_wait_too_are_refused_and_nobody_else() {
    let server = holders(Duration::from_secs(1))
        .handler("/quick/script", "return 'quick'")
        .fixed("/quick/fixed", "fixed")
        .start();
    let mut peers = Vec::new();
    while server.refusals("script_queue") == 0 {
        let mut peer = server.connect();
        peer.send(get("/run/hold"));
        peers.push(peer);
        assert!(peers.len() < 100, "nobody is refused");
        until_known(&server, peers.len());
    }
    let refused = peers.pop().unwrap().reply(false);
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    assert_eq!(refused.field("tollgate-outcome"), Some("refused"));
    assert!(peers.len() >= 4, "{} are enough", peers.len());
    server.check(&get("/quick/script"), "200", "quick");
    server.check(&get("/quick/fixed"), "200", "fixed");
    ask(&server, "/release");
    for mut peer in peers {
        peer.expect("200", "held");
    }
    // Nobody waits any more, and those who come are taken.
    ask(&server, "/run/hold");
}

/// Waits until so many were entered or refused.
fn until_known(server: &Running, count: usize) {
    let begun = Instant::now();
    while ask(server, "/see/entered").parse::<usize>().unwrap() + server.refusals("script_queue") as usize
        != count
    {
        assert!(begun.elapsed() < PATIENCE, "a request is not entered");
    }
}

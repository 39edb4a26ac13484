//! Tests of scripts that wait. Other requests are served during a wait, replies keep their order, and a wait
//! ends after its time, or with its client or the server.

use std::thread;
use std::time::{Duration, Instant};

use tollgate_log::Level;

use crate::asking::{ask, get, until};
use crate::peer::PATIENCE;
use crate::peer::Peer;
use crate::site::Site;

/// Any path with `?s=SECONDS` sleeps. `/entered` returns the number of calls that began, and `/left` the
/// number of calls that have finished their sleep.
const SLEEPER: &str = "
    local entered, left = 0, 0
    return function(req)
        local what, seconds = req.params.what, tonumber(req.query.s)
        if what == 'entered' then return tostring(entered) end
        if what == 'left' then return tostring(left) end
        entered += 1
        if seconds then tollgate.sleep(seconds) end
        left += 1
        return { body = what, record = { n = tonumber(req.query.n) } }
    end";

fn sleeper(site: Site) -> Site {
    site.script("/{what}", SLEEPER)
}

fn recorded() -> Site {
    let columns = ["n int record.n", "status int reply.status", "outcome text reply.outcome"];
    Site::new().stream("all", Level::Synced, &columns)
}

#[test]
fn a_thousand_requests_that_sleep_take_as_long_as_one_and_hold_nobody_up() {
    let server = sleeper(Site::new()).start();
    let mut peers: Vec<_> = (0..20).map(|_| server.connect()).collect();
    let begun = Instant::now();
    for peer in &mut peers {
        peer.send(get("/nap?s=1").repeat(50));
    }
    let mut asked = 0;
    while ask(&server, "/left") != "1000" {
        asked += 1;
        assert!(begun.elapsed() < PATIENCE);
    }
    // If the calls ran one after the other, they would sleep for 1,000 seconds.
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(100), "{took:?}");
    assert!(asked > 10, "{asked} requests were answered meanwhile");
    for peer in &mut peers {
        (0..50).for_each(|_| drop(peer.expect("200", "nap")));
    }
}

#[test]
fn replies_keep_their_order_and_so_do_records_whoever_sleeps_longest() {
    let server = sleeper(recorded()).start();
    let mut peer = server.connect();
    let requests = [("a", "0.09"), ("b", "0.06"), ("c", "0"), ("d", "0.03")];
    peer.send(
        requests
            .iter()
            .zip(1..)
            .map(|((what, s), n)| get(&format!("/{what}?s={s}&n={n}")))
            .collect::<String>(),
    );
    for (what, _) in requests {
        peer.expect("200", what);
    }
    let expect = [1, 2, 3, 4].map(|n| format!("n={n} status=200 outcome=complete"));
    assert_eq!(server.records(), expect);
}

#[test]
fn a_request_that_is_not_safe_and_those_around_it_sleep_one_after_the_other() {
    let script = "
        local sleeping = 0
        return function(req)
            sleeping += 1
            local most = sleeping
            tollgate.sleep(0.03)
            sleeping -= 1
            return tostring(most)
        end";
    let server = Site::new().script("/{what}", script).start();
    let mut peer = server.connect();
    peer.send([&get("/a"), "POST /b HTTP/1.1\r\nHost: a\r\n\r\n", &get("/c")].concat());
    (0..3).for_each(|_| drop(peer.expect("200", "1")));
}

#[test]
fn a_sleeper_that_takes_too_long_is_a_500_and_recorded_as_one() {
    let server =
        sleeper(recorded()).tune(|options| options.script.wall_budget = Duration::from_millis(50)).start();
    let mut peer = server.connect();
    peer.send([get("/nap?s=3600&n=1"), get("/quick?n=2")].concat());
    peer.expect("500", "the script failed\n");
    peer.expect("200", "quick");
    assert_eq!(server.records(), ["n=null status=500 outcome=complete", "n=2 status=200 outcome=complete"]);
}

#[test]
fn a_client_that_is_gone_ends_the_waits_of_its_calls() {
    let server = sleeper(recorded()).tune(|options| options.drain_timeout = 2 * PATIENCE).start();
    let mut peer = server.connect();
    peer.send([get("/nap?s=3600&n=1"), get("/nap?s=3600&n=2")].concat());
    until(&server, "/entered", "2");
    peer.reset();
    // The drain is quick only because the calls are cancelled.
    let begun = Instant::now();
    let records = server.records();
    assert!(begun.elapsed() < PATIENCE);
    let cancelled = records.iter().filter(|record| *record == "n=null status=null outcome=cancelled");
    assert_eq!(cancelled.count(), 2, "{records:?}");
}

#[test]
fn a_client_that_only_sends_no_more_is_waited_for() {
    let server = sleeper(Site::new()).start();
    let mut peer = server.connect();
    peer.send(get("/nap?s=0.05"));
    peer.finish();
    peer.expect("200", "nap");
    peer.expect_end();
}

#[test]
fn a_sleeper_ends_well_while_the_server_drains() {
    let server = sleeper(recorded()).start();
    let mut peer = server.connect();
    peer.send(get("/nap?s=0.3&n=1"));
    until(&server, "/entered", "1");
    let draining = thread::spawn(move || server.records());
    let reply = peer.expect("200", "nap");
    assert_eq!(reply.field("connection"), Some("close"));
    peer.expect_end();
    let records = draining.join().unwrap();
    assert!(records.contains(&"n=1 status=200 outcome=complete".to_owned()), "{records:?}");
}

#[test]
fn a_sleeper_beyond_the_drain_deadline_is_cancelled_and_recorded() {
    let server =
        sleeper(recorded()).tune(|options| options.drain_timeout = Duration::from_millis(200)).start();
    let mut peer = server.connect();
    peer.send(get("/nap?s=3600&n=1"));
    until(&server, "/entered", "1");
    let records = server.records();
    assert_eq!(records.last().unwrap(), "n=null status=null outcome=cancelled");
}

#[test]
fn a_script_that_waits_for_nothing_again_and_again_gives_others_their_turn() {
    let script = "
        local is_over = false
        return function(req)
            if req.params.what == 'end' then is_over = true return 'ended' end
            while not is_over do tollgate.sleep(0) end
            return 'saw it'
        end";
    let server = Site::new()
        .script("/{what}", script)
        .tune(|options| options.script.cpu_budget = 2 * PATIENCE)
        .start();
    let mut peer = Peer::connect(server.address());
    peer.send(get("/watch"));
    let mut other = server.connect();
    other.send(get("/end"));
    other.expect("200", "ended");
    peer.expect("200", "saw it");
}

#[test]
fn the_memory_of_waiting_calls_is_counted_and_refused_beyond_the_bound() {
    let script = "
        local kept = {}
        return function(req)
            if req.params.what == 'quick' then return 'quick' end
            local text = string.rep('x', 2e6)
            tollgate.sleep(3600)
            return text
        end";
    let site = Site::new().script("/{what}", script);
    let server = site.tune(|options| options.capacity.in_flight_bytes_max = 8_000_000).start();
    let mut holding = Vec::new();
    let begun = Instant::now();
    loop {
        // A few of these requests are refused because of garbage from earlier requests.
        let mut peer = server.connect();
        peer.send(get("/hold"));
        holding.push(peer);
        let mut peer = server.connect();
        peer.send(get("/quick"));
        let reply = peer.reply(false);
        if reply.status == 503 {
            assert_eq!(
                reply.content,
                "the server has too little memory for this request: nothing was recorded\n"
            );
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{reply:?}");
    }
}

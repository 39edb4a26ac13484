//! Tests of the limits for one client, and for all clients together.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_server::ServerOptions;

use crate::peer::PATIENCE;
use crate::peer::{Peer, Reply};
use crate::site::{Running, Site};

pub(crate) const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn site(tune: impl FnOnce(&mut ServerOptions)) -> Running {
    Site::new().fixed("/", "hello").tune(tune).start()
}

/// Checks that a reply has `status`, states that nothing was recorded, and names the time to retry.
pub(crate) fn assert_refused(reply: &Reply, status: u16) {
    let fields = ["tollgate-outcome", "retry-after"].map(|name| reply.field(name));
    assert_eq!((reply.status, fields), (status, [Some("refused"), Some("1")]), "{reply:?}");
}

pub(crate) fn expect_refused(mut peer: Peer, status: u16) {
    let reply = peer.reply(false);
    assert_refused(&reply, status);
    assert_eq!(reply.field("connection"), Some("close"));
    peer.expect_end();
}

/// Opens connections until one of them is served again.
pub(crate) fn eventually_served(connect: impl Fn() -> Peer) {
    let begun = Instant::now();
    loop {
        let mut peer = connect();
        peer.send(REQUEST);
        if peer.reply(false).status == 200 {
            return;
        }
        assert!(begun.elapsed() < LONG);
    }
}

#[test]
fn connections_beyond_the_limit_are_told_so_and_closed() {
    let server = site(|options| options.capacity.connections_max = 3);
    let mut peers: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for peer in &mut peers {
        peer.send(REQUEST);
        peer.expect("200", "hello");
    }
    expect_refused(server.connect(), 503);
    let mut asking = server.connect();
    asking.send(REQUEST);
    expect_refused(asking, 503);
    peers.pop();
    eventually_served(|| server.connect());
}

#[test]
fn each_refused_connection_gets_the_reason_however_many_they_are() {
    let server = site(|options| options.capacity.connections_max = 1);
    let mut only = server.connect();
    only.send(REQUEST);
    only.expect("200", "hello");
    let mut peers: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for peer in &mut peers {
        assert_refused(&peer.reply(false), 503);
    }
}

#[test]
fn the_last_request_of_a_connection_is_told_so() {
    let server = site(|options| options.connection.requests_max = Some(3));
    let mut peer = server.connect();
    peer.send(REQUEST.repeat(5));
    for expect in [None, None, Some("close")] {
        assert_eq!(peer.expect("200", "hello").field("connection"), expect);
    }
    peer.expect_end();
}

#[test]
fn idle_connections_make_room_when_there_are_many() {
    let server = site(|options| {
        options.capacity.connections_max = 10;
        options.connection.idle_timeout = LONG;
        options.connection.idle_timeout_crowded = SHORT;
        options.connection.head_timeout = 3 * SHORT;
    });
    let mut few: Vec<_> = (0..7).map(|_| server.connect()).collect();
    for peer in &mut few {
        peer.send(REQUEST);
        peer.expect("200", "hello");
    }
    let mut slow = server.connect();
    slow.send("GET / HT");
    assert_eq!(slow.reply(false).status, 408, "the time of a head is over, and so is three times theirs");
    slow.expect_end();
    assert!(few.iter_mut().all(Peer::is_silent));
    let _more = [server.connect(), server.connect()];
    few.iter_mut().for_each(Peer::expect_end);
}

#[test]
fn a_body_that_drips_is_408_and_one_that_flows_may_take_its_time() {
    let tune = |options: &mut ServerOptions| {
        options.connection.body_pace.rate_grace = SHORT;
        options.connection.body_pace.rate_min = 1000;
    };
    let server = Site::new().handler("/", "return 'read'").tune(tune).start();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    let mut slow = server.connect();
    let begun = Instant::now();
    slow.send(head);
    while slow.is_silent() {
        slow.send("x");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(slow.reply(false).status, 408);
    assert!(begun.elapsed() >= SHORT);
    let mut steady = server.connect();
    steady.send(head);
    for _ in 0..20 {
        steady.send("x".repeat(5000));
        thread::sleep(SHORT / 4);
    }
    steady.expect("200", "read");
}

#[test]
fn a_reply_that_is_sipped_is_cut_off() {
    let server = Site::new()
        .handler("/", "return string.rep('x', 16000000)")
        .tune(|options| {
            options.script.memory_bytes_max = 64 << 20;
            // The timeout is longer than a slow reader needs to make space in the buffers of the system.
            options.connection.write_timeout = Duration::from_secs(1);
            options.connection.write_rate_min = 100 << 20;
            options.connection.idle_timeout = SHORT;
        })
        .start();
    let mut peer = server.connect();
    peer.send(REQUEST.repeat(3));
    let came = peer.sip(64 << 10, Duration::from_millis(20));
    assert!((1..3 * 16_000_000).contains(&came), "{came} bytes");
}

#[test]
fn bodies_that_hold_too_much_together_are_refused_and_their_memory_is_free_again() {
    let server = Site::new()
        .handler("/", "return 'read'")
        .tune(|options| {
            options.capacity.in_flight_bytes_max = 3 << 19;
            options.connection.body_memory_max = 1 << 20;
        })
        .start();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 700000\r\n\r\n";
    let mut first = server.connect();
    first.send(head);
    first.send("x".repeat(600_000));
    let mut second = server.connect();
    second.send(head);
    second.send("x".repeat(600_000));
    // The later of the two requests is refused.
    let (mut told, mut other) = loop {
        match (first.is_silent(), second.is_silent()) {
            (false, true) => break (first, second),
            (true, false) => break (second, first),
            (true, true) => thread::yield_now(),
            (false, false) => panic!("both were refused"),
        }
    };
    assert_refused(&told.reply(false), 503);
    other.send("x".repeat(100_000));
    other.expect("200", "read");
    drop((told, other));
    // The memory is free when the server has seen the end of the refused request.
    let again = || {
        let mut peer = server.connect();
        peer.send(format!("{head}{}", "x".repeat(700_000)));
        peer.reply(false)
    };
    let begun = Instant::now();
    let mut reply = again();
    while reply.status == 503 && begun.elapsed() < LONG {
        reply = again();
    }
    assert_eq!((reply.status, &*reply.content), (200, "read"));
}

#[test]
fn bytes_of_a_reply_that_a_peer_does_not_take_do_not_wait_in_the_kernel() {
    const REPLY_BYTES: usize = 4 << 20;
    let server = Site::new().handler("/", &format!("return string.rep('x', {REPLY_BYTES})")).start();
    let mut peer = server.connect();
    peer.send(REQUEST);
    // Waits until the value no longer changes. The server then cannot send more bytes.
    let (begun, mut queued, mut looks) = (Instant::now(), 0, 0);
    while looks < 10 {
        let before = std::mem::replace(&mut queued, bytes_queued_by(server.address(), ESTABLISHED));
        looks = if queued > 0 && queued == before { looks + 1 } else { 0 };
        assert!(begun.elapsed() < LONG);
        thread::sleep(Duration::from_millis(20));
    }
    assert!(queued < 512 << 10, "{queued}");
    assert_eq!(peer.reply(false).content.len(), REPLY_BYTES);
}

/// States of connections in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";
const CLOSED_WITH_BYTES_UNSENT: &str = "04";

/// Returns the unacknowledged reply bytes in the kernel, for connections of an address that are in this state
/// (proc_pid_net(5), `tx_queue`).
fn bytes_queued_by(address: SocketAddr, state: &str) -> usize {
    let port = format!(":{:04X}", address.port());
    let connections = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let queued = connections.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let queue = words.get(4)?.split_once(':')?.0;
        (words[1].ends_with(&port) && words[3] == state).then(|| usize::from_str_radix(queue, 16).unwrap())
    });
    queued.sum()
}

#[test]
fn readers_that_take_nothing_are_cut_once_they_hold_too_much_together() {
    let server = Site::new()
        .handler("/", "return string.rep('x', 8000000)")
        .fixed("/small", "hello")
        .tune(|options| options.capacity.in_flight_bytes_max = 20_000_000)
        .start();
    let mut peers: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for peer in &mut peers {
        peer.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    let small = "GET /small HTTP/1.1\r\nHost: a\r\n\r\n";
    let begun = Instant::now();
    loop {
        let mut peer = server.connect();
        peer.send(small);
        if peer.reply(false).status == 200 {
            break;
        }
        assert!(begun.elapsed() < LONG);
    }
    // Waits until no closed connection has unsent bytes: a refused client gets its short reply soon.
    while bytes_queued_by(server.address(), CLOSED_WITH_BYTES_UNSENT) > 0 {
        assert!(begun.elapsed() < LONG / 2);
        thread::yield_now();
    }
    let whole =
        peers.into_iter().map(|mut peer| peer.sip(1 << 20, Duration::ZERO)).filter(|came| *came > 8_000_000);
    let whole = whole.count();
    assert!((1..10).contains(&whole), "{whole} whole replies");
}

#[test]
fn a_worker_that_is_behind_refuses_some_and_answers_some() {
    let server = Site::new()
        .handler("/", "local n = 0 while n < 100000 do n += 1 end return 'done'")
        .tune(|options| options.capacity.queue_age_max = Duration::from_millis(50))
        .start();
    let address: SocketAddr = server.address();
    let ask = move || {
        let mut peer = Peer::connect(address);
        let mut statuses = Vec::new();
        for _ in 0..20 {
            peer.send(REQUEST);
            let reply = peer.reply(false);
            if reply.status != 200 {
                assert_refused(&reply, 503);
            }
            // A client whose connection was refused when it was accepted must connect again.
            if reply.field("connection").is_some_and(|connection| connection == "close") {
                peer = Peer::connect(address);
            }
            statuses.push(reply.status);
        }
        statuses
    };
    // On a busy machine the clients may be as slow as the worker. The clients then repeat their requests.
    let (begun, mut served, mut refused) = (Instant::now(), 0, 0);
    while served == 0 || refused == 0 {
        assert!(begun.elapsed() < LONG, "{served} served, {refused} refused");
        let clients: Vec<_> = (0..100).map(|_| thread::spawn(ask)).collect();
        let statuses: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        let now_served = statuses.iter().filter(|status| **status == 200).count();
        served += now_served;
        refused += statuses.len() - now_served;
    }
    eventually_served(|| server.connect());
}

#[test]
fn a_fixed_reply_is_not_refused_because_the_worker_is_behind() {
    let server = Site::new()
        .handler("/", "local n = 0 while n < 100000 do n += 1 end return 'done'")
        .fixed("/fixed", "hello")
        .tune(|options| options.capacity.queue_age_max = Duration::from_millis(10))
        .start();
    const FIXED: &str = "GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n";
    // A client that is not accepted yet could be refused, so each client first waits for a reply.
    let accepted = |mut client: Peer| {
        client.send(FIXED);
        assert_eq!(client.reply(false).status, 200);
        client
    };
    let mut clients: Vec<_> = (0..50).map(|_| accepted(server.connect())).collect();
    let mut neighbour = accepted(server.connect());
    let mut refused = 0;
    while refused < 20 {
        for client in &mut clients {
            client.send(REQUEST);
        }
        neighbour.send(FIXED.repeat(100));
        for _ in 0..100 {
            assert_eq!(neighbour.reply(false).status, 200);
        }
        let statuses = clients.iter_mut().map(|client| client.reply(false).status);
        refused += statuses.filter(|status| *status == 503).count();
    }
}

/// Script that makes each turn of its worker last 20 ms. Luau does not suspend the metamethod, but it
/// suspends the loop after it.
const BUSY: &str = "return { write = function(out)
    out:write('busy')
    while true do
        local over = os.clock() + 0.02
        local function spin() while os.clock() < over do end end
        local _ = setmetatable({}, { __index = spin }).any
        over += 0.003
        while os.clock() < over do end
    end
end }";
const FIXED: &str = "GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n";

/// A server whose worker has long turns while the first client stays.
struct BusyServer {
    server: Running,
    _busy: Peer,
}

impl BusyServer {
    fn start() -> Self {
        let server = Site::new()
            .handler("/busy", BUSY)
            .fixed("/fixed", "fixed")
            .tune(|options| {
                options.capacity.queue_age_max = Duration::from_millis(10);
                options.script.cpu_budget = 2 * PATIENCE;
                options.backlog = 1024;
            })
            .start();
        // On a busy machine this request may be refused, so it is repeated.
        let busy = std::iter::repeat_with(|| {
            let mut peer = server.connect();
            peer.send("GET /busy HTTP/1.1\r\nHost: a\r\n\r\n");
            (peer.head().status == 200).then_some(peer)
        });
        let busy = busy.flatten().next().unwrap();
        Self { server, _busy: busy }
    }

    /// Connects groups of 400 clients until `is_seen` returns true for a group. Client `i` of a group sends
    /// `requests[i % requests.len()]`. Several groups may be needed, because the worker may accept a whole
    /// group after a single long turn.
    fn crowds(&self, requests: &[&str], mut is_seen: impl FnMut(Vec<Peer>) -> bool) {
        let ask = |requests: &&str| {
            let mut peer = self.server.connect();
            peer.send(requests);
            peer
        };
        let begun = Instant::now();
        while !is_seen(requests.iter().cycle().take(400).map(ask).collect()) {
            assert!(begun.elapsed() < PATIENCE, "not in time");
        }
    }
}

/// Returns whether the reply is for a connection that was refused when it was accepted. If only a request is
/// refused, its connection stays open.
fn is_of_one_turned_away(reply: &Reply) -> bool {
    reply.status == 503 && reply.field("connection") == Some("close")
}

#[test]
fn connections_that_wait_to_be_accepted_are_refused_too_when_the_worker_is_behind() {
    let (mut served, mut turned_away) = (0, 0);
    BusyServer::start().crowds(&[FIXED], |mut peers| {
        let replies: Vec<_> = peers.iter_mut().map(|peer| peer.reply(false)).collect();
        let before = served + turned_away;
        served += replies.iter().filter(|reply| reply.status == 200).count();
        turned_away += replies.iter().filter(|reply| is_of_one_turned_away(reply)).count();
        assert_eq!(served + turned_away - before, peers.len());
        served > 0 && turned_away > 0
    });
}

#[test]
fn connections_refused_before_they_are_accepted_count_among_the_connections() {
    let busy = BusyServer::start();
    let accepted = || busy.server.watch().status().accepted;
    let mut expect = accepted();
    busy.crowds(&[FIXED], |mut peers| {
        let replies: Vec<_> = peers.iter_mut().map(|peer| peer.reply(false)).collect();
        expect += peers.len() as u64;
        assert_eq!(accepted(), expect);
        replies.iter().any(is_of_one_turned_away)
    });
}

#[test]
fn a_connection_that_waits_to_be_accepted_without_a_request_is_not_refused() {
    BusyServer::start().crowds(&[FIXED, FIXED, ""], |mut peers| {
        let mut silent: Vec<_> = (0..peers.len() / 3).map(|n| peers.remove(2 * n + 2)).collect();
        let replies: Vec<_> = peers.iter_mut().map(|peer| peer.reply(false)).collect();
        for peer in &mut silent {
            peer.send(FIXED);
            peer.expect("200", "fixed");
        }
        replies.iter().any(is_of_one_turned_away)
    });
}

#[test]
fn bytes_of_a_connection_refused_before_it_is_accepted_do_not_reset_it() {
    let long = format!("GET /fixed HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "x".repeat(4000));
    BusyServer::start().crowds(&[&long.repeat(10)], |mut peers| {
        let mut refused = 0;
        for peer in &mut peers {
            let reply = peer.reply(false);
            if is_of_one_turned_away(&reply) {
                assert_eq!(peer.rest(), "");
                refused += 1;
            }
        }
        refused > 0
    });
}

//! Tests of the bytes that a client sends, and of the reported end of its connection.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use tollgate_faults::client::FaultyClientsError;
use tollgate_faults::{Backend, ClientFault, Fault, FaultyClients, FaultyClientsOptions};

use crate::peer::{End, PATIENCE, Peer};

const GET: &str = "GET / HTTP/1.1\r\nHost: faults\r\n\r\n";
const BEGUN: &str = "GET / HTTP/1.1\r\nHost: faults\r\nX-Fault: ";
const REPLY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const SILENCE: Duration = Duration::from_millis(200);

struct Server {
    listener: TcpListener,
    clients: FaultyClients,
}

fn come(fault: &str, count: usize) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let clients = FaultyClients::start(FaultyClientsOptions::new(fault.parse().unwrap(), to, count)).unwrap();
    Server { listener, clients }
}

fn post(fields: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: faults\r\nContent-Type: text/plain\r\n{fields}\r\n")
}

/// Checks that one client connects, sends the text `says`, and ends the connection by `end`.
#[track_caller]
fn sends_all(fault: &str, says: &str, end: End) {
    let server = come(fault, 1);
    let mut peer = Peer::accept(&server.listener);
    let (came, ended) = peer.rest();
    assert_eq!((&*String::from_utf8_lossy(&came), ended), (says, end), "{fault}");
    let tally = server.clients.wait_until(PATIENCE, |tally| tally.ended() == 1).unwrap();
    assert_eq!((tally.left, tally.open), (1, 0), "{fault}");
}

/// Checks that one client connects, sends the text `says`, and then waits.
#[track_caller]
fn sends_and_waits(fault: &str, says: &str) {
    let server = come(fault, 1);
    let mut peer = Peer::accept(&server.listener);
    assert_eq!(peer.read(says.len()), says, "{fault}");
    assert!(peer.is_silent_for(SILENCE), "{fault}");
    assert_eq!(server.clients.tally().open, 1);
    peer.send("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n");
    drop(peer);
    let tally = server.clients.wait_until(PATIENCE, |tally| tally.ended() == 1).unwrap();
    assert_eq!((tally.closed, tally.reset), (1, 0), "{fault}");
    assert_eq!(tally.statuses.get(&408), Some(&1), "{fault}");
    assert!(tally.open_for_max >= SILENCE, "{fault}");
}

#[test]
fn clients_with_some_faults_end_their_connections() {
    sends_all("close-in-head", BEGUN, End::Closed);
    let half = format!("{}half of it", post("Content-Length: 900000\r\n"));
    sends_all("close-in-body", &half, End::Closed);
    sends_all("reset-in-body", &half, End::Reset);
    sends_all("reset-before-reply", GET, End::Reset);
    sends_all("reset-at-once", "", End::Reset);
}

#[test]
fn clients_with_some_faults_stay() {
    sends_and_waits("idle", "");
    sends_and_waits("expect-nothing", &post("Content-Length: 5\r\nExpect: 100-continue\r\n"));
    let both = post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n");
    sends_and_waits("length-and-chunked", &format!("{both}0\r\n\r\n"));
    let twice = post("Content-Length: 5\r\nContent-Length: 10\r\n");
    sends_and_waits("two-lengths", &format!("{twice}0123456789"));
    sends_and_waits("bad-chunk-size", &format!("{}zz\r\n", post("Transfer-Encoding: chunked\r\n")));
    sends_and_waits("pipeline:3", &GET.repeat(3));
    sends_and_waits("long-head:5000", &format!("{BEGUN}{}\r\n\r\n", "x".repeat(5000)));
    sends_and_waits("many-fields:300", &format!("{BEGUN}{}\r\n\r\n", "\r\nX-Many: 1".repeat(300)));
}

#[test]
fn slow_ones_send_drop_by_drop() {
    let drip = |fault: &str, begun: &str, drop: &str| {
        let server = come(fault, 1);
        let mut peer = Peer::accept(&server.listener);
        assert_eq!(peer.read(begun.len()), begun, "{fault}");
        let began = Instant::now();
        assert_eq!(peer.read(drop.len() * 10), drop.repeat(10), "{fault}");
        assert!(began.elapsed() >= Duration::from_millis(15), "{fault}: {:?}", began.elapsed());
    };
    drip("slow-head:2ms", BEGUN, "x");
    drip("slow-body:2ms", &post("Content-Length: 900000\r\n"), "x");
    drip("slow-chunks:2ms", &post("Transfer-Encoding: chunked\r\n"), "1\r\nx\r\n");
}

#[test]
fn noise_differs_from_client_to_client() {
    let server = come("garbage:1000", 2);
    let [mut one, mut other] = [Peer::accept(&server.listener), Peer::accept(&server.listener)];
    assert_ne!(one.read(1000), other.read(1000));
    assert!(one.is_silent_for(SILENCE));
}

#[test]
fn a_client_that_ended_its_half_reads_the_reply() {
    let server = come("half-close", 1);
    let mut peer = Peer::accept(&server.listener);
    assert_eq!(peer.rest(), (GET.into(), End::Closed));
    peer.send(REPLY);
    drop(peer);
    let tally = server.clients.wait_until(PATIENCE, |tally| tally.closed == 1).unwrap();
    assert_eq!(tally.statuses.get(&200), Some(&1));
}

#[test]
fn a_sound_client_leaves_with_its_reply_and_an_idle_one_stays() {
    let server = come("none", 1);
    let mut peer = Peer::accept(&server.listener);
    assert_eq!(peer.read(GET.len()), GET);
    peer.send(REPLY);
    assert_eq!(peer.rest().1, End::Closed);
    assert_eq!(server.clients.wait_until(PATIENCE, |tally| tally.left == 1).unwrap().statuses[&200], 1);

    let server = come("idle-after-one", 1);
    let mut peer = Peer::accept(&server.listener);
    assert_eq!(peer.read(GET.len()), GET);
    peer.send(REPLY);
    assert!(peer.is_silent_for(SILENCE));
}

#[test]
fn slow_readers_take_little() {
    let backend = Backend::start(Fault::Content(100 << 20)).unwrap();
    for fault in ["slow-reader:20ms", "no-reader"] {
        let options = FaultyClientsOptions::new(fault.parse().unwrap(), backend.address(), 1);
        let clients = FaultyClients::start(options).unwrap();
        let before = backend.seen().requests;
        backend.wait_until(PATIENCE, |seen| seen.requests > before).unwrap();
        let is_reading = fault != "no-reader";
        if is_reading {
            clients.wait_until(PATIENCE, |tally| tally.bytes >= 5).unwrap();
        }
        assert!(clients.tally().bytes < 1000, "{fault}: {:?}", clients.tally());
        assert_eq!(backend.seen().in_flight, 1, "{fault}");
        drop(clients);
        backend.wait_until(PATIENCE, |seen| seen.in_flight == 0).unwrap();
    }
}

#[test]
fn a_reset_by_the_server_is_told() {
    let backend = Backend::start(Fault::Reset).unwrap();
    let options = FaultyClientsOptions::new(ClientFault::IdleAfterOne, backend.address(), 50);
    let clients = FaultyClients::start(options).unwrap();
    let tally = clients.wait_until(PATIENCE, |tally| tally.ended() == 50).unwrap();
    assert_eq!((tally.reset, tally.open, tally.connected), (50, 0, 50));
    assert!(tally.statuses.is_empty());
}

#[test]
fn clients_that_cannot_connect_are_counted() {
    let backend = Backend::start(Fault::Refuse).unwrap();
    let clients =
        FaultyClients::start(FaultyClientsOptions::new(ClientFault::Idle, backend.address(), 10)).unwrap();
    let tally = clients.wait_until(PATIENCE, |tally| tally.ended() == 10).unwrap();
    assert_eq!((tally.unconnected, tally.connected), (10, 0));
}

#[test]
fn a_crowd_comes_from_where_it_is_told_and_again() {
    let backend = Backend::start(Fault::None).unwrap();
    let clients = FaultyClients::start(FaultyClientsOptions {
        path: "/again".to_owned(),
        from: Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9))),
        again_after: Some(Duration::from_millis(1)),
        ..FaultyClientsOptions::new(ClientFault::None, backend.address(), 5)
    })
    .unwrap();
    let tally = clients.wait_until(PATIENCE, |tally| tally.left >= 100).unwrap();
    assert!(tally.open <= 5 && tally.statuses[&200] >= 100, "{tally:?}");
    assert!(backend.seen().open_max <= 6 && backend.requests()[0].target() == "/again");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let from = Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)));
    let options = FaultyClientsOptions::new(ClientFault::Idle, listener.local_addr().unwrap(), 1);
    let _clients = FaultyClients::start(FaultyClientsOptions { from, ..options }).unwrap();
    assert_eq!(Some(listener.accept().unwrap().1.ip()), from);
}

#[test]
fn an_idle_crowd_is_as_large_as_it_is_told() {
    let backend = Backend::start(Fault::None).unwrap();
    let clients =
        FaultyClients::start(FaultyClientsOptions::new(ClientFault::Idle, backend.address(), 400)).unwrap();
    backend.wait_until(PATIENCE, |seen| seen.open == 400).unwrap();
    clients.wait_until(PATIENCE, |tally| tally.open == 400).unwrap();
    drop(clients);
    backend.wait_until(PATIENCE, |seen| seen.open == 0).unwrap();
}

#[test]
fn clients_go_to_another_machine_only_if_told() {
    let to = "192.0.2.1:80".parse().unwrap();
    let refused = FaultyClients::start(FaultyClientsOptions::new(ClientFault::Idle, to, 1));
    assert!(matches!(refused, Err(FaultyClientsError::NotLoopback(address)) if address == to));
}

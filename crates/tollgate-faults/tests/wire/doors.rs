//! Tests of how a backend accepts connections, and of the change from one fault to another.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use tollgate_faults::{Backend, Fault};

use crate::peer::{End, GET, LAST, PATIENCE, Peer};

/// Bytes of a correct reply: a head, and ten bytes of content.
const RIGHT_BYTES: usize = 75;

fn is_answered(backend: &Backend) -> bool {
    let mut peer = Peer::connect(backend.address());
    peer.send(LAST);
    let (came, end) = peer.rest();
    end == End::Closed && came.ends_with(b"0123456789")
}

#[test]
fn a_refusing_backend_ends_its_connections_and_comes_back_on_the_same_port() {
    let backend = Backend::start(Fault::None).unwrap();
    let mut peer = Peer::connect(backend.address());
    peer.send(GET);
    peer.read_until("0123456789");
    for _ in 0..20 {
        backend.turn(Fault::Refuse).unwrap();
        let error = TcpStream::connect(backend.address()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        backend.turn(Fault::None).unwrap();
        assert!(is_answered(&backend));
    }
    assert!(peer.rest().0.is_empty());
}

#[test]
fn a_backend_that_refuses_can_be_the_first() {
    let backend = Backend::start(Fault::Refuse).unwrap();
    assert!(TcpStream::connect(backend.address()).is_err());
    assert_eq!(backend.seen().connections, 0);
}

#[test]
fn a_connection_that_is_not_accepted_is_not_made() {
    let backend = Backend::start(Fault::Unaccepted).unwrap();
    for _ in 0..3 {
        let error = TcpStream::connect_timeout(&backend.address(), Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
    backend.turn(Fault::None).unwrap();
    assert!(is_answered(&backend));
}

#[test]
fn a_slow_acceptor_is_never_ahead_of_its_pace() {
    let backend = Backend::start(Fault::SlowAccept(Duration::from_millis(300))).unwrap();
    let begun = std::time::Instant::now();
    let mut first = Peer::connect(backend.address());
    let mut second = Peer::connect(backend.address());
    first.send(LAST);
    second.send(LAST);
    assert_eq!(first.rest().0.len(), RIGHT_BYTES);
    assert_eq!(second.rest().0.len(), RIGHT_BYTES);
    assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
}

#[test]
fn a_connection_that_is_kept_meets_the_fault_of_the_moment() {
    let backend = Backend::start(Fault::None).unwrap();
    let mut peer = Peer::connect(backend.address());
    peer.send(GET);
    assert_eq!(peer.read(RIGHT_BYTES).len(), RIGHT_BYTES);
    backend.turn(Fault::Status(500)).unwrap();
    peer.send(GET);
    assert!(peer.read_until("0123456789").starts_with("HTTP/1.1 500 "));
    backend.turn(Fault::Reset).unwrap();
    peer.send(GET);
    assert_eq!(peer.rest(), (Vec::new(), End::Reset));
}

#[test]
fn a_silent_backend_stays_silent_to_the_clients_that_wait() {
    let backend = Backend::start(Fault::Silent).unwrap();
    let mut peer = Peer::connect(backend.address());
    peer.send(GET);
    backend.wait_until(PATIENCE, |seen| seen.requests == 1).unwrap();
    backend.turn(Fault::None).unwrap();
    assert!(is_answered(&backend));
    assert!(peer.is_silent_for(Duration::from_millis(200)));
}

#[test]
fn an_address_that_is_taken_is_told() {
    let backend = Backend::start(Fault::None).unwrap();
    let error = Backend::start_at(backend.address(), Fault::None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
}

#[test]
fn a_backend_that_is_dropped_is_gone() {
    let backend = Backend::start(Fault::Silent).unwrap();
    let address = backend.address();
    let mut peer = Peer::connect(address);
    peer.send(GET);
    backend.wait_until(PATIENCE, |seen| seen.requests == 1).unwrap();
    drop(backend);
    assert!(peer.rest().0.is_empty());
    assert!(TcpStream::connect(address).is_err());
}

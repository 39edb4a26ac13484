//! Tests of backends with addresses that accept no connection. Only requests that try such an address are
//! slower.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use tollgate_faults::{Backend, Fault};
use tollgate_server::{BackendOptions, BackendSnapshot};

use crate::backend::FakeBackend;
use crate::site::{Running, Site};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx";

/// Starts a server with a backend of these addresses, whose breakers never open.
fn serve(addresses: &[SocketAddr], tune: impl FnOnce(&mut BackendOptions)) -> Running {
    let addresses = addresses.iter().map(|address| format!("http://{address}").parse().unwrap());
    let mut options = BackendOptions::new("app", addresses.collect());
    options.breaker.requests_min = 1000;
    tune(&mut options);
    Site::new().proxy("/*", options, |_| {}).start()
}

/// Returns an address on which no server listens.
fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn status(server: &Running, request: &str) -> u16 {
    let mut peer = server.connect();
    peer.send(request);
    peer.reply(false).status
}

fn counted(server: &Running) -> BackendSnapshot {
    server.backends()[0].clone()
}

#[test]
fn an_address_that_refuses_costs_no_request_its_reply_whatever_the_budget() {
    for (retries_max, percent) in [(1, 20), (0, 0)] {
        let sound = FakeBackend::replying(OK);
        let server = serve(&[closed(), sound.address, closed()], |options| {
            (options.retries.max, options.retries.percent) = (retries_max, percent);
        });
        let begun = Instant::now();
        for request in [GET, POST].repeat(30) {
            assert_eq!(status(&server, request), 200);
        }
        let tries_max = 2 * (1 + begun.elapsed().as_secs());
        assert!((1..=tries_max).contains(&counted(&server).retries), "{:?}", counted(&server));
    }
}

#[test]
fn an_address_that_hangs_is_waited_for_by_one_request_after_each_pause() {
    let hanging = Backend::start(Fault::Unaccepted).unwrap();
    let sound = FakeBackend::replying(OK);
    let timeout = Duration::from_millis(300);
    let server = serve(&[hanging.address(), sound.address], |options| options.timeouts.connect = timeout);
    let begun = Instant::now();
    for request in [GET, POST].repeat(10) {
        assert_eq!(status(&server, request), 200);
    }
    let waits_max = 1 + begun.elapsed().as_secs();
    assert!((1..=waits_max).contains(&counted(&server).retries), "{:?}", counted(&server));
}

#[test]
fn a_backend_that_is_down_is_not_knocked_at_by_each_request_at_every_address() {
    let server = serve(&[closed(), closed(), closed(), closed()], |options| options.retries.percent = 0);
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(status(&server, GET), 502);
    }
    // The first request tries all four addresses. Later, one request in each pause tries the addresses again.
    let knocks_max = 3 * (1 + begun.elapsed().as_secs());
    assert!((3..=knocks_max).contains(&counted(&server).retries), "{:?}", counted(&server));
}

#[test]
fn an_address_that_is_back_is_asked_again() {
    let address = closed();
    let sound = FakeBackend::replying(OK);
    let server = serve(&[address, sound.address], |_| {});
    assert_eq!(status(&server, GET), 200);
    let back = Backend::start_at(address, Fault::None).unwrap();
    let begun = Instant::now();
    while counted(&server).addresses[0].idle == 0 {
        assert_eq!(status(&server, GET), 200);
        assert!(begun.elapsed() < Duration::from_secs(20), "it is asked again");
    }
    drop(back);
}

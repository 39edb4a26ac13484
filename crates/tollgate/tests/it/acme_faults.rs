//! An ACME server that is killed or frozen at each step of an order. Each request of an order has a
//! connection of its own, so a step is a number of a connection.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use rustix::process::Signal;

use crate::pebble::{Behaviour, Place, expect_served, expect_trusted};
use crate::program::{App, Running, eventually, in_threads};

/// Number of orders in parallel. Most of their time is a wait.
const THREADS: usize = 8;

/// A fault of the ACME server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is killed before it gets the request, and starts again with empty state.
    Killed,
    /// It gets the request, and answers only after the client has given up.
    Frozen,
}

/// A proxy in front of the ACME server. It counts connections, and holds back one of them.
struct Front {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// The end of the channel through which the held connection comes.
    held: Receiver<TcpStream>,
    target: SocketAddr,
}

impl Front {
    /// Starts the proxy. It holds back the connection with this number, counted from 1.
    fn start(target: SocketAddr, number: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let (hold, held) = channel();
        let (hold, counted) = (Mutex::new(hold), connections.clone());
        // The thread ends with the process.
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if counted.fetch_add(1, Ordering::SeqCst) + 1 == number {
                    send(&hold, client);
                } else {
                    pass(&client, target);
                }
            }
        });
        Self { address, connections, held, target }
    }

    /// Waits for the connection. `None`: the order was done without it.
    fn wait(&self, server: &Running) -> Option<TcpStream> {
        let is_done = || server.has_logged("new certificate");
        eventually("the connection, or the certificate", || {
            let held = self.held.try_recv().ok();
            (held.is_some() || is_done()).then_some(held)
        })
        .filter(|_| !is_done())
    }
}

fn send(hold: &Mutex<Sender<TcpStream>>, client: TcpStream) {
    // The test may have ended.
    drop(hold.lock().unwrap().send(client));
}

/// Passes bytes between a client and the ACME server. A server that is not there closes the connection.
fn pass(client: &TcpStream, target: SocketAddr) {
    let Ok(server) = TcpStream::connect(target) else { return };
    let pairs = [(client, &server), (&server, client)];
    for (from, to) in pairs.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap())) {
        thread::spawn(move || {
            // The end of either side ends both.
            let _ = io::copy(&mut &from, &mut &to);
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
    }
}

fn app(place: &Place, front: &Front) -> App {
    let config = place.config("\"a.test\"", "");
    let config = config
        .replace(&format!("https://{}/dir", place.directory), &format!("https://{}/dir", front.address));
    App::bare(&[("tollgate.toml", &config)])
}

/// Orders until the order succeeds.
fn expect_renewed(app: &App, place: &Place, server: &Running) {
    eventually("an order succeeds", || {
        expect_served(place);
        app.run(&["cert", "renew"]).status.success().then_some(())
    });
    expect_trusted(place, server, "a.test");
}

/// Returns the number of connections of an order without faults.
fn steps() -> usize {
    let place = Place::new();
    let _pebble = place.start(Behaviour::default());
    let front = Front::start(place.directory, 0);
    let server = app(&place, &front).start();
    eventually("the certificate", || server.has_logged("new certificate").then_some(()));
    front.connections.load(Ordering::SeqCst)
}

/// Orders a certificate with a fault at a step. Returns false if the order has no such step.
fn is_hit(fault: Fault, step: usize) -> bool {
    let place = Place::new();
    let mut pebble = place.start(Behaviour::default());
    let front = Front::start(place.directory, step);
    let app = app(&place, &front);
    let server = app.start();
    let Some(held) = front.wait(&server) else { return false };
    expect_served(&place);
    match fault {
        Fault::Killed => {
            drop(pebble);
            assert!(place.accounts() <= 1, "{step}");
            pebble = place.start(Behaviour::default());
            drop(held);
        }
        Fault::Frozen => {
            pebble.signal(Signal::STOP);
            pass(&held, front.target);
            expect_served(&place);
            eventually("the server gives up", || server.has_logged("no answer in 30 s").then_some(()));
            pebble.signal(Signal::CONT);
        }
    }
    expect_renewed(&app, &place, &server);
    expect_served(&place);
    assert_eq!(place.accounts(), 1, "{fault:?} {step}");
    drop(pebble);
    true
}

fn at_each_step(fault: Fault) {
    let steps: Vec<_> = (1..=steps()).collect();
    let hits = in_threads(THREADS, &steps, |step| is_hit(fault, *step));
    let hits = hits.into_iter().filter(|is_hit| *is_hit).count();
    assert!(hits > 8, "{hits} of {}", steps.len());
}

#[test]
fn an_acme_server_that_is_killed_at_any_step_delays_a_certificate_only() {
    at_each_step(Fault::Killed);
}

#[test]
fn an_acme_server_that_is_frozen_at_any_step_delays_a_certificate_only() {
    at_each_step(Fault::Frozen);
}

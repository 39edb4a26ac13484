//! A stop while the database is away: a database server that does not answer does not delay the stop.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::program::{App, eventually, is_quick_once};

/// Maximum time of the stop: one second for the sink, and the delay of a busy machine. All timeouts of the
/// database are longer.
const PROMPT: Duration = Duration::from_secs(5);

const STREAM: &str = r#"
[stream.events]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/collect"
collect = true
stream = "events"
"#;

/// Makes an app whose PostgreSQL is at an address on which no server listens yet.
fn app() -> (App, SocketAddr) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let app = App::new(&format!("{STREAM}[sink.main]\npostgres = \"postgres://me@{address}/app\"\n"), &[]);
    (app, address)
}

/// Accepts a connection of the loader at an address, and sends nothing while both values live.
fn fall_silent(address: SocketAddr) -> (TcpListener, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let (connection, _) = eventually("the loader asks", || listener.accept().ok());
    (listener, connection)
}

#[test]
fn a_server_stops_within_a_second_of_its_drain_when_postgresql_does_not_answer() {
    is_quick_once("a stop", PROMPT, || {
        let (app, address) = app();
        let server = app.start();
        assert!(server.connect().post("/collect", "{\"n\": 1}").unwrap().is_success());
        let _silent = fall_silent(address);
        let begun = Instant::now();
        let (status, log) = server.stop();
        assert!(status.success(), "{log}");
        assert!(log.contains("does not answer, gave up after"), "{log}");
        begun.elapsed()
    });
}

#[test]
fn a_loader_stops_within_a_second_when_postgresql_does_not_answer() {
    let (app, address) = app();
    let server = app.start_with(&["--no-load"]);
    assert!(server.connect().post("/collect", "{\"n\": 1}").unwrap().is_success());
    assert!(server.stop().0.success());
    for (arguments, code) in [(&["load"][..], 0), (&["load", "--once"], 1)] {
        for signal in [Signal::TERM, Signal::INT] {
            is_quick_once(&format!("{arguments:?}"), PROMPT, || {
                let loader = app.follow(arguments);
                let _silent = fall_silent(address);
                let begun = Instant::now();
                let (status, stderr) = loader.end(signal);
                assert_eq!(status.code(), Some(code), "{arguments:?}: {stderr}");
                begun.elapsed()
            });
        }
    }
}

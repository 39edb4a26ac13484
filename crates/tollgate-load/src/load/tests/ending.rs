//! Tests of the end of a loader whose sink does not answer or hangs.

use std::net::{SocketAddr, TcpListener, TcpStream};

use super::*;
use crate::sink::{PostgresOptions, PostgresUrl};

/// Maximum duration of an end of a loader. This time is longer than the wait for a sink that does not answer,
/// and shorter than any timeout of the sink.
const PROMPT: Duration = Duration::from_secs(4);

/// Makes the options of a sink, and a listener at its address.
fn silent_sink() -> (SinkOptions, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = PostgresUrl::parse(&format!("postgres://me@127.0.0.1:{port}/app")).unwrap();
    (SinkOptions::new("main", SinkKind::Postgres(Box::new(PostgresOptions::new(url)))), listener)
}

/// A server that accepts connections and never answers.
struct Silent {
    _listener: TcpListener,
    _connection: Option<(TcpStream, SocketAddr)>,
}

/// Makes a loader that waits for a silent server.
fn waiting_loader(site: &Site) -> (Loader, Silent) {
    let (sink, listener) = silent_sink();
    let (address, live) = (listener.local_addr().unwrap(), None);
    drop(listener);
    let options = LoadOptions { sink, tuning: LoadTuning::default(), ..site.options() };
    let loader = Loader::start(options, site.storage.clone(), live).unwrap();
    let listener = TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut connection = None;
    eventually("it waits for an answer", || {
        connection = listener.accept().ok();
        connection.is_some()
    });
    assert_eq!(loader.status().state, LoadState::Opening);
    (loader, Silent { _listener: listener, _connection: connection })
}

#[test]
fn a_finish_leaves_a_sink_that_does_not_answer_after_a_second_and_says_so() {
    let site = Site::new();
    site.write_visits(0..5);
    let (loader, _silent) = waiting_loader(&site);
    let began = Instant::now();
    let error = loader.finish(PATIENCE).unwrap_err();
    assert!(matches!(error, FinishError::Away { .. }), "{error}");
    assert!(error.to_string().starts_with("sink \"main\" does not answer, gave up after 1"), "{error}");
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
}

#[test]
fn a_loader_that_is_dropped_leaves_a_sink_that_does_not_answer_after_a_second() {
    let site = Site::new();
    site.write_visits(0..5);
    let (loader, _silent) = waiting_loader(&site);
    let began = Instant::now();
    drop(loader);
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
}

#[test]
fn a_finish_waits_for_a_sink_that_is_locked_for_a_moment() {
    let site = Site::new();
    site.write_visits(0..5);
    let blocker = site.connect();
    blocker.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE mine (x); BEGIN IMMEDIATE").unwrap();
    let loader = site.start();
    let control = loader.control.clone();
    let unlock = std::thread::spawn(move || {
        eventually("the loader is to finish and tries again", || {
            control.order() == Order::Finish && control.status().state == LoadState::Retrying
        });
        blocker.execute_batch("COMMIT").unwrap();
    });
    assert_eq!(loader.finish(PATIENCE).unwrap().rows, 5);
    unlock.join().unwrap();
}

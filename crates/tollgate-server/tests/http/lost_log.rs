//! Tests of the replies on a connection when the log fails. Replies that waited for the log get the outcome
//! `unknown`. The last sent reply has `Connection: close` (RFC 9112 section 9.6).

use std::fs;

use tollgate_log::Level;

use crate::asking::get;
use crate::backend::FakeBackend;
use crate::peer::Peer;
use crate::site::{Running, Site};

const POST: &str = "POST /kept HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1";
const FILE_BYTES: usize = 100_000;

fn server() -> Running {
    let site = Site::new().log_may_fail().fixed("/plain", "plain").files("/files/*", |_| {});
    let site = site.stream("kept", Level::Synced, &["n int record.n"]);
    let site = site.script("/kept", "return function(req) return { record = { n = 1 } } end");
    for name in ["a", "b"] {
        fs::write(site.folder().join("public").join(name), name.repeat(FILE_BYTES)).unwrap();
    }
    let server = site.start();
    server.take_log_folder();
    server
}

/// Sends a request whose record is lost, and further requests whose replies wait for no record. Returns the
/// peer after the log has failed.
fn with_lost_record(server: &Running, others: &[&str]) -> Peer {
    let mut peer = server.connect();
    peer.send(format!("{POST}{}", others.concat()));
    let lost = peer.reply(false);
    assert_eq!((lost.status, lost.field("tollgate-outcome")), (503, Some("unknown")), "{lost:?}");
    assert_eq!(lost.field("connection"), Some("close").filter(|_| others.is_empty()), "{lost:?}");
    peer
}

#[test]
fn a_reply_whose_record_is_lost_says_that_the_connection_ends() {
    with_lost_record(&server(), &[]).expect_end();
}

#[test]
fn a_reply_whose_record_is_lost_keeps_its_id_also_behind_interim_replies() {
    let backend = FakeBackend::replying(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nVary: Early\r\n\r\n\
         HTTP/1.1 200 OK\r\nVary: Accept\r\nContent-Length: 2\r\n\r\nok",
    );
    let site = Site::new().log_may_fail().stream("kept", Level::Synced, &["path text request.path"]);
    let site = site.proxy("/*", backend.options(), |_| {}).tune(|options| options.routes[0].stream = Some(0));
    let server = site.start();
    server.take_log_folder();
    let mut peer = server.connect();
    peer.send(get("/"));
    let lost = peer.reply(false);
    assert_eq!((lost.status, lost.field("vary")), (503, Some("Accept")), "{lost:?}");
    assert!(lost.field("x-request-id").is_some(), "{lost:?}");
}

#[test]
fn a_reply_behind_one_whose_record_is_lost_says_that_the_connection_ends() {
    let mut peer = with_lost_record(&server(), &[&get("/plain")]);
    let last = peer.expect("200", "plain");
    assert_eq!(last.field("connection"), Some("close"), "{last:?}");
    peer.expect_end();
}

#[test]
fn the_last_reply_behind_one_with_a_lost_record_says_that_the_connection_ends() {
    let plain = get("/plain");
    let mut peer = with_lost_record(&server(), &[&plain, &plain, &plain]);
    for expect in [None, None, Some("close")] {
        let reply = peer.expect("200", "plain");
        assert_eq!(reply.field("connection"), expect, "{reply:?}");
    }
    peer.expect_end();
}

#[test]
fn a_reply_that_said_keep_alive_says_that_the_connection_ends() {
    let old = "GET /plain HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    let mut peer = with_lost_record(&server(), &[old]);
    let last = peer.expect("200", "plain");
    let lines = last.head.lines().filter(|line| line.to_ascii_lowercase().starts_with("connection:"));
    assert_eq!(lines.collect::<Vec<_>>(), ["Connection: close"], "{last:?}");
    peer.expect_end();
}

#[test]
fn files_behind_a_reply_whose_record_is_lost_are_whole() {
    let server = server();
    // After these requests the files stay open. A request that waited for a file to be opened would be in the
    // queue, which is cancelled.
    for name in ["a", "b"] {
        server.check(&get(&format!("/files/{name}")), "200", &name.repeat(FILE_BYTES));
    }
    let mut peer = with_lost_record(&server, &[&get("/files/a"), &get("/files/b")]);
    for (name, expect) in [("a", None), ("b", Some("close"))] {
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("connection")), (200, expect), "{}", reply.head);
        assert!(reply.content == name.repeat(FILE_BYTES), "{} bytes", reply.content.len());
    }
    peer.expect_end();
}

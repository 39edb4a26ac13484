//! Requests to scripts that report their own progress.

use std::thread;
use std::time::Instant;

use crate::peer::PATIENCE;
use crate::peer::Reply;
use crate::site::Running;

pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Returns the content of a reply on a new connection.
pub(crate) fn ask(server: &Running, what: &str) -> String {
    let mut peer = server.connect();
    peer.send(get(what));
    let reply = peer.reply(false);
    assert_eq!(reply.status, 200, "{what}");
    reply.content
}

/// Sends requests until the content of a reply is `expect`.
pub(crate) fn until(server: &Running, what: &str, expect: &str) {
    let begun = Instant::now();
    loop {
        let found = ask(server, what);
        if found == expect {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} is {found}, not {expect}");
        thread::yield_now();
    }
}

/// Sends requests until a reply has this status, and returns the reply.
pub(crate) fn until_status(status: u16, mut ask: impl FnMut() -> Reply) -> Reply {
    let begun = Instant::now();
    loop {
        let reply = ask();
        if reply.status == status {
            return reply;
        }
        assert!(begun.elapsed() < PATIENCE, "{reply:?}, not {status}");
    }
}

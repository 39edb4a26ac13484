//! Tests of the time limits for the head of a backend's reply, with interim replies before it.

use std::thread;
use std::time::Duration;

use crate::backend::{FakeBackend, Taken};
use crate::site::Site;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const LONG: Duration = Duration::from_secs(20);

/// Checks the status that a client gets. `answer` is the behaviour of the backend, and `first_byte` and
/// `idle` are its time limits.
fn check(first_byte: Duration, idle: Duration, status: u16, answer: fn(&mut Taken)) {
    let backend = FakeBackend::start(move |taken| {
        taken.request();
        answer(taken);
        taken.wait_for_end();
    });
    let mut options = backend.options();
    (options.timeouts.first_byte, options.timeouts.idle) = (first_byte, idle);
    let server = Site::new().proxy("/*", options, |_| {}).start();
    let mut peer = server.connect();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut head = peer.head();
    while head.status < 200 {
        head = peer.head();
    }
    assert_eq!(head.status, status);
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn the_time_for_the_first_byte_begins_anew_after_an_interim_reply() {
    // The idle timeout, which limits pauses within a reply, does not apply here.
    check(LONG, ms(50), 200, |taken| {
        taken.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        thread::sleep(ms(300));
        taken.send(OK);
    });
    // The timeout for the first byte begins again after each interim reply.
    check(ms(1000), ms(50), 200, |taken| {
        for status in ["102 Processing", "100 Continue", "103 Early Hints"] {
            thread::sleep(ms(500));
            taken.send(format!("HTTP/1.1 {status}\r\n\r\n"));
        }
        thread::sleep(ms(500));
        taken.send(OK);
    });
    check(ms(200), LONG, 504, |taken| taken.send("HTTP/1.1 102 Processing\r\n\r\n"));
}

#[test]
fn a_head_that_began_has_to_be_whole_in_time_whatever_came_before() {
    for before in ["", "HTTP/1.1 103 Early Hints\r\n\r\n"] {
        for pause in [ms(0), ms(100)] {
            let backend = FakeBackend::start(move |taken| {
                taken.request();
                taken.send(before);
                thread::sleep(pause);
                // The bytes are sent one after the other, each within the idle timeout.
                for byte in OK.as_bytes() {
                    taken.send([*byte]);
                    thread::sleep(ms(50));
                }
            });
            let mut options = backend.options();
            (options.timeouts.first_byte, options.timeouts.idle) = (LONG, ms(200));
            let server = Site::new().proxy("/*", options, |_| {}).start();
            server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "504", "the backend did not reply in time\n");
        }
    }
}

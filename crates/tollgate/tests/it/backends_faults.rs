//! Tests of the reply to a client for each fault of a backend, and of the time until the reply. Other clients
//! are not affected.

use std::fmt::Write;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_faults::{Backend, Fault};

use crate::program::{App, PATIENCE, Running, eventually};

const CONTENT: &str = "0123456789";
const LIMIT: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(2);
/// On a connection that a backend keeps open, faults show at the second request.
const REQUESTS: usize = 3;
/// Time until the second reply of `late-second-reply` has arrived. This reply arrives on an idle connection.
const LATE: Duration = Duration::from_millis(300);
const DOCUMENT: &str = include_str!("../../../../docs/reference/backend-faults.md");

/// The reply for each fault. A reply marked `cut` ends without its last chunk, and the connection closes.
const FAULTS: [(&str, &str, When); 58] = [
    ("none", "200", When::AtOnce),
    ("echo", "200", When::AtOnce),
    ("content:1MiB", "200", When::AtOnce),
    ("trailers", "200", When::AtOnce),
    ("early-hints", "103, 200", When::AtOnce),
    ("until-close", "200", When::AtOnce),
    ("status:500", "500", When::AtOnce),
    ("slow:100ms", "200", When::AtOnce),
    ("sometimes:0%:reset", "200", When::AtOnce),
    ("refuse", "502", When::AtOnce),
    ("unaccepted", "504", When::Connect),
    ("slow-accept:100ms", "200", When::AtOnce),
    ("close-at-once", "502", When::AtOnce),
    ("reset-at-once", "502", When::AtOnce),
    ("speak-first", "200", When::AtOnce),
    ("silent", "504", When::FirstByte),
    ("frozen", "504", When::FirstByte),
    ("silent-after-head", "504", When::Idle),
    ("drip:1ms", "200", When::AtOnce),
    ("drip:1s", "504", When::Idle),
    ("drip-content:1s", "504", When::Idle),
    ("endless", "200, cut", When::Total),
    ("close", "502", When::AtOnce),
    ("reset", "502", When::AtOnce),
    ("close-in-head", "502", When::AtOnce),
    ("reset-after-head", "502", When::AtOnce),
    ("reset-in-content", "502", When::AtOnce),
    ("reply-early", "200", When::AtOnce),
    ("garbage:4KiB", "502", When::AtOnce),
    ("long-head:1MiB", "502", When::AtOnce),
    ("many-fields:10000", "502", When::AtOnce),
    ("bare-lf", "502", When::AtOnce),
    ("folded-field", "502", When::AtOnce),
    ("nul-in-field", "502", When::AtOnce),
    ("space-before-colon", "200", When::AtOnce),
    ("bad-version", "502", When::AtOnce),
    ("bad-status", "502", When::AtOnce),
    ("interim:1000000000", "502", When::AtOnce),
    ("switch-protocols", "502", When::AtOnce),
    ("short-content", "502", When::AtOnce),
    ("long-content", "200", When::AtOnce),
    ("bad-length", "502", When::AtOnce),
    ("huge-length", "502", When::AtOnce),
    ("two-lengths", "502", When::AtOnce),
    ("same-length-twice", "502", When::AtOnce),
    ("length-and-chunked", "502", When::AtOnce),
    ("unknown-coding", "502", When::AtOnce),
    ("bad-chunk-size", "502 or 200, cut", When::AtOnce),
    ("huge-chunk-size", "502 or 200, cut", When::AtOnce),
    ("long-chunk", "502 or 200, cut", When::AtOnce),
    ("cut-chunks", "502 or 200, cut", When::AtOnce),
    ("long-chunk-extension:1MiB", "502 or 200, cut", When::AtOnce),
    ("long-trailers:1MiB", "502 or 200, cut", When::AtOnce),
    ("content-of-204", "204", When::AtOnce),
    ("second-reply", "200", When::AtOnce),
    ("late-second-reply:100ms", "200", When::AtOnce),
    ("close-idle:1ms", "200", When::AtOnce),
    ("close-after:1", "200", When::AtOnce),
];

/// The time at which the client gets its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    AtOnce,
    Connect,
    FirstByte,
    Idle,
    Total,
}

impl When {
    fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "at once",
            Self::Connect => "`connect_timeout`",
            Self::FirstByte => "`first_byte_timeout`",
            Self::Idle => "`idle_timeout`",
            Self::Total => "`timeout`",
        }
    }

    fn least(self) -> Duration {
        match self {
            Self::AtOnce => Duration::ZERO,
            Self::Connect | Self::FirstByte | Self::Idle => LIMIT,
            Self::Total => TIMEOUT,
        }
    }
}

/// Returns a route and a backend with short limits, for one fault.
fn config(name: &str, backend: &Backend, more: &str) -> String {
    let (limit, timeout, address) = (LIMIT.as_millis(), TIMEOUT.as_millis(), backend.address());
    format!(
        "[backend.{name}]\nurls = [\"http://{address}\"]\nconnect_timeout = \"{limit}ms\"\n\
         first_byte_timeout = \"{limit}ms\"\nidle_timeout = \"{limit}ms\"\ntimeout = \"{timeout}ms\"\n{more}\n\
         [[route]]\npath = \"/{name}\"\nproxy = \"{name}\"\n"
    )
}

/// Sends a request on a connection that ends after the reply. Returns a summary of the reply, and its
/// content.
fn ask(server: &Running, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut came = Vec::new();
    stream.read_to_end(&mut came).expect("the server ends the connection");
    let came = String::from_utf8(came).unwrap();
    let mut seen = Vec::new();
    let mut rest = came.as_str();
    loop {
        let (head, content) = rest.split_once("\r\n\r\n").expect("a whole head");
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|line| line.get(..3)).expect("a status");
        seen.push(status);
        rest = content;
        if !status.starts_with('1') {
            seen.extend((!is_whole(head, content)).then_some("cut"));
            return (seen.join(", "), content.to_owned());
        }
    }
}

fn is_whole(head: &str, content: &str) -> bool {
    let field = |name: &str| {
        let mut fields = head.split("\r\n").filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    match field("content-length") {
        Some(length) => length.parse() == Ok(content.len()),
        None if field("transfer-encoding").is_some() => content.ends_with("\r\n0\r\n\r\n"),
        None => content.is_empty(),
    }
}

#[test]
fn each_fault_is_one_clear_answer_in_its_time_and_hurts_no_other_route() {
    let good = Backend::start(Fault::None).unwrap();
    let backends = FAULTS.map(|(fault, ..)| Backend::start(fault.parse().unwrap()).unwrap());
    let mut text = config("good", &good, "");
    for (index, backend) in backends.iter().enumerate() {
        text += &config(&format!("f{index}"), backend, "");
    }
    let app = App::new(&format!("workers = 2\n{text}"), &[]);
    let server = app.start();
    let (mut table, mut wrong) = (String::new(), String::new());
    for (index, (fault, expected, when)) in FAULTS.into_iter().enumerate() {
        let begun = Instant::now();
        let waiting = thread::scope(|scope| {
            let ask = |_| {
                let seen = ask(&server, &format!("/f{index}"));
                if fault.starts_with("late") {
                    thread::sleep(LATE);
                }
                seen
            };
            let asking = scope.spawn(move || (0..REQUESTS).map(ask).collect::<Vec<_>>());
            assert_eq!(self::ask(&server, "/good"), ("200".to_owned(), CONTENT.to_owned()), "beside {fault}");
            asking.join().unwrap()
        });
        let took = begun.elapsed() / REQUESTS as u32;
        for (seen, content) in waiting {
            let is_expected = expected.split(" or ").any(|expected| seen == expected);
            let is_right = is_expected && !content.contains("smuggled") && took >= when.least();
            if !is_right {
                writeln!(wrong, "{fault}: {seen} after {took:?}, expected {expected}: {content:.80}")
                    .unwrap();
            }
        }
        let row = format!("| `{fault}` | {expected} | {} |", when.name());
        writeln!(table, "{row} {} ms", took.as_millis()).unwrap();
        if !DOCUMENT.contains(&row) {
            writeln!(wrong, "docs/reference/backend-faults.md lacks {row}").unwrap();
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{wrong}");
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn a_backend_that_is_ill_is_left_alone_and_comes_back_by_itself() {
    let backend = Backend::start(Fault::None).unwrap();
    let breaker = "breaker_window = \"2s\"\nbreaker_requests_min = 10\nbreaker_open = \"300ms\"";
    let server_app = App::new(&config("b", &backend, breaker), &[]);
    let server = server_app.start();
    for fault in [Fault::Refuse, Fault::Reset, Fault::Garbage(100), Fault::Status(503)] {
        backend.turn(fault.clone()).unwrap();
        let left_alone = "the backend failed too often: try again later\n";
        eventually("the breaker opens", || (ask(&server, "/b").1 == left_alone).then_some(()));
        let asked = backend.seen().requests;
        assert_eq!(ask(&server, "/b").0, "503", "{fault:?}");
        let more = backend.seen().requests - asked;
        assert!(more <= 1, "{fault:?}: {more} requests to a backend that is left alone");
        backend.turn(Fault::None).unwrap();
        eventually("the breaker closes", || (ask(&server, "/b").1 == CONTENT).then_some(()));
    }
}

//! Tests of all backend faults: the reply to the client for each fault, and the success of requests after the
//! fault is over.

use std::time::{Duration, Instant};

use tollgate_faults::{Backend, Fault};
use tollgate_server::BackendOptions;

use crate::peer::PATIENCE;
use crate::site::{Running, Site};
use crate::terminator::{Authority, Terminator};

const POST: &str = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
const WAIT: Duration = Duration::from_millis(150);

/// The result of a request that a client sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Status(u16),
    /// The reply ended early, and the client can see this.
    Cut,
}

fn serve(mut options: BackendOptions) -> Running {
    options.timeouts.connect = WAIT;
    options.timeouts.first_byte = WAIT;
    options.timeouts.idle = WAIT;
    options.timeouts.total = 4 * WAIT;
    options.breaker.requests_min = 1000;
    Site::new().proxy("/*", options, |_| {}).fixed("/health", "fine").start()
}

fn ask(server: &Running) -> Seen {
    let mut peer = server.connect();
    peer.send(POST);
    let mut head = peer.head();
    while head.status < 200 {
        head = peer.head();
    }
    if head.field("transfer-encoding").is_some() {
        let rest = peer.until_end_or(b"0\r\n\r\n");
        return if rest { Seen::Status(head.status) } else { Seen::Cut };
    }
    let length: usize = head.field("content-length").map_or(0, |length| length.parse().unwrap());
    if peer.has_content_of(length) { Seen::Status(head.status) } else { Seen::Cut }
}

#[test]
fn each_fault_of_a_backend_has_its_answer_and_is_over_when_it_ends() {
    let backend = Backend::start(Fault::None).unwrap();
    let address = format!("http://{}", backend.address()).parse().unwrap();
    check_all(&backend, BackendOptions::new("app", vec![address]));
}

#[test]
fn each_fault_of_a_backend_over_tls_has_its_answer_too() {
    let authority = Authority::new();
    let backend = Backend::start(Fault::None).unwrap();
    let terminator = Terminator::start(backend.address(), authority.server());
    check_all(&backend, authority.options(&terminator));
}

fn check_all(backend: &Backend, options: BackendOptions) {
    use Seen::{Cut, Status};
    let ms = Duration::from_millis;
    let gateway = [Status(502)];
    let cut = [Status(502), Cut];
    let table: Vec<(Fault, &[Seen])> = vec![
        (Fault::Echo, &[Status(200)]),
        (Fault::Content(100_000), &[Status(200)]),
        (Fault::Trailers, &[Status(200)]),
        (Fault::EarlyHints, &[Status(200)]),
        (Fault::UntilClose, &[Status(200)]),
        (Fault::Status(418), &[Status(418)]),
        (Fault::Slow(ms(5)), &[Status(200)]),
        (Fault::Interim(3), &[Status(200)]),
        (Fault::SpaceBeforeColon, &[Status(200)]),
        (Fault::LongContent, &[Status(200)]),
        (Fault::SecondReply, &[Status(200)]),
        (Fault::ContentOf204, &[Status(204)]),
        (Fault::Refuse, &gateway),
        (Fault::CloseAtOnce, &gateway),
        (Fault::ResetAtOnce, &gateway),
        (Fault::Close, &gateway),
        (Fault::Reset, &gateway),
        (Fault::CloseInHead, &gateway),
        (Fault::ResetAfterHead, &gateway),
        (Fault::ResetInContent, &gateway),
        (Fault::Garbage(100), &gateway),
        (Fault::LongHead(100_000), &gateway),
        (Fault::ManyFields(1000), &gateway),
        (Fault::BareLf, &gateway),
        (Fault::FoldedField, &gateway),
        (Fault::NulInField, &gateway),
        (Fault::BadVersion, &gateway),
        (Fault::BadStatus, &gateway),
        (Fault::Interim(1000), &gateway),
        (Fault::SwitchProtocols, &gateway),
        (Fault::ShortContent, &gateway),
        (Fault::BadLength, &gateway),
        (Fault::HugeLength, &gateway),
        (Fault::TwoLengths, &gateway),
        (Fault::SameLengthTwice, &gateway),
        (Fault::LengthAndChunked, &gateway),
        (Fault::UnknownCoding, &gateway),
        (Fault::BadChunkSize, &cut),
        (Fault::HugeChunkSize, &cut),
        (Fault::LongChunk, &cut),
        (Fault::CutChunks, &cut),
        (Fault::LongChunkExtension(100_000), &cut),
        (Fault::LongTrailers(100_000), &cut),
        (Fault::Silent, &[Status(504)]),
        (Fault::Frozen, &[Status(504)]),
        (Fault::SilentAfterHead, &[Status(504)]),
        (Fault::Drip(ms(20)), &[Status(504)]),
        (Fault::DripContent(ms(100)), &[Status(504)]),
    ];
    let server = serve(options);
    assert_eq!(ask(&server), Status(200));
    for (fault, expected) in table {
        backend.turn(fault.clone()).unwrap();
        // A connection from the time of the earlier fault may be reused once, so the request is repeated.
        let begun = Instant::now();
        let mut seen = ask(&server);
        while !expected.contains(&seen) && begun.elapsed() < PATIENCE {
            seen = ask(&server);
        }
        assert!(expected.contains(&seen), "{fault:?}: {seen:?}, expected {expected:?}");
        server.check("GET /health HTTP/1.1\r\nHost: a\r\n\r\n", "200", "fine");
        backend.turn(Fault::None).unwrap();
        let begun = Instant::now();
        while ask(&server) != Status(200) {
            assert!(begun.elapsed() < PATIENCE, "{fault:?} is over, and is not");
        }
    }
}

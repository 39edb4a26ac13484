//! Tests of bodies that go on to a backend while they are valid.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use tollgate_server::ValidateMode;

use crate::backend::FakeBackend;
use crate::site::{Running, Site};
use crate::validating::{INVALID, REQUESTS, VALID, chunked, long_invalid, long_order, post};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// The end of a request that broke off, as the backend reports it.
const BROKEN: &str = "broken off";

/// A backend that reports each complete request, and each request that broke off.
fn reading() -> FakeBackend {
    FakeBackend::start(|taken| {
        taken.head();
        let is_chunked = taken.came_chunked();
        let content = if is_chunked { taken.chunked_request() } else { taken.request() };
        match content {
            Some(content) => {
                taken.report(if is_chunked { content } else { String::new() });
                taken.send(OK);
            }
            None => taken.report(BROKEN.to_owned()),
        }
    })
}

fn serve(backend: &FakeBackend, mode: ValidateMode) -> Running {
    Site::new()
        .tune(|options| options.connection.body_memory_max = 4 << 10)
        .proxy("/*", backend.options(), |_| ())
        .tune_route(|route| route.body_bytes_max = 2 << 30)
        .validate(REQUESTS, mode)
        .start()
}

#[test]
fn a_valid_body_goes_on_unchanged() {
    let backend = reading();
    let server = serve(&backend, ValidateMode::Stream);
    for bytes in [1, 10 << 10, 2 << 20] {
        let order = long_order(bytes);
        server.check(&post(&order), "200", "hello");
        let request = backend.request();
        assert!(request.ends_with(&format!("\r\n\r\n{order}")), "{bytes}");
        assert_eq!(backend.request(), "");
    }
    let order = long_order(2 << 20);
    server.check(&chunked(&order, 3000), "200", "hello");
    assert!(backend.request() == order);
    assert_eq!(server.judged("request"), "4 valid");
}

#[test]
fn a_body_breaks_off_at_its_fault_and_the_client_gets_the_problem() {
    let backend = reading();
    let server = serve(&backend, ValidateMode::Stream);
    let order = long_invalid(2 << 20);
    let incomplete = long_order(2 << 20).replace("</order>", "");
    let malformed = long_order(1 << 20).replace("</order>", "</ordre>");
    let requests = [
        (post(&order), 422),
        (chunked(&order, 3000), 422),
        (post(&incomplete), 400),
        (chunked(&incomplete, 3000), 400),
        (post(&malformed), 400),
    ];
    for (request, status) in requests {
        let mut peer = server.connect();
        let mut sender = peer.clone();
        let sent = thread::spawn(move || sender.send(request));
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("connection")), (status, Some("close")), "{reply:?}");
        assert_eq!(reply.field("content-type"), Some("application/problem+xml"));
        assert_eq!(backend.request(), BROKEN);
        drop(peer);
        sent.join().unwrap();
    }
    server.await_idle_backends();
    for document in [INVALID, "<order/>"] {
        assert_eq!(server.status_of(&post(document)), 422, "a short body never reaches the backend");
    }
    server.check(&post(VALID), "200", "hello");
    assert_eq!(server.judged("request"), "1 valid, 4 invalid, 3 malformed");
}

#[test]
fn a_fault_is_found_at_each_split_of_a_body() {
    let backend = reading();
    let server = serve(&backend, ValidateMode::Stream);
    let order = long_invalid(8 << 10);
    let request = post(&order);
    for split in (request.len() - 120..request.len()).step_by(7) {
        let mut peer = server.connect();
        peer.send(&request[..split]);
        peer.send(&request[split..]);
        let reply = peer.reply(false);
        assert_eq!(reply.status, 422, "{split}");
        let place = order.find("<itme").unwrap() + 1;
        assert!(reply.content.contains(&format!("<byte>{place}</byte>")), "{split}: {reply:?}");
    }
}

#[test]
#[ignore = "sends 1 GiB, which takes more than a minute: make nightly"]
fn a_document_of_a_gibibyte_is_validated_in_constant_memory() {
    let backend = FakeBackend::start(|taken| {
        let bytes = taken.drain();
        taken.report(bytes.to_string());
        taken.send(OK);
    });
    let server = serve(&backend, ValidateMode::Stream);
    let item = "<item sku='abcdefghijklmnopqrstuvwxyz'>1234567.5</item>".repeat(1000);
    let count = (1 << 30) / item.len();
    let length = "<order id='1'></order>".len() + count * item.len();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let head = format!(
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + "<order id='1'>").as_bytes()).unwrap();
    let before = peak_kib();
    for _ in 0..count {
        stream.write_all(item.as_bytes()).unwrap();
    }
    stream.write_all(b"</order>").unwrap();
    let mut reply = [0; 15];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"HTTP/1.1 200 OK");
    assert_eq!(backend.request(), length.to_string());
    let grown = peak_kib() - before;
    eprintln!("{length} bytes were validated, and the peak of the memory grew by {grown} KiB");
    assert!(grown < 16 << 10, "{grown} KiB");
}

/// Returns the peak of the resident memory of this process, which has the server and the backend.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

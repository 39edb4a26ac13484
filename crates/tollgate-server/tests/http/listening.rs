//! Tests of listening sockets of all kinds, and of the client of each connection.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tollgate_server::{ClientHeader, ListenAddress, ListenSpec, TrustedProxies};

use crate::peer::Peer;
use crate::site::{Running, Site};

const WHO: &str = "return tostring(req.remote_addr)";
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// Returns a PROXY protocol header, version 2, with this command, family, and remaining bytes.
fn proxy_header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, rest].concat()
}

/// Returns the header of a proxy whose client has the address 203.0.113.9.
pub(crate) fn of_client() -> Vec<u8> {
    proxy_header(0x21, 0x11, &[203, 0, 113, 9, 10, 0, 0, 1, 0x12, 0x34, 0, 80])
}

fn behind_proxy() -> Running {
    let tune = |options: &mut tollgate_server::ServerOptions| {
        options.listen[0].proxy_protocol = true;
        options.connection.head_timeout = Duration::from_millis(300);
    };
    Site::new().handler("/", WHO).tune(tune).start()
}

/// Starts a site that also listens on a Unix socket. The folder of the socket is deleted when the returned
/// value is dropped.
fn on_unix(site: Site, workers: usize) -> (Running, tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let address = ListenAddress::Unix { path: path.clone(), mode: 0o600 };
    let spec = ListenSpec::new(address);
    let tune = |options: &mut tollgate_server::ServerOptions| {
        options.listen.push(spec);
        options.workers = workers;
    };
    (site.tune(tune).start(), folder, path)
}

fn ask(stream: &mut UnixStream) -> String {
    stream.write_all(REQUEST.as_bytes()).unwrap();
    let mut reply = Vec::new();
    while !reply.windows(4).any(|end| end == b"\r\n\r\n") || reply.ends_with(b"\r\n\r\n") {
        let mut buffer = [0; 1024];
        let bytes = stream.read(&mut buffer).unwrap();
        assert!(bytes > 0, "{}", reply.escape_ascii());
        reply.extend_from_slice(&buffer[..bytes]);
    }
    let reply = String::from_utf8(reply).unwrap();
    reply.split("\r\n\r\n").nth(1).unwrap().to_owned()
}

#[test]
fn a_unix_socket_serves_and_its_client_has_no_address() {
    let (server, _folder, path) = on_unix(Site::new().handler("/", WHO), 1);
    assert_eq!(ask(&mut UnixStream::connect(&path).unwrap()), "nil");
    server.check(REQUEST, "200", "127.0.0.1");
    drop(server.drain());
    assert!(!path.exists());
}

#[test]
fn connections_of_a_shared_socket_are_evened_out() {
    // Each worker loads the script, so the address of the table differs between the workers.
    let script = "local worker = tostring({}) return function() return worker end";
    let (server, _folder, path) = on_unix(Site::new().script("/", script), 3);
    let mut peers: Vec<_> = (0..120).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let mut counts = HashMap::new();
    for peer in &mut peers {
        *counts.entry(ask(peer)).or_insert(0) += 1;
    }
    let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
    assert!(counts.len() == 3 && most - least <= 8, "{counts:?}");
    drop(peers);
    drop(server.drain());
}

#[test]
fn the_proxy_header_tells_whose_the_connection_is() {
    let server = behind_proxy();
    let check = |header: Vec<u8>, expect| {
        let mut peer = server.connect();
        peer.send([&header, REQUEST.as_bytes(), REQUEST.as_bytes()].concat());
        peer.expect("200", expect);
        peer.expect("200", expect);
    };
    check(of_client(), "203.0.113.9");
    check(proxy_header(0x21, 0x31, &[0; 216]), "nil");
    check(proxy_header(0x20, 0, b""), "127.0.0.1");
}

#[test]
fn a_proxy_header_cut_at_any_byte_reads_the_same() {
    let server = behind_proxy();
    let whole = [&of_client(), REQUEST.as_bytes()].concat();
    for cut in 1..whole.len() {
        let mut peer = server.connect();
        peer.send(&whole[..cut]);
        peer.send(&whole[cut..]);
        peer.expect("200", "203.0.113.9");
    }
}

#[test]
fn nothing_is_read_as_a_request_without_a_proxy_header() {
    let server = behind_proxy();
    let v1 = format!("PROXY TCP4 203.0.113.9 10.0.0.1 4660 80\r\n{REQUEST}");
    let unknown = [proxy_header(0x21, 0x12, &[0; 12]), REQUEST.into()].concat();
    for bytes in [REQUEST.as_bytes(), v1.as_bytes(), &unknown, b"\r\n\r\n\0\r\nQUIX"] {
        let mut peer = server.connect();
        peer.send(bytes);
        peer.expect_end();
    }
}

#[test]
fn a_proxy_header_that_does_not_come_in_time_ends_the_connection() {
    let server = behind_proxy();
    let begun = Instant::now();
    let mut peers = [server.connect(), server.connect()];
    peers[1].send(&of_client()[..20]);
    peers.iter_mut().for_each(Peer::expect_end);
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_drain_does_not_wait_for_proxy_headers_that_did_not_begin_to_come() {
    let long = Duration::from_secs(60);
    let server = Site::new().handler("/", WHO).tune(|options| {
        options.listen[0].proxy_protocol = true;
        options.connection.head_timeout = long;
        options.drain_timeout = long;
    });
    let server = server.start();
    let peer = server.connect();
    let begun = Instant::now();
    drop(server.drain());
    assert!(begun.elapsed() < long / 4, "{:?}", begun.elapsed());
    drop(peer);
}

fn trusting(header: ClientHeader, networks: &[&str]) -> Running {
    let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
    let proxies = TrustedProxies { networks, unix: false, header };
    Site::new().handler("/", WHO).tune(|options| options.trusted_proxies = proxies).start()
}

#[test]
fn a_trusted_proxy_names_the_client_of_each_request() {
    let server = trusting(ClientHeader::XForwardedFor, &["127.0.0.0/8", "10.0.0.0/8"]);
    let mut peer = server.connect();
    for (lines, expect) in [
        ("X-Forwarded-For: 1.1.1.1, 203.0.113.9, 10.1.1.1\r\n", "203.0.113.9"),
        ("X-Forwarded-For: 203.0.113.8\r\nX-Forwarded-For: 10.1.1.1\r\n", "203.0.113.8"),
        ("Forwarded: for=203.0.113.9\r\n", "127.0.0.1"),
        ("", "127.0.0.1"),
    ] {
        peer.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        peer.expect("200", expect);
    }
    let server = trusting(ClientHeader::Forwarded, &["127.0.0.1"]);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nForwarded: for=\"[2001:db8::1]:5\";proto=http\r\n\r\n";
    server.check(request, "200", "2001:db8::1");
}

#[test]
fn a_peer_that_is_no_trusted_proxy_names_no_client() {
    let server = trusting(ClientHeader::XForwardedFor, &["10.0.0.0/8"]);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n";
    server.check(request, "200", "127.0.0.1");
}

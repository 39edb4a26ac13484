//! Tests of the end of a connection: the side that requests it, and the last reply (RFC 9112 sections 9.3 and
//! 9.6).

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::Write;
use std::fs;
use std::io::{self, Read, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::peer::PATIENCE;
use crate::site::{Running, Site};

fn site_of_all() -> Site {
    Site::new()
        .fixed("/", "hello")
        .handler("/echo", "return req:body()")
        .handler("/big", "return string.rep('x', 4000000)")
}

fn site() -> Running {
    site_of_all().start()
}

#[test]
fn connection_options_and_version_decide_who_stays() {
    let server = site();
    for (version, options, stays) in [
        ("1.1", "", true),
        ("1.1", "Connection: keep-alive\r\n", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: CLOSE\r\n", false),
        ("1.1", "Connection: keep-alive, close\r\n", false),
        ("1.1", "Connection: keep-alive\r\nConnection: x, Close ,\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        ("1.1", "Proxy-Connection: close\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: x,keep-alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
        ("1.0", "Keep-Alive: timeout=5\r\n", false),
    ] {
        let mut peer = server.connect();
        let request = format!("GET / HTTP/{version}\r\nHost: a\r\n{options}\r\n");
        peer.send(&request);
        let reply = peer.expect("200", "hello");
        assert!(reply.head.starts_with("HTTP/1.1 200"), "the version is the server's own");
        if stays {
            assert_eq!(reply.field("connection"), (version == "1.0").then_some("keep-alive"), "{request:?}");
            peer.send(request);
            peer.expect("200", "hello");
        } else {
            assert_eq!(reply.field("connection"), Some("close"), "{request:?}");
            peer.expect_end();
        }
    }
}

#[test]
fn a_client_that_shut_its_side_gets_all_replies_large_ones_too() {
    let server = site();
    let mut peer = server.connect();
    let mut batch = String::new();
    for _ in 0..3 {
        write!(batch, "GET /big HTTP/1.1\r\nHost: a\r\n\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").unwrap();
    }
    peer.send(batch);
    peer.finish();
    for _ in 0..3 {
        assert_eq!(peer.reply(false).content.len(), 4_000_000);
        peer.expect("200", "hi");
    }
    peer.expect_end();
}

/// Sends a head that is refused, and `bytes` of its body, before it reads the reply. Checks that the reply
/// arrives.
fn check_still_sending(server: &Running, head: &str, bytes: usize, status: u16) {
    let mut peer = server.connect();
    peer.send(head);
    let piece = vec![b'x'; 64 << 10];
    for _ in 0..bytes / piece.len() {
        peer.send_all(&piece);
    }
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("connection")), (status, Some("close")), "{head:?}");
    peer.finish();
    peer.expect_end();
}

#[test]
fn a_refusal_reaches_a_client_that_goes_on_sending_its_body() {
    let server = site();
    let body = 16 << 20;
    let length = format!("Content-Length: {body}");
    for (request, fields, status) in [
        ("POST /echo", length.as_str(), 413),
        ("POST /nowhere", length.as_str(), 404),
        ("PUT /", length.as_str(), 405),
        ("POST /echo", "Content-Length: x", 400),
        ("POST /echo", "Transfer-Encoding: gzip, chunked", 501),
        ("POST /echo", "Transfer-Encoding: chunked\r\n\r\n1000000", 413),
        ("POST /nowhere", "Transfer-Encoding: chunked\r\n\r\n1000000", 404),
    ] {
        check_still_sending(
            &server,
            &format!("{request} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"),
            body,
            status,
        );
    }
}

#[test]
fn the_last_reply_arrives_whole_although_more_requests_come_behind_it() {
    let server = site();
    let next = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for closing in ["GET /big HTTP/1.0\r\n\r\n", "GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]
    {
        let mut peer = server.connect();
        peer.send(closing);
        // The reply is larger than the socket buffers, so these bytes arrive before the client has the whole
        // reply.
        for _ in 0..100 {
            peer.send_all(next.as_bytes());
        }
        assert_eq!(peer.reply(false).content.len(), 4_000_000);
        peer.finish();
        peer.expect_end();
    }
}

/// A peer from which each read returns one piece. Each write to the peer needs the time `takes`.
struct Trickle {
    pieces: VecDeque<&'static str>,
    takes: Duration,
    is_shut: Rc<Cell<bool>>,
}

impl AsyncRead for Trickle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buffer.put_slice(self.pieces.pop_front().unwrap_or_default().as_bytes());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Trickle {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        thread::sleep(self.takes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_shut.set(true);
        Poll::Ready(Ok(()))
    }
}

/// Connects a client with a small receive buffer. The client reads nothing yet.
fn connect_narrow(server: &Running) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&server.address().into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Waits until the server has sent its FIN to a client (`FIN_WAIT1` in proc_net_tcp(5)).
fn until_it_ends(server: SocketAddr, client: &TcpStream) {
    let port = client.local_addr().unwrap().port();
    let (local, remote) = (format!(":{:04X}", server.port()), format!(":{port:04X}"));
    let begun = Instant::now();
    let is_ending = || {
        let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
        sockets.lines().any(|line| {
            let words: Vec<_> = line.split_whitespace().take(4).collect();
            matches!(words[..], [_, own, other, "04"] if own.ends_with(&local) && other.ends_with(&remote))
        })
    };
    while !is_ending() {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(1));
    }
}

const REQUEST: &[u8] = b"GET /some HTTP/1.1\r\nHost: a\r\n\r\n";
const SOME_BYTES: usize = 6000;

fn site_of_some() -> Site {
    Site::new().handler("/some", &format!("return string.rep('x', {SOME_BYTES})"))
}

/// Reads to the end of the connection, and returns the number of bytes of content.
fn content_bytes(mut client: &TcpStream) -> io::Result<usize> {
    let mut came = Vec::new();
    client.read_to_end(&mut came)?;
    Ok(came
        .split(|&byte| byte == b'\n')
        .filter(|line| line.starts_with(b"xx"))
        .map(|line| line.iter().filter(|&&byte| byte == b'x').count())
        .sum())
}

#[test]
fn replies_not_taken_yet_arrive_though_the_client_asks_once_more_than_it_may() {
    let server = site_of_some().tune(|options| options.connection.requests_max = Some(5)).start();
    let mut client = connect_narrow(&server);
    for _ in 0..5 {
        client.write_all(REQUEST).unwrap();
    }
    until_it_ends(server.address(), &client);
    client.write_all(REQUEST).unwrap();
    assert_eq!(content_bytes(&client).unwrap(), 5 * SOME_BYTES);
}

#[test]
fn replies_that_were_not_taken_yet_arrive_though_the_client_asks_on_in_a_drain() {
    // A draining server reads on for a second. On a busy machine the client may ask later, and the attempt
    // then shows nothing.
    let first = Instant::now();
    loop {
        let begun = Instant::now();
        match content_of_a_drain() {
            Ok(bytes) => return assert_eq!(bytes, 3 * SOME_BYTES),
            Err(error) => assert!(begun.elapsed() > Duration::from_secs(1), "{error}"),
        }
        assert!(first.elapsed() < PATIENCE, "no attempt took less than a second");
    }
}

/// Returns the bytes of content that a client gets from a draining server, if it asks on before it reads.
fn content_of_a_drain() -> io::Result<usize> {
    let server = site_of_some().start();
    let address = server.address();
    let mut client = connect_narrow(&server);
    client.write_all(&REQUEST.repeat(3)).unwrap();
    // When the first byte has arrived, the server has sent all bytes to the system.
    client.peek(&mut [0]).unwrap();
    let drained = thread::spawn(move || drop(server.drain()));
    until_it_ends(address, &client);
    let content = client.write_all(REQUEST).and_then(|()| content_bytes(&client));
    drained.join().unwrap();
    content
}

#[test]
fn bytes_behind_the_last_request_are_read_before_the_end_where_they_are_likely() {
    let site = site_of_all().tune(|options| options.capacity.queue_age_max = Duration::from_secs(600));
    site.on_this_thread(async |server| {
        for (request, takes) in [
            (
                "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
                Duration::ZERO,
            ),
            ("GET / HTTP/1.0\r\n\r\n", Duration::from_millis(1)),
        ] {
            let is_shut = Rc::new(Cell::new(false));
            let peer = Trickle { pieces: [request, "\r\n"].into(), takes, is_shut: is_shut.clone() };
            server.serve(peer, IpAddr::V4(Ipv4Addr::LOCALHOST)).await;
            assert!(is_shut.get(), "{request:?}");
        }
    });
}

#[test]
fn a_drain_waits_a_moment_for_clients_that_send_on_after_their_last_reply() {
    let server =
        Site::new().fixed("/", "hello").tune(|options| options.drain_timeout = Duration::from_secs(60));
    let server = server.start();
    let (mut before, mut meanwhile) = (server.connect(), server.connect());
    before.send("no request\r\n");
    assert_eq!(before.reply(false).status, 400);
    meanwhile.send("GET / HTTP/1.1\r\nHost: a\r\n");
    let (drained, is_drained) = channel();
    let begun = Instant::now();
    thread::spawn(move || {
        server.drain();
        drained.send(()).unwrap();
    });
    meanwhile.send("no field\r\n");
    assert_eq!(meanwhile.reply(false).status, 400);
    while is_drained.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
        before.send("x");
        meanwhile.send("x");
        assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    }
    // The pause is a second by the coarse clock, which may be late by a tick of 250 ms.
    assert!(begun.elapsed() >= Duration::from_millis(750), "{:?}", begun.elapsed());
    before.expect_end();
    meanwhile.expect_end();
}

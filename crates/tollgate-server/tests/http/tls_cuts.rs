//! Conversations over TLS whose stream is cut at each byte. The replies are the same as without TLS.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, duplex};
use tollgate_server::{CertificateFiles, RequestIds, ServerTls, ServerTlsOptions, StreamServer};

use crate::site::Site;
use crate::terminator::Authority;
use crate::tls_client::{receive, trusting};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PIPE_BYTES: usize = 1 << 20;

/// Returns all conversations: each request alone, and some of them together.
fn conversations() -> Vec<String> {
    let get = |path: &str, fields: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let post =
        |fields: &str, content: &str| format!("POST /echo HTTP/1.1\r\nHost: a\r\n{fields}\r\n{content}");
    let mut all = vec![
        get("/", ""),
        get("/?a=b", "Connection: close\r\n"),
        get("/nothing", ""),
        get("/%zz", ""),
        get("/script", ""),
        get("/stream", ""),
        get("/stream", "Connection: close\r\n"),
        get("/fails", ""),
        get("/files/a.txt", ""),
        get("/files/a.txt", "Range: bytes=2-5\r\n"),
        get("/files/a.txt", "Range: bytes=-3\r\n"),
        get("/files/long.bin", ""),
        get("/files/nothing", ""),
        get("/", "X: y\r\n").replace("GET", "HEAD"),
        get("/script", "").replace("GET", "HEAD"),
        get("/files/a.txt", "").replace("GET", "HEAD"),
        get("*", "").replace("GET", "OPTIONS"),
        get("/script", "").replace("GET", "DELETE"),
        get("/", "").replace("GET", "BREW"),
        get("/", "").replace("HTTP/1.1", "HTTP/1.0"),
        get("/stream", "").replace("HTTP/1.1", "HTTP/1.0"),
        get("/", "").replace("HTTP/1.1", "HTTP/2.0"),
        get("/", "").replace("Host: a", "Host: a\r\nHost: b"),
        get("/", "").replace("Host: a\r\n", ""),
        get("/", "A : b\r\n"),
        get("https://a/", ""),
        get("ftp://a/", ""),
        post("Content-Length: 5\r\n", "hello"),
        post("Content-Length: 0\r\n", ""),
        post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: u\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\n", "zz\r\n"),
        post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        post("Content-Length: 99\r\n", "short"),
        post("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"),
        post("Content-Length: 5\r\nConnection: close\r\n", "hello\r\n"),
        "\r\n".to_owned() + &get("/", ""),
        "\r\n\r\n".to_owned() + &get("/", ""),
    ];
    all.push(all[..3].concat());
    all.push([&*all[4], &all[27], &all[5], &all[8], &all[0]].concat());
    all.push([&*all[29], &all[11], &all[24], &all[0]].concat());
    all
}

fn site() -> Site {
    Site::new()
        .fixed("/", "hello")
        .handler("/script", "return { headers = { a = 'b' }, body = 'scripted' }")
        .handler("/echo", "return 'got ' .. req:body()")
        .handler("/stream", "return { write = function(out) out:write('one part') end }")
        .handler("/fails", "error('on purpose')")
        .file("public/a.txt", "0123456789")
        .file("public/long.bin", vec![b'x'; 40_000])
        .files("/files/*", |_| {})
        .tune(|options| options.request_ids = RequestIds::Silent)
}

/// A client that cuts its part of the TLS stream after the handshake.
struct TlsPeer {
    session: ClientConnection,
    /// Encrypted bytes that the server has not read.
    wire: Vec<u8>,
    /// Bytes after the first flight that the server has read.
    sent: usize,
    /// The server finds no bytes once at this place.
    cut: usize,
    has_paused: bool,
    is_ended: bool,
    /// Maximum bytes of one write of the server. After each of these writes, the server has to wait once.
    taken_bytes_max: usize,
    is_full: bool,
    came: Vec<u8>,
}

impl TlsPeer {
    fn new(client: &Arc<ClientConfig>, conversation: &[u8], cut: usize) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = ClientConnection::new(client.clone(), name).unwrap();
        session.writer().write_all(conversation).unwrap();
        Self {
            session,
            wire: Vec::new(),
            sent: 0,
            cut,
            has_paused: false,
            is_ended: false,
            taken_bytes_max: usize::MAX,
            is_full: false,
            came: Vec::new(),
        }
    }

    fn fill(&mut self) {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.wire).unwrap();
        }
        if self.wire.is_empty() && !self.session.is_handshaking() && !self.is_ended {
            self.is_ended = true;
            self.session.send_close_notify();
            self.fill();
        }
    }
}

impl AsyncRead for TlsPeer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.fill();
        let is_cut = !self.session.is_handshaking();
        if is_cut && self.sent == self.cut && !self.has_paused {
            self.has_paused = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.wire.is_empty() && !is_cut {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let until_cut = if is_cut && self.sent < self.cut { self.cut - self.sent } else { usize::MAX };
        let bytes = self.wire.len().min(out.remaining()).min(until_cut);
        out.put_slice(&self.wire[..bytes]);
        self.wire.drain(..bytes);
        self.sent += if is_cut { bytes } else { 0 };
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TlsPeer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The handshake may continue now.
        context.waker().wake_by_ref();
        let Self { session, came, taken_bytes_max, is_full, .. } = &mut *self;
        *is_full = *taken_bytes_max < bytes.len() && !*is_full;
        if *is_full {
            return Poll::Pending;
        }
        let bytes = &bytes[..bytes.len().min(*taken_bytes_max)];
        receive(session, bytes, came).unwrap();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns the replies without two fields. `Date` changes. `Connection` depends on whether the server has
/// seen the end of the client's bytes.
fn comparable(replies: &[u8]) -> String {
    let replies = String::from_utf8_lossy(replies);
    let changes = |line: &&str| line.starts_with("Date: ") || line.starts_with("Connection: ");
    replies.split_inclusive("\r\n").filter(|line| !changes(line)).collect()
}

async fn served_plainly(server: &StreamServer, conversation: &str) -> String {
    let (mut client, served) = duplex(PIPE_BYTES);
    // The scheme of a target must be the scheme of its connection.
    client.write_all(conversation.replace("https://", "http://").as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    server.serve(served, PEER).await;
    let mut replies = Vec::new();
    client.read_to_end(&mut replies).await.unwrap();
    comparable(&replies)
}

/// Serves a conversation whose stream is cut at a place. Returns the replies, and whether the stream reaches
/// the place.
async fn served_over_tls(
    server: &StreamServer,
    client: &Arc<ClientConfig>,
    conversation: &str,
    cut: usize,
) -> (String, bool) {
    let mut peer = TlsPeer::new(client, conversation.as_bytes(), cut);
    server.serve_tls(&mut peer, PEER).await;
    (comparable(&peer.came), peer.has_paused)
}

/// Returns the site with a certificate, and a client of it.
fn over_tls() -> (Arc<ClientConfig>, Site) {
    let authority = Authority::new();
    let side = authority.server();
    let certificates = vec![CertificateFiles { certificate: side.certificate, key: side.key }];
    let tls = ServerTls::load(ServerTlsOptions { certificates, ..ServerTlsOptions::default() }).unwrap();
    let client = Arc::new(trusting(&authority, &side.versions).with_no_client_auth());
    (client, site().tune(|options| options.tls = Some(Arc::new(tls))))
}

/// Serves the conversations to a client that takes few bytes at once. The server then has to wait while it
/// holds encrypted bytes.
#[test]
fn conversations_over_tls_are_the_same_for_a_client_that_takes_few_bytes() {
    let (client, site) = over_tls();
    site.on_this_thread(async |server| {
        for conversation in conversations() {
            let expected = served_plainly(&server, &conversation).await;
            for taken_bytes_max in [1, 20, 100] {
                let mut peer = TlsPeer::new(&client, conversation.as_bytes(), usize::MAX);
                peer.taken_bytes_max = taken_bytes_max;
                server.serve_tls(&mut peer, PEER).await;
                assert_eq!(comparable(&peer.came), expected, "{conversation:?} by {taken_bytes_max}");
            }
        }
    });
}

#[test]
fn conversations_over_tls_are_the_same_wherever_the_stream_is_cut() {
    let (client, site) = over_tls();
    let conversations = conversations();
    assert_eq!(conversations.len(), 40);
    site.on_this_thread(async |server| {
        let mut cuts = 0;
        for conversation in &conversations {
            let expected = served_plainly(&server, conversation).await;
            for cut in 0.. {
                let (replies, is_reached) = served_over_tls(&server, &client, conversation, cut).await;
                assert_eq!(replies, expected, "{conversation:?} cut at {cut}");
                if !is_reached {
                    break;
                }
                cuts += 1;
            }
        }
        assert!(cuts > 5_000, "{cuts}");
    });
}

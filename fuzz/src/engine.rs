//! The real engine without sockets: its log, its options, and a peer that sends it requests.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_log::{DiskStorage, Log, LogOptions};
use tollgate_server::{
    CapacityLimits, ConnectionLimits, HostOptions, HttpsOptions, RequestIds, RouteSpec, ServerOptions,
    SpoolOptions, StreamServer, Traces, TrustedProxies,
};

/// Opens a log for an engine that records nothing.
pub fn log(folder: &Path) -> Log {
    let options = LogOptions::new(&folder.join("log"));
    Log::open(Arc::new(DiskStorage), options, Vec::new(), |_| {}).expect("a log").0
}

pub fn options(folder: &Path, connection: ConnectionLimits, routes: Vec<RouteSpec>) -> ServerOptions {
    ServerOptions {
        listen: Vec::new(),
        tls: None,
        https: HttpsOptions::default(),
        challenges: None,
        dns_hook: None,
        trusted_proxies: TrustedProxies::default(),
        backlog: 1,
        workers: 1,
        connection,
        // No probe measures the age of the run queue in this engine.
        capacity: CapacityLimits { queue_age_max: Duration::from_hours(1), ..CapacityLimits::default() },
        spool: SpoolOptions::new(folder.join("spool")),
        script: HostOptions::default(),
        streams: Vec::new(),
        backends: Vec::new(),
        request_ids: RequestIds::Silent,
        traces: Traces::default(),
        access_log: None,
        access_queue: Arc::default(),
        spans: None,
        span_queue: Arc::default(),
        routes,
        apps: Vec::new(),
        version: 1,
        dev: None,
        drain_timeout: Duration::ZERO,
    }
}

/// A peer that sends a fixed list of pieces and then closes its sending side.
pub struct Peer {
    pieces: VecDeque<Vec<u8>>,
    /// Whether the peer pauses: one read between two pieces finds no bytes.
    pub pauses: bool,
    is_paused: bool,
    pub write_bytes_max: usize,
    sent: Vec<u8>,
    is_shut: bool,
}

impl Peer {
    /// Makes a peer that sends these pieces and accepts all replies. No piece may be empty.
    pub fn new(pieces: Vec<&[u8]>) -> Self {
        Self {
            pieces: pieces.into_iter().map(<[u8]>::to_vec).collect(),
            pauses: false,
            is_paused: false,
            write_bytes_max: usize::MAX,
            sent: Vec::new(),
            is_shut: false,
        }
    }

    /// Returns all bytes that the server sends until the connection ends.
    pub fn served_by(mut self, server: &StreamServer) -> Vec<u8> {
        run(server.serve(&mut self, IpAddr::V4(Ipv4Addr::LOCALHOST)));
        self.sent
    }
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.pauses && !self.is_paused {
            self.is_paused = true;
            return Poll::Pending;
        }
        self.is_paused = false;
        if let Some(mut piece) = self.pieces.pop_front() {
            let rest = piece.split_off(piece.len().min(buf.remaining()));
            buf.put_slice(&piece);
            if !rest.is_empty() {
                self.pieces.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        assert!(!self.is_shut, "bytes after the end");
        let taken = bytes.len().min(self.write_bytes_max);
        self.sent.extend_from_slice(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_shut = true;
        Poll::Ready(Ok(()))
    }
}

/// Polls a future until it ends. The stream is always ready, so no waker is needed.
fn run(future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..POLLS_MAX {
        if future.as_mut().poll(&mut context).is_ready() {
            return;
        }
        // The connection waits only while a thread writes a body to a file.
        std::thread::yield_now();
    }
    panic!("the connection does not end");
}

const POLLS_MAX: usize = 1_000_000;

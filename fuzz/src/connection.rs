//! Whole connections through the real engine: any bytes, cut anywhere, sent to a script that answers what it was
//! asked. The replies have to be those of the plain reading, in order, each well-formed, and the connection has to end
//! where it says.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_log::{DiskStorage, Log, LogOptions};
use tollgate_server::{
    ConnectionLimits, CrowdLimits, HandlerSpec, HostOptions, RequestIds, RouteSpec, ServerOptions,
    SpoolOptions, StreamServer, TrustedProxies,
};

use super::reference::{self, Bounds, Expected};
use super::split::{self, Input};

const SCRIPT: &str =
    "return function(req) return req.method .. '\\n' .. req.path .. '\\n' .. req:body() end\n";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The engine under test, one for each choice of bounds.
pub struct Connections {
    servers: Vec<StreamServer>,
    _log: Log,
    _folder: tempfile::TempDir,
}

impl Connections {
    /// Starts the engine, without a socket.
    ///
    /// # Panics
    /// The folder for its script and its log cannot be made.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("echo.luau"), SCRIPT).expect("a script");
        let log = LogOptions::new(&folder.path().join("log"));
        let (log, _) = Log::open(Arc::new(DiskStorage), log, Vec::new(), |_| {}).expect("a log");
        let server = |choice| {
            let bounds = split::input(&[choice, 0]).expect("two bytes").bounds;
            StreamServer::new(&options(folder.path(), &bounds), &log).expect("a server")
        };
        Self { servers: (0..4).map(server).collect(), _log: log, _folder: folder }
    }

    /// Checks one input.
    pub fn check(&self, bytes: &[u8]) {
        let Some(Input { bounds, pieces, data, choice }) = split::input(bytes) else { return };
        let expected = reference::conversation(data, &bounds);
        let server = &self.servers[usize::from(choice & 3)];
        let mut stream = Stream {
            pieces: pieces.into_iter().map(<[u8]>::to_vec).collect(),
            pauses: choice & 4 != 0,
            is_paused: false,
            write_bytes_max: if choice & 8 != 0 { 7 } else { usize::MAX },
            sent: Vec::new(),
            is_shut: false,
        };
        run(server.serve(&mut stream, IpAddr::V4(Ipv4Addr::LOCALHOST)));
        compare(&stream.sent, &expected, data);
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self::new()
    }
}

fn options(folder: &std::path::Path, bounds: &Bounds) -> ServerOptions {
    let handler = HandlerSpec::Script { file: folder.join("echo.luau"), root: folder.to_owned() };
    let route = RouteSpec {
        path: "/*".to_owned(),
        host: None,
        methods: None,
        handler,
        stream: None,
        body_bytes_max: bounds.body,
        body_pace: None,
        cors: None,
    };
    ServerOptions {
        listen: Vec::new(),
        trusted_proxies: TrustedProxies::default(),
        backlog: 1,
        workers: 1,
        connection: ConnectionLimits {
            head: split::limits(bounds),
            pipeline_depth_max: 3,
            // Most bodies that are small otherwise go through a file.
            body_memory_max: if bounds.body < 100 { 8 } else { 1 << 20 },
            ..ConnectionLimits::default()
        },
        // Nothing measures the age of the queue.
        crowd: CrowdLimits { queue_age_max: std::time::Duration::from_hours(1), ..CrowdLimits::default() },
        spool: SpoolOptions::new(folder.join("spool")),
        script: HostOptions::default(),
        streams: Vec::new(),
        request_ids: RequestIds::Silent,
        routes: vec![route],
        drain_timeout: std::time::Duration::ZERO,
    }
}

/// Polls to the end; the stream is never waited for.
fn run(future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..POLLS_MAX {
        if future.as_mut().poll(&mut context).is_ready() {
            return;
        }
        // Only for a thread that writes a body.
        std::thread::yield_now();
    }
    panic!("the connection does not end");
}

const POLLS_MAX: usize = 1_000_000;

/// A peer that has written all it will ever send.
struct Stream {
    pieces: VecDeque<Vec<u8>>,
    /// Whether nothing comes between two pieces, once.
    pauses: bool,
    is_paused: bool,
    write_bytes_max: usize,
    sent: Vec<u8>,
    is_shut: bool,
}

impl AsyncRead for Stream {
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

impl AsyncWrite for Stream {
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

fn compare(sent: &[u8], expected: &[Expected], data: &[u8]) {
    let mut rest = sent;
    for (index, expected) in expected.iter().enumerate() {
        if !expected.is_judged {
            return;
        }
        let told =
            || format!("reply {index} of {}, {expected:?}: {}", sent.escape_ascii(), data.escape_ascii());
        if let Some(after) = rest.strip_prefix(CONTINUE) {
            assert!(expected.may_continue, "{}", told());
            rest = after;
        }
        let end = rest.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("{}", told()));
        let head = std::str::from_utf8(&rest[..end]).unwrap_or_else(|_| panic!("{}", told()));
        rest = &rest[end + 4..];
        let reply = Reply::read(head).unwrap_or_else(|| panic!("{}", told()));
        assert!(expected.statuses.contains(&reply.status), "{}", told());
        let connection = match (expected.closes, expected.is_1_1) {
            (true, _) => Some("close"),
            (false, true) => None,
            (false, false) => Some("keep-alive"),
        };
        assert_eq!(reply.only("connection"), connection, "{}", told());
        assert!(reply.only("date").is_some_and(|date| date.len() == 29), "{}", told());
        assert_eq!(reply.only("transfer-encoding"), None, "{}", told());
        let length = reply.only("content-length").map(str::parse::<usize>);
        assert_eq!(length.is_none(), matches!(reply.status, 204 | 304), "{}", told());
        let length = length.and_then(Result::ok).unwrap_or_default();
        if let Some(content) = &expected.content {
            assert_eq!(length, content.len(), "{}", told());
        }
        if !expected.is_head {
            let (content, after) = rest.split_at_checked(length).unwrap_or_else(|| panic!("{}", told()));
            assert!(expected.content.as_ref().is_none_or(|expected| expected == content), "{}", told());
            rest = after;
        }
    }
    assert!(rest.is_empty(), "more than {expected:?}: {}: {}", sent.escape_ascii(), data.escape_ascii());
}

struct Reply<'a> {
    status: u16,
    fields: Vec<(String, &'a str)>,
}

impl<'a> Reply<'a> {
    fn read(head: &'a str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let fields =
            lines.map(|line| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value)));
        Some(Self { status, fields: fields.collect::<Option<_>>()? })
    }

    /// The value of a field that may stand once.
    fn only(&self, name: &str) -> Option<&'a str> {
        let mut values = self.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| *value);
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is repeated");
        value
    }
}

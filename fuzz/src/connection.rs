//! Checks whole connections in the real engine: any bytes, cut anywhere. A script answers each request with
//! the parts of the request. The replies must be the replies of the reference reading, in order and
//! well-formed. The connection must end where the reference reading ends it.

use tollgate_log::Log;
use tollgate_server::{ConnectionLimits, HandlerSpec, RouteSpec, ServerOptions, StreamServer};

use super::engine::{self, Peer};
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
    /// The folder for the script and the log cannot be made.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("echo.luau"), SCRIPT).expect("a script");
        let log = engine::log(folder.path());
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
        let mut peer = Peer::new(pieces);
        peer.pauses = choice & 4 != 0;
        if choice & 8 != 0 {
            peer.write_bytes_max = 7;
        }
        compare(&peer.served_by(server), &expected, data);
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self::new()
    }
}

fn options(folder: &std::path::Path, bounds: &Bounds) -> ServerOptions {
    let handler = HandlerSpec::Script { file: folder.join("echo.luau"), root: folder.to_owned() };
    let connection = ConnectionLimits {
        head: split::limits(bounds),
        pipeline_depth_max: 3,
        // With a memory bound of 8 bytes, most bodies are spooled to a file although they are small.
        body_memory_max: if bounds.body < 100 { 8 } else { 1 << 20 },
        ..ConnectionLimits::default()
    };
    let route = RouteSpec { body_bytes_max: bounds.body, ..RouteSpec::new("/*", handler) };
    engine::options(folder, connection, vec![route])
}

fn compare(sent: &[u8], all: &[Expected], data: &[u8]) {
    let mut rest = sent;
    for (index, expected) in all.iter().enumerate() {
        if !expected.is_judged {
            return;
        }
        let report =
            || format!("reply {index} of {}, {expected:?}: {}", sent.escape_ascii(), data.escape_ascii());
        if let Some(after) = rest.strip_prefix(CONTINUE) {
            assert!(expected.may_continue, "{}", report());
            rest = after;
        }
        let end = rest.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("{}", report()));
        let head = std::str::from_utf8(&rest[..end]).unwrap_or_else(|_| panic!("{}", report()));
        rest = &rest[end + 4..];
        let reply = Reply::read(head).unwrap_or_else(|| panic!("{}", report()));
        assert!(expected.statuses.contains(&reply.status), "{}", report());
        let connection = match (expected.closes, expected.is_1_1) {
            (true, _) => Some("close"),
            (false, true) => None,
            (false, false) => Some("keep-alive"),
        };
        // The server may see the end of the input before a reply leaves. In this case the reply is the last
        // one.
        let is_last = index + 1 == all.len();
        let told_connection = reply.only("connection");
        let is_right = told_connection == connection || (is_last && told_connection == Some("close"));
        assert!(is_right, "{}", report());
        assert!(reply.only("date").is_some_and(|date| date.len() == 29), "{}", report());
        assert_eq!(reply.only("transfer-encoding"), None, "{}", report());
        let length = reply.only("content-length").map(str::parse::<usize>);
        assert_eq!(length.is_none(), matches!(reply.status, 204 | 304), "{}", report());
        let length = length.and_then(Result::ok).unwrap_or_default();
        if let Some(content) = &expected.content {
            assert_eq!(length, content.len(), "{}", report());
        }
        if !expected.is_head {
            let (content, after) = rest.split_at_checked(length).unwrap_or_else(|| panic!("{}", report()));
            assert!(expected.content.as_ref().is_none_or(|expected| expected == content), "{}", report());
            rest = after;
        }
    }
    assert!(rest.is_empty(), "more than {all:?}: {}: {}", sent.escape_ascii(), data.escape_ascii());
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

    /// Returns the value of a field that may occur only once.
    fn only(&self, name: &str) -> Option<&'a str> {
        let mut values = self.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| *value);
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is repeated");
        value
    }
}

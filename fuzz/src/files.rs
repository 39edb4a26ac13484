//! Checks files in the real engine: any target, requested from a real folder. The engine must find the same
//! file as the reference, which reads the path and the list of files in `tree`. It must send no byte from
//! outside the folder.

use bytes::Bytes;
use tollgate_log::Log;
use tollgate_server::{ConnectionLimits, HandlerSpec, RouteSpec, StreamServer};

use super::engine::{self, Peer};
use super::folder::{self, Found, Served};
use super::reference::{self, ReferenceResult};
use super::split;
use super::tree::{self, CANARY};

/// The engine under test, with its own folder.
pub struct Site {
    server: StreamServer,
    /// The runtime of the engine. Its threads read contents that are not in the page cache.
    runtime: tokio::runtime::Runtime,
    _log: Log,
    _folder: tempfile::TempDir,
}

/// A path, and the options with which the folder is served below it.
struct Mount {
    /// The path, with a slash at both ends.
    path: &'static str,
    served: Served,
}

const MOUNTS: [Mount; 3] = {
    let [inside, try_more, plain] = folder::WAYS;
    [
        Mount { path: "/inside/", served: inside },
        Mount { path: "/try/", served: try_more },
        Mount { path: "/", served: plain },
    ]
};

/// A path with another handler, between the paths of files.
const OTHER: (&str, &str) = ("/api/", "computed");

/// The reply that a request must get.
#[derive(Debug, PartialEq, Eq)]
enum ExpectedReply {
    Status(u16),
    Content(&'static str),
    /// The content, compressed by gzip.
    Coded(&'static str),
    /// A redirect to a target that is read as this path.
    Redirect(String),
}

impl Site {
    /// Writes the folder and starts the engine, without a socket.
    ///
    /// # Panics
    /// The folder cannot be made.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        tree::write(folder.path()).expect("a folder of files");
        let log = engine::log(folder.path());
        let content_type = "text/plain".to_owned();
        let other =
            HandlerSpec::Reply { status: 200, content_type, body: Bytes::from_static(OTHER.1.as_bytes()) };
        let mut routes = vec![RouteSpec::new(&format!("{}*", OTHER.0), other)];
        for mount in &MOUNTS {
            let spec = mount.served.spec(folder.path().join("public"));
            routes.push(RouteSpec::new(&format!("{}*", mount.path), HandlerSpec::Files(spec.into())));
        }
        let options = engine::options(folder.path(), ConnectionLimits::default(), routes);
        let server = StreamServer::new(&options, &log).expect("a server");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Self { server, runtime, _log: log, _folder: folder }
    }

    /// Checks one input: a byte of choices, and the target of a request.
    pub fn check(&self, bytes: &[u8]) {
        let Some((&choice, target)) = bytes.split_first() else { return };
        let Some(split::Input { bounds, .. }) = split::input(&[2, 0]) else { return };
        let method = if choice & 1 == 0 { "GET" } else { "HEAD" };
        let accept = if choice & 2 == 0 { "" } else { "Accept-Encoding: gzip\r\n" };
        let range = if choice & 4 == 0 { "" } else { "Range: bytes=1-2\r\n" };
        let fields = format!("HTTP/1.1\r\nHost: a\r\n{accept}{range}\r\n");
        let request = [method.as_bytes(), b" ", target, b" ", fields.as_bytes()].concat();
        let report = |sent: &[u8]| format!("{}: {}", request.escape_ascii(), sent.escape_ascii());

        let _runtime = self.runtime.enter();
        let sent = Peer::new(vec![&request]).served_by(&self.server);
        assert!(!contains(&sent, CANARY.as_bytes()), "{}", report(&sent));
        assert!(STATUSES_OF_OURS.iter().all(|line| !contains(&sent, line)), "{}", report(&sent));
        // A target with a line end would become another request. The fuzz targets `head` and `connection`
        // test such input.
        if target.contains(&b'\n') {
            return;
        }
        let reply = Reply::read(&sent).unwrap_or_else(|| panic!("{}", report(&sent)));
        let head = match reference::head(&request, &bounds) {
            ReferenceResult::Read(head, _) => head,
            ReferenceResult::Refused(statuses) => {
                return assert!(statuses.contains(&reply.status), "{}", report(&sent));
            }
            ReferenceResult::Incomplete => panic!("a whole request: {}", report(&sent)),
        };
        if head.is_https {
            return assert_eq!(reply.status, 421, "{}", report(&sent));
        }
        let expected = expected(&head.path, !accept.is_empty());
        let is_part = !range.is_empty() && method == "GET";
        assert!(reply.says(&expected, is_part, method == "HEAD"), "{expected:?}: {}", report(&sent));
    }
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}

/// Statuses that report faults of the server, which no client can cause.
const STATUSES_OF_OURS: [&[u8]; 2] = [b"HTTP/1.1 500", b"HTTP/1.1 503"];

impl Mount {
    fn answer(&self, path: &str, accepts_gzip: bool) -> ExpectedReply {
        match self.served.found(&path[self.path.len()..], accepts_gzip) {
            Found::Nothing => ExpectedReply::Status(404),
            Found::Folder => ExpectedReply::Redirect(format!("{path}/")),
            Found::Content(content) => ExpectedReply::Content(content),
            Found::Coded(content) => ExpectedReply::Coded(content),
        }
    }
}

/// Returns the reply that a raw path must get.
fn expected(raw: &str, accepts_gzip: bool) -> ExpectedReply {
    let Some(path) = reference::path(raw) else { return ExpectedReply::Status(400) };
    let below = format!("{path}/");
    if path.starts_with(OTHER.0) {
        return ExpectedReply::Content(OTHER.1);
    }
    if below == OTHER.0 || MOUNTS.iter().any(|mount| below == mount.path) {
        return ExpectedReply::Redirect(below);
    }
    let mount = MOUNTS.iter().find(|mount| path.starts_with(mount.path));
    mount.map_or(ExpectedReply::Status(404), |mount| mount.answer(&path, accepts_gzip))
}

struct Reply<'a> {
    status: u16,
    head: &'a str,
    content: &'a [u8],
}

impl<'a> Reply<'a> {
    fn read(sent: &'a [u8]) -> Option<Self> {
        let end = sent.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&sent[..end]).ok()?;
        let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        Some(Self { status, head, content: &sent[end + 4..] })
    }

    fn field(&self, name: &str) -> Option<&'a str> {
        let lines = self.head.split("\r\n").filter_map(|line| line.split_once(": "));
        lines.filter(|(field, _)| *field == name).map(|(_, value)| value).next()
    }

    fn says(&self, expected: &ExpectedReply, is_part: bool, is_head: bool) -> bool {
        match expected {
            ExpectedReply::Status(status) => self.status == *status,
            ExpectedReply::Redirect(path) => {
                let location = self.field("Location").unwrap_or_default();
                let (raw, _) = location.split_once('?').unwrap_or((location, ""));
                // A redirect to a target with two slashes at the start would lead to another host.
                let is_below = !raw.starts_with("//") && reference::path(raw).as_ref() == Some(path);
                self.status == 308 && is_below
            }
            ExpectedReply::Content(content) => {
                let is_part = is_part && *content != OTHER.1;
                self.has(content, is_part, is_head) && self.field("Content-Encoding").is_none()
            }
            ExpectedReply::Coded(content) => {
                self.has(content, is_part, is_head) && self.field("Content-Encoding") == Some("gzip")
            }
        }
    }

    fn has(&self, content: &str, is_part: bool, is_head: bool) -> bool {
        let (status, content) = if is_part { (206, &content[1..3]) } else { (200, content) };
        let sent = if is_head { "" } else { content };
        let length = self.field("Content-Length").and_then(|length| length.parse().ok());
        self.status == status && length == Some(content.len()) && self.content == sent.as_bytes()
    }
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

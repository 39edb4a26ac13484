//! Checks served folders without the engine: any path is requested as if it were decoded and normalised. The
//! file handler must find the same file as the reference, which reads the path and the list of files in
//! `tree`. It must send no byte from outside the folder.
//!
//! The engine refuses paths with `..` before the file handler gets them. This fuzz target passes such paths
//! to the handler.

use std::future::poll_fn;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tollgate_files::{FileReply, FileRequest, Files, FilesSpec, SharedFiles, Symlinks, TryPath};
use tollgate_http::route::MatchedPath;
use tollgate_http::{HeadReader, Limits, RequestHead, normalise_path};

use super::tree::{self, CANARY, Node};

/// The options with which a folder is served.
pub struct Served {
    pub follows_links: bool,
    pub dotfiles: bool,
    pub candidates: &'static [Candidate],
}

/// A path at which the handler searches for a file.
pub enum Candidate {
    Requested(&'static str),
    Fixed(&'static str),
}

/// The result of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// A folder that is requested without its slash.
    Folder,
    Content(&'static str),
    /// The content, compressed by gzip.
    Coded(&'static str),
}

/// The ways to serve a folder that the target tests.
pub const WAYS: [Served; 3] = [
    Served { follows_links: true, dotfiles: true, candidates: &[Candidate::Requested("")] },
    Served {
        follows_links: false,
        dotfiles: false,
        candidates: &[Candidate::Requested(""), Candidate::Requested(".html"), Candidate::Fixed("b/c.txt")],
    },
    Served { follows_links: false, dotfiles: false, candidates: &[Candidate::Requested("")] },
];

impl Served {
    /// Returns the options for a folder.
    pub fn spec(&self, root: PathBuf) -> FilesSpec {
        let mut spec = FilesSpec::new(root);
        spec.symlinks = if self.follows_links { Symlinks::Inside } else { Symlinks::Refuse };
        spec.dotfiles = self.dotfiles;
        spec.candidates = self.candidates.iter().map(Candidate::spec).collect();
        // Cached files must give the same replies as new lookups, so one way answers from its cache.
        spec.recheck = if self.follows_links { Duration::from_hours(24) } else { Duration::ZERO };
        spec
    }

    /// Returns the result of a path below the folder by the reference reading. The path has no slash at the
    /// start.
    pub fn found(&self, below: &str, accepts_gzip: bool) -> Found {
        let names: Vec<&str> = below.strip_suffix('/').unwrap_or(below).split('/').collect();
        let is_refused = |(place, name): (usize, &&str)| {
            let is_known = place == 0 && *name == ".well-known";
            let is_hidden = name.starts_with('.') && !self.dotfiles && !is_known;
            matches!(*name, "" | "." | "..") || is_hidden
        };
        if !below.is_empty() && names.iter().enumerate().any(is_refused) {
            return Found::Nothing;
        }
        let found = self.candidates.iter().find_map(|candidate| match candidate {
            Candidate::Fixed(path) => Some((*path).to_owned()),
            Candidate::Requested(end) if below.is_empty() || below.ends_with('/') => {
                let index = format!("{below}index.html");
                (end.is_empty() && self.file(&index).is_some()).then_some(index)
            }
            Candidate::Requested(end) => {
                let name = format!("{below}{end}");
                let is_there = match tree::at(&name, self.follows_links) {
                    Some(Node::File(_)) => true,
                    Some(Node::Folder) => end.is_empty(),
                    None => false,
                };
                is_there.then_some(name)
            }
        });
        let Some(found) = found else { return Found::Nothing };
        let variant = accepts_gzip.then(|| self.file(&format!("{found}.gz"))).flatten();
        match (self.file(&found), variant) {
            (None, _) => Found::Folder,
            (Some(_), Some(variant)) => Found::Coded(variant),
            (Some(content), None) => Found::Content(content),
        }
    }

    fn file(&self, path: &str) -> Option<&'static str> {
        match tree::at(path, self.follows_links) {
            Some(Node::File(content)) => Some(content),
            Some(Node::Folder) | None => None,
        }
    }
}

impl Candidate {
    fn spec(&self) -> TryPath {
        match self {
            Self::Requested(end) => TryPath::Requested((*end).to_owned()),
            Self::Fixed(path) => TryPath::Fixed((*path).to_owned()),
        }
    }
}

/// A folder that is served in each of the [`WAYS`].
pub struct Folders {
    ways: Vec<(Served, Files)>,
    /// Request heads without and with `Accept-Encoding: gzip`.
    heads: [RequestHead; 2],
    /// The runtime. Its threads read files that are not in the page cache.
    runtime: LocalRuntime,
    _folder: tempfile::TempDir,
}

impl Folders {
    /// Writes the folder.
    ///
    /// # Panics
    /// The folder cannot be made.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        tree::write(folder.path()).expect("a folder of files");
        let root = folder.path().join("public");
        let shared = SharedFiles::default();
        let ways = WAYS.into_iter().map(|way| {
            let files = Files::new(&way.spec(root.clone()), &shared);
            (way, files)
        });
        Self {
            ways: ways.collect(),
            heads: ["", "Accept-Encoding: gzip\r\n"].map(head),
            runtime: Builder::new_current_thread().build_local(LocalOptions::default()).expect("a runtime"),
            _folder: folder,
        }
    }

    /// Checks one input: a byte of choices, and a path without the slash at the start.
    pub fn check(&self, bytes: &[u8]) {
        let Some((&choice, below)) = bytes.split_first() else { return };
        if let Ok(below) = std::str::from_utf8(below) {
            self.check_path(below, choice & 1 != 0);
        }
    }

    /// Checks the result of a path for each way.
    ///
    /// # Panics
    /// The result differs from the reference reading.
    pub fn check_path(&self, below: &str, accepts_gzip: bool) {
        for (way, files) in &self.ways {
            let path = format!("/{below}");
            let reply = self.ask(files, &path, accepts_gzip);
            let content = content(&reply);
            assert!(!contains(&content, CANARY.as_bytes()), "{path:?}: {reply:?}");
            let expected = way.found(below, accepts_gzip);
            assert!(says(&reply, &content, &path, expected), "{path:?}: {expected:?}, {reply:?}");
        }
    }

    fn ask(&self, files: &Files, path: &str, accepts_gzip: bool) -> FileReply {
        let place =
            MatchedPath { decoded: Some(path.into()), path_info_bytes: path.len(), ..MatchedPath::default() };
        let request = FileRequest {
            head: &self.heads[usize::from(accepts_gzip)],
            place: &place,
            id: &"of a test",
            begun: Instant::now(),
            time_us: 1_800_000_000_000_000,
        };
        let mut pending_read = None;
        self.runtime
            .block_on(poll_fn(|context| files.poll_answer(&request, &mut pending_read, Some(context))))
    }
}

impl Default for Folders {
    fn default() -> Self {
        Self::new()
    }
}

fn head(fields: &str) -> RequestHead {
    let mut bytes = BytesMut::from(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    let read = HeadReader::default().read(&mut bytes, &Limits::default());
    read.ok().flatten().expect("a request head")
}

fn content(reply: &FileReply) -> Vec<u8> {
    let mut content = reply.content.to_vec();
    for part in &reply.parts {
        part.slice.read_through(|bytes| content.extend_from_slice(bytes)).expect("a file that is read");
        content.extend_from_slice(&part.then);
    }
    content
}

fn says(reply: &FileReply, content: &[u8], path: &str, expected: Found) -> bool {
    let is_coded = contains(&reply.lines, b"Content-Encoding: gzip\r\n");
    let status = reply.status.as_u16();
    match expected {
        Found::Nothing => status == 404,
        Found::Folder => {
            let location = reply.fields.iter().find(|(name, _)| name == "Location");
            let location =
                location.and_then(|(_, value)| std::str::from_utf8(value).ok()).unwrap_or_default();
            // A redirect to a target with two slashes at the start would lead to another host.
            let is_here = location.starts_with('/') && !location.starts_with("//");
            status == 308 && is_here && normalise_path(location).is_ok_and(|read| read == format!("{path}/"))
        }
        Found::Content(text) => status == 200 && content == text.as_bytes() && !is_coded,
        Found::Coded(text) => status == 200 && content == text.as_bytes() && is_coded,
    }
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

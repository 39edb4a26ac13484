//! What a route of files is told to do.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_http::push_field;

use crate::folder_bounds::FolderBounds;

/// A folder that is served, and how.
#[derive(Debug, Clone)]
pub struct FilesSpec {
    /// The folder. Nothing outside of it is read, whatever lies in it.
    pub root: PathBuf,
    /// Where it may lie.
    pub bounds: FolderBounds,
    /// Names of files that stand for their folder, the first that is there.
    pub index: Vec<String>,
    /// Whether a folder without one of them is shown.
    pub listing: bool,
    /// What is looked for, in this order.
    pub candidates: Vec<TryPath>,
    /// Whether names are served that begin with a dot; `.well-known` at the top always is (RFC 8615).
    pub dotfiles: bool,
    /// What becomes of symbolic links.
    pub symlinks: Symlinks,
    /// The charset of text; none is told if none.
    pub charset: Option<String>,
    /// Media types by extension, before those that are known.
    pub types: Vec<(String, String)>,
    /// What tags are made of.
    pub etag: Etag,
    /// `Cache-Control` by media type: `text/html`, `image/*` or `*/*`; the most exact counts.
    pub cache_control: Vec<(String, String)>,
    /// Whether `Expires` says the same as a `max-age` of it, for caches that know no other (RFC 9111 section
    /// 5.3).
    pub expires: bool,
    /// Further fields of every reply.
    pub headers: Vec<(String, String)>,
    /// Files in place of our own texts, by status; paths in the folder.
    pub error_pages: Vec<(u16, String)>,
    /// Whether `.br`, `.zst` and `.gz` beside a file are sent in its place to who accepts that.
    pub precompressed: bool,
    /// Whether files are compressed here for who accepts that.
    pub compress: bool,
    /// Bytes of compressed content that a worker keeps.
    pub compress_cache_bytes_max: u64,
    /// Whether the system sends files by itself where it can.
    pub sendfile: bool,
    /// How long what is known of a file is relied on.
    pub recheck: Duration,
}

impl FilesSpec {
    /// The defaults, for a folder.
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            bounds: FolderBounds::default(),
            index: vec!["index.html".to_owned()],
            listing: false,
            candidates: vec![TryPath::Requested(String::new())],
            dotfiles: false,
            symlinks: Symlinks::Refuse,
            charset: Some("utf-8".to_owned()),
            types: Vec::new(),
            etag: Etag::Stat,
            cache_control: Vec::new(),
            expires: false,
            headers: Vec::new(),
            error_pages: Vec::new(),
            precompressed: true,
            compress: false,
            compress_cache_bytes_max: 16 << 20,
            sendfile: true,
            recheck: Duration::from_secs(1),
        }
    }

    /// Appends the fields that every reply has.
    pub(crate) fn push_headers(&self, lines: &mut Vec<u8>) {
        push_field(lines, b"X-Content-Type-Options", b"nosniff");
        for (name, value) in &self.headers {
            push_field(lines, name.as_bytes(), value.as_bytes());
        }
    }
}

/// One place where a file is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TryPath {
    /// The path of the request with something behind it: nothing, or `.html`. A folder counts where that is
    /// nothing.
    Requested(String),
    /// A path in the folder, whatever was asked for: the page of an application that knows its paths itself.
    Fixed(String),
}

/// What entity tags are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Etag {
    /// The size and the time of the file.
    Stat,
    /// A digest of the content; of files that are too long for one, as with `Stat`.
    Content,
    /// There are none.
    Off,
}

impl Etag {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Stat, Self::Content, Self::Off];

    /// How the configuration writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Content => "content",
            Self::Off => "off",
        }
    }
}

/// What becomes of symbolic links below the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// They are not there.
    Refuse,
    /// They are followed as long as they stay inside of the root.
    Inside,
}

impl Symlinks {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Inside];

    /// How the configuration writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Inside => "inside",
        }
    }
}

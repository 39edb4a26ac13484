//! The resolved options of a route of files.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_http::push_field;

use crate::folder_bounds::FolderBounds;

/// Options of a served folder.
#[derive(Debug, Clone)]
pub struct FilesSpec {
    /// The folder. No file outside the folder is read, even if links lead there.
    pub root: PathBuf,
    /// Bounds on the place of the folder.
    pub bounds: FolderBounds,
    /// Names of index files. The first index file that exists is sent for its folder.
    pub index: Vec<String>,
    /// Whether a folder without an index file is listed.
    pub listing: bool,
    /// The candidates for the path of a request. The first candidate that exists is served.
    pub candidates: Vec<TryPath>,
    /// Whether names that begin with a dot are served. `.well-known` directly in the folder is always served
    /// (RFC 8615).
    pub dotfiles: bool,
    /// Whether symbolic links are followed.
    pub symlinks: Symlinks,
    /// The charset of text in `Content-Type`. `None` sends no charset.
    pub charset: Option<String>,
    /// Media types by extension or whole file name. These types override the known types. The type for `*`
    /// is used for names without any other type.
    pub types: Vec<(String, String)>,
    /// Source of entity tags.
    pub etag: Etag,
    /// `Cache-Control` by media type: `text/html`, `image/*` or `*/*`. The most exact pattern wins.
    pub cache_control: Vec<(String, String)>,
    /// Whether `Expires` repeats the `max-age` of `Cache-Control`, for caches that know only `Expires` (RFC
    /// 9111 section 5.3).
    pub expires: bool,
    /// Further fields of every reply.
    pub headers: Vec<(String, String)>,
    /// Error pages by status, as paths in the folder. These pages replace the built-in texts.
    pub error_pages: Vec<(u16, String)>,
    /// Whether `.br`, `.zst` and `.gz` next to a file are sent to clients that accept the coding.
    pub precompressed: bool,
    /// Whether files are compressed for clients that accept zstd or gzip.
    pub compress: bool,
    /// Maximum bytes of compressed content that a worker keeps for this folder.
    pub compress_cache_bytes_max: u64,
    /// Whether files are sent by sendfile, if the connection supports it.
    pub sendfile: bool,
    /// Time for which a worker uses the result of a lookup without a new lookup.
    pub recheck: Duration,
}

impl FilesSpec {
    /// Creates the default options for the folder at `root`.
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

    /// Appends the field lines of every reply.
    pub(crate) fn push_headers(&self, lines: &mut Vec<u8>) {
        push_field(lines, b"X-Content-Type-Options", b"nosniff");
        for (name, value) in &self.headers {
            push_field(lines, name.as_bytes(), value.as_bytes());
        }
    }
}

/// A candidate for the path of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TryPath {
    /// The path of the request with this suffix, such as `.html`. Only an empty suffix matches a folder.
    Requested(String),
    /// A fixed path in the folder, whatever the path of the request is. Applications that route in the
    /// browser need this.
    Fixed(String),
}

/// Source of entity tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Etag {
    /// The length and the modification time of the file.
    Stat,
    /// A digest of the content. Files longer than 256 MiB get the tag of `Stat`.
    Content,
    /// No tags are sent.
    Off,
}

impl Etag {
    /// All values of the option.
    pub const ALL: [Self; 3] = [Self::Stat, Self::Content, Self::Off];

    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Content => "content",
            Self::Off => "off",
        }
    }
}

/// Whether symbolic links in the folder are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// A link counts as absent.
    Refuse,
    /// A link is followed if it leads to a place inside the folder.
    Inside,
}

impl Symlinks {
    /// All values of the option.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Inside];

    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Inside => "inside",
        }
    }
}

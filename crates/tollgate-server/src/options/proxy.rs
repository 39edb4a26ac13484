//! Options for the requests of a route to a backend.

use super::any_or::AnyOr;

/// Options for the requests of a route to a backend, and the fields that are changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySpec {
    /// The backend, as an index in [`ServerOptions::backends`](crate::ServerOptions::backends).
    pub backend: usize,
    /// Whether the part before `*` in the route's path is removed.
    pub strip_prefix: bool,
    /// Prefix of the path. The prefix is empty, or a path without a slash at its end.
    pub prefix: String,
    /// Names of methods that the backend gets, although the server does not know them.
    pub extension_methods: AnyOr<String>,
    /// Treatment of paths with an encoded slash.
    pub encoded_slashes: EncodedSlashes,
    /// Whether paths and hosts in replies are changed so that they lead back through the route.
    pub rewrite_paths: bool,
    /// The value of `Host`.
    pub host: HostSent,
    /// Fields that replace fields of the client.
    pub set_headers: Vec<(String, String)>,
    /// Fields that are removed from the request.
    pub remove_headers: Vec<String>,
    /// Fields that replace fields of the backend.
    pub set_reply_headers: Vec<(String, String)>,
    /// Fields that are removed from the reply.
    pub remove_reply_headers: Vec<String>,
}

impl ProxySpec {
    /// Creates default options for a backend.
    pub fn new(backend: usize) -> Self {
        Self {
            backend,
            strip_prefix: false,
            prefix: String::new(),
            extension_methods: AnyOr::Listed(Vec::new()),
            encoded_slashes: EncodedSlashes::default(),
            rewrite_paths: true,
            host: HostSent::default(),
            set_headers: Vec::new(),
            remove_headers: Vec::new(),
            set_reply_headers: Vec::new(),
            remove_reply_headers: Vec::new(),
        }
    }
}

impl ProxySpec {
    /// Returns whether some extension methods are accepted.
    pub(crate) fn takes_extension_methods(&self) -> bool {
        self.extension_methods != AnyOr::Listed(Vec::new())
    }
}

/// The value of `Host` in requests to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostSent {
    /// The host that the client sent.
    #[default]
    Pass,
    /// The host of the backend.
    Backend,
}

impl HostSent {
    /// All values of the option.
    pub const ALL: [Self; 2] = [Self::Pass, Self::Backend];

    /// Returns the word for this value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Backend => "backend",
        }
    }
}

/// Treatment of paths in which a segment has an encoded `/` or `\\`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EncodedSlashes {
    /// The request gets 400.
    #[default]
    Refuse,
    /// The backend gets the path as the client sent it.
    Pass,
}

impl EncodedSlashes {
    /// All values of the option.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Pass];

    /// Returns the word for this value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Pass => "pass",
        }
    }
}

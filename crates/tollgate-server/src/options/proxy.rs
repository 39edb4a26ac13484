//! How requests of a route go to a backend.

/// How requests of a route go to a backend, and what of them is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySpec {
    /// The backend, by its place in [`ServerOptions::backends`](crate::ServerOptions::backends).
    pub backend: usize,
    /// Leaves out what stands before `*` in the path of the route.
    pub strip_prefix: bool,
    /// What stands before the path; empty, or a path without a slash at its end.
    pub prefix: String,
    /// What Host says.
    pub host: HostSent,
    /// Fields that the backend gets in place of those of the client.
    pub set_headers: Vec<(String, String)>,
    /// Fields that it does not get.
    pub remove_headers: Vec<String>,
    /// Fields that the client gets in place of those of the backend.
    pub set_reply_headers: Vec<(String, String)>,
    /// Fields that it does not get.
    pub remove_reply_headers: Vec<String>,
}

impl ProxySpec {
    /// The defaults, for a backend.
    pub fn new(backend: usize) -> Self {
        Self {
            backend,
            strip_prefix: false,
            prefix: String::new(),
            host: HostSent::default(),
            set_headers: Vec::new(),
            remove_headers: Vec::new(),
            set_reply_headers: Vec::new(),
            remove_reply_headers: Vec::new(),
        }
    }
}

/// What Host says to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostSent {
    /// What the client said.
    #[default]
    Pass,
    /// Where the backend is.
    Backend,
}

impl HostSent {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Pass, Self::Backend];

    /// Returns the word for it in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Backend => "backend",
        }
    }
}

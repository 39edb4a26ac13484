//! One mount of an app: a folder of routes and scripts below a path.

use tollgate_script::HostOptions;

/// One mount of an app.
#[derive(Debug, Clone)]
pub struct AppSpec {
    /// The path that it is mounted at, without a slash at its end; empty at the root.
    pub base: String,
    /// The host that it answers for; any if none.
    pub host: Option<String>,
    /// Its streams: what it calls them, and their places among those of the server.
    pub streams: Vec<(String, usize)>,
    /// Bounds on its scripts, what they share, and what of the environment they may read.
    pub script: HostOptions,
}

impl AppSpec {
    /// The path of all that it has.
    pub fn pattern(&self) -> String {
        format!("{}/*", self.base)
    }
}

//! One mount of an app, which is a folder of routes and scripts below a path.

use tollgate_script::HostOptions;

/// One mount of an app.
#[derive(Debug, Clone)]
pub struct AppSpec {
    /// The path of the mount without a slash at its end. Empty at the root.
    pub base: String,
    /// The host that it answers for. `None` means any host.
    pub host: Option<String>,
    /// Its streams: the names in the app, and their indexes in the streams of the server.
    pub streams: Vec<(String, usize)>,
    /// Bounds on its scripts, their shared values, and the environment variables that they may read.
    pub script: HostOptions,
}

impl AppSpec {
    /// Returns the pattern of all its paths.
    pub fn pattern(&self) -> String {
        format!("{}/*", self.base)
    }
}

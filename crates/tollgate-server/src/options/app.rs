//! One mount of an app, which is a folder of routes and scripts below a path.

use tollgate_script::HostOptions;

/// One mount of an app.
#[derive(Debug, Clone)]
pub struct AppSpec {
    /// The path of the mount without a slash at its end. Empty at the root.
    pub base: String,
    /// The host of the app. `None` means any host.
    pub host: Option<String>,
    /// The streams of the app: the name in the app, and the index in the streams of the server.
    pub streams: Vec<(String, usize)>,
    /// Options of the scripts: their bounds, their shared values, and the environment variables that they may
    /// read.
    pub script: HostOptions,
}

impl AppSpec {
    /// Returns the pattern that matches all paths of the app.
    pub fn pattern(&self) -> String {
        format!("{}/*", self.base)
    }
}

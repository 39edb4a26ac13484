//! The outcome of reloads.

use jiff::Timestamp;
use serde_json::Value;

use crate::config::Config;
use crate::version::Version;
use crate::wall;

/// The outcome of reloads, and the configuration that serves now.
#[derive(Debug, Clone)]
pub(crate) struct Reloads {
    /// Number of the configuration: 1 for the start, and one more for each successful reload.
    pub(crate) version: u64,
    pub(crate) loaded_at: Timestamp,
    /// Digest of the files of the configuration.
    pub(crate) digest: String,
    /// The apps of the configuration, as JSON.
    pub(crate) apps: Value,
    /// The number of sinks in the configuration.
    pub(crate) sinks: usize,
    pub(crate) done: u64,
    pub(crate) refused: u64,
    /// Time and reason of the last refusal. `None` after a successful reload.
    pub(crate) refusal: Option<(Timestamp, String)>,
}

impl Reloads {
    pub(super) fn new() -> Self {
        Self {
            version: 1,
            loaded_at: wall::now(),
            digest: String::new(),
            apps: Value::Null,
            sinks: 0,
            done: 0,
            refused: 0,
            refusal: None,
        }
    }

    /// Notes the configuration that serves now.
    pub(crate) fn serves(&mut self, version: &Version, config: &Config) {
        (self.version, self.loaded_at) = (version.number, version.loaded_at);
        (self.digest, self.apps) = (version.digest.clone(), Version::apps(config));
        self.sinks = config.sinks.len();
    }

    /// Notes the configuration of a process that only loads. It reads no scripts, so it has no digest.
    pub(crate) fn loads(&mut self, config: &Config) {
        (self.apps, self.sinks) = (Version::apps(config), config.sinks.len());
    }

    pub(crate) fn done(&mut self, version: &Version, config: &Config) {
        self.serves(version, config);
        self.done += 1;
        self.refusal = None;
    }

    pub(crate) fn refused(&mut self, reason: &str) {
        self.refused += 1;
        self.refusal = Some((wall::now(), reason.to_owned()));
    }
}

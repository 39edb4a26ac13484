//! What became of reloads.

use jiff::Timestamp;

/// What became of reloads, and what serves now.
#[derive(Debug, Clone)]
pub(crate) struct Reloads {
    /// Counts from 1.
    pub(crate) version: u64,
    pub(crate) loaded_at: Timestamp,
    pub(crate) done: u64,
    pub(crate) refused: u64,
    /// When the last one was refused since one was done, and why.
    pub(crate) refusal: Option<(Timestamp, String)>,
}

impl Reloads {
    pub(super) fn new() -> Self {
        Self { version: 1, loaded_at: Timestamp::now(), done: 0, refused: 0, refusal: None }
    }

    pub(crate) fn done(&mut self, version: u64, loaded_at: Timestamp) {
        (self.version, self.loaded_at) = (version, loaded_at);
        self.done += 1;
        self.refusal = None;
    }

    pub(crate) fn refused(&mut self, reason: &str) {
        self.refused += 1;
        self.refusal = Some((Timestamp::now(), reason.to_owned()));
    }
}

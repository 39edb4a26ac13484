//! The context of a lookup: the time of the request, and the results of threads for it.

use std::time::Instant;

use crate::opened::{Brought, OpenError, Opened};

/// The context of a lookup.
#[derive(Clone, Copy)]
pub(crate) struct LookupContext<'a> {
    /// Time of the request, by the monotonic clock. `wall_us` is the same time in microseconds since 1970,
    /// for dates in replies.
    pub(crate) at: Instant,
    pub(crate) wall_us: i64,
    /// Results of threads for the request so far.
    pub(crate) brought: &'a [Brought],
    pub(crate) is_patient: bool,
}

impl LookupContext<'_> {
    /// Returns the context for a lookup that waits for no thread, because the worker itself opens the files.
    pub(crate) fn at_once(self) -> Self {
        Self { is_patient: false, ..self }
    }

    /// Returns the context for a repeated lookup, without the results of threads, because those results are
    /// stale.
    pub(crate) fn anew(self) -> Self {
        Self { brought: &[], is_patient: false, ..self }
    }

    /// Returns the time of the request in seconds since 1970.
    pub(crate) fn wall_s(&self) -> u64 {
        u64::try_from(self.wall_us / 1_000_000).unwrap_or_default()
    }

    pub(crate) fn is_patient(&self) -> bool {
        self.is_patient
    }

    /// Returns the result of a thread for a path.
    pub(crate) fn brought(&self, path: &str) -> Option<Result<Opened, OpenError>> {
        let (_, found) = self.brought.iter().find(|(known, _)| **known == *path)?;
        Some(found.as_ref().map_err(Clone::clone).and_then(Opened::again))
    }
}

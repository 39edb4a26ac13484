//! How files are looked at for a request: when, and with what it waited for so far.

use std::time::Instant;

use crate::opened::{Brought, OpenError, Opened};

/// How files are looked at for a request.
#[derive(Clone, Copy)]
pub(crate) struct LookupContext<'a> {
    /// When: by the clock of ages, and for the dates in replies in microseconds since 1970.
    pub(crate) at: Instant,
    pub(crate) wall_us: i64,
    /// What threads found for the request so far.
    pub(crate) brought: &'a [Brought],
    pub(crate) is_patient: bool,
}

impl LookupContext<'_> {
    /// The same for who does not wait any more: the worker opens what it has to.
    pub(crate) fn at_once(self) -> Self {
        Self { is_patient: false, ..self }
    }

    /// The same for who looks once more: what was brought is not what is there any more.
    pub(crate) fn anew(self) -> Self {
        Self { brought: &[], is_patient: false, ..self }
    }

    /// When, in seconds since 1970.
    pub(crate) fn wall_s(&self) -> u64 {
        u64::try_from(self.wall_us / 1_000_000).unwrap_or_default()
    }

    pub(crate) fn is_patient(&self) -> bool {
        self.is_patient
    }

    /// What a thread found at a path.
    pub(crate) fn brought(&self, path: &str) -> Option<Result<Opened, OpenError>> {
        let (_, found) = self.brought.iter().find(|(known, _)| **known == *path)?;
        Some(found.as_ref().map_err(Clone::clone).and_then(Opened::again))
    }
}

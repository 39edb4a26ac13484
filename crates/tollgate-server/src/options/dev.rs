//! State of a server in development mode, with the faults that keep it from serving the current files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A fault in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFault {
    /// The text of the fault, with the file and the line.
    pub text: String,
    /// The file, if it is known.
    pub file: Option<PathBuf>,
    /// The line, counted from 1, or 0 if it is not known.
    pub line: usize,
}

/// Development mode, with the faults of the current files. Clones share the faults.
#[derive(Debug, Clone, Default)]
pub struct Dev(Arc<Mutex<Arc<[SourceFault]>>>);

impl Dev {
    /// Answers every request with these faults from now on. If there are no faults, requests are served
    /// again.
    pub fn set_faults(&self, faults: Vec<SourceFault>) {
        *self.locked() = faults.into();
    }

    /// Locks the list of faults. A poisoned lock is used as well, because a panic cannot leave the list
    /// incomplete.
    pub(crate) fn locked(&self) -> MutexGuard<'_, Arc<[SourceFault]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What a server in development knows: that it is one, and why it does not serve what is written now.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Something that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFault {
    /// What is wrong, with the file and the line.
    pub text: String,
    /// The file; none where none is known.
    pub file: Option<PathBuf>,
    /// The line, from 1; 0 where none is known.
    pub line: usize,
}

/// That a server is in development, and why it does not serve what is written now. Clones are one and the
/// same.
#[derive(Debug, Clone, Default)]
pub struct Dev(Arc<Mutex<Arc<[SourceFault]>>>);

impl Dev {
    /// Answers every request with these faults from now on. Without any, requests are served again.
    pub fn set_faults(&self, faults: Vec<SourceFault>) {
        *self.locked() = faults.into();
    }

    /// What is behind the lock is whole after every statement.
    pub(crate) fn locked(&self) -> MutexGuard<'_, Arc<[SourceFault]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

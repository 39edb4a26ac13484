//! When the connections of a listening socket can be accepted.

use std::io;
use std::os::fd::BorrowedFd;

use crate::sys;

/// How long the system holds a silent connection back.
const SILENCE_SECONDS: libc::c_int = 1;

/// When the system gives out a connection of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// As it comes.
    Empty,
    /// When bytes have come on it, as a rule.
    WithBytes,
}

impl Acceptance {
    /// Has a listening socket do so from now on.
    ///
    /// # Errors
    /// It is none of TCP.
    pub(crate) fn set(self, listener: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Self::Empty => sys::defer_accept(listener, 0),
            Self::WithBytes => sys::defer_accept(listener, SILENCE_SECONDS),
        }
    }
}

//! When a connection can be accepted from a listening socket.

use std::io;
use std::os::fd::BorrowedFd;

use crate::sys;

/// How long the system holds a silent connection back.
const SILENCE_SECONDS: libc::c_int = 1;

/// When the system gives out a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// As it comes.
    Empty,
    /// When bytes have come on it, as a rule.
    WithBytes,
}

impl Acceptance {
    /// Prepares a listening socket, and returns when its connections can be accepted. Without `deferred` the
    /// socket stays as it is: systemd may have configured it.
    ///
    /// # Errors
    /// `deferred` is set, and the socket is not a TCP socket.
    pub(crate) fn set(listener: BorrowedFd<'_>, deferred: bool) -> io::Result<Self> {
        if !deferred {
            return Ok(Self::Empty);
        }
        sys::defer_accept(listener, SILENCE_SECONDS)?;
        Ok(Self::WithBytes)
    }
}

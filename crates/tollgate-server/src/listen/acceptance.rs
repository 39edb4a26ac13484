//! The time when the system lets a connection of a listening socket be accepted.

use std::io;
use std::os::fd::BorrowedFd;

use crate::sys;

/// Time for which the system holds back a connection without bytes, in seconds.
const SILENCE_SECONDS: libc::c_int = 1;

/// The time when the system lets a TCP connection be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// A connection can be accepted as soon as it is established.
    Empty,
    /// A connection can usually be accepted after its first bytes have arrived.
    WithBytes,
}

impl Acceptance {
    /// Prepares a listening socket, and returns the time when its connections can be accepted. Without
    /// `deferred` the socket is not changed, because systemd may have configured it.
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

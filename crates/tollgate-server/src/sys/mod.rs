//! What needs `unsafe`, and nothing else.

#![expect(unsafe_code, reason = "descriptors by number, and their readiness")]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Duplicates a descriptor that the process was started with. The one of that number stays open.
///
/// # Errors
/// It is not open, or there are too many.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(rustix::io::Errno::BADF.raw_os_error()));
    }
    // SAFETY: the number is not -1, and nothing is done with it but to ask the kernel for a duplicate, which fails if
    // it is not open.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::io::fcntl_dupfd_cloexec(inherited, FIRST_FREE)?)
}

/// Has the runtime tell when a socket can be read from.
///
/// # Errors
/// The system cannot wait for it.
pub(crate) fn readable(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays open and the same until it is dropped, which the registration does after its
    // own end.
    let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

/// Duplicates are numbered from here: behind the standard streams.
const FIRST_FREE: RawFd = 3;

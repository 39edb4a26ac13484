//! All code of this crate that needs `unsafe`.

#![expect(unsafe_code, reason = "descriptors by number, their readiness, and what the kernel tells of them")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Duplicates a descriptor that was open when the process started. The original stays open.
///
/// # Errors
/// The descriptor is not open, or there are too many descriptors.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(rustix::io::Errno::BADF.raw_os_error()));
    }
    // SAFETY: the number is not -1. The number is used only to ask the kernel for a duplicate, which fails if
    // the descriptor is not open.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::io::fcntl_dupfd_cloexec(inherited, FIRST_FREE)?)
}

/// Registers a socket with the runtime for readability.
///
/// # Errors
/// The system cannot register the socket.
pub(crate) fn readable(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays open and unchanged until it is dropped, and the registration ends
    // before that.
    let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

/// Makes a listening TCP socket hold back a connection until bytes arrive on it, or for `seconds` without
/// bytes. With 0, connections are not held back (tcp(7), `TCP_DEFER_ACCEPT`).
///
/// # Errors
/// The socket is not a TCP socket.
pub(crate) fn defer_accept(listener: BorrowedFd<'_>, seconds: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel reads one integer from a valid address.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Number of connections that wait on a listening socket to be accepted, and the maximum of this number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AcceptQueue {
    pub(crate) len: u32,
    pub(crate) len_max: u32,
}

/// Returns the accept queue of a listener. Returns zeros if the socket is not a TCP socket.
///
/// The kernel reports both numbers in fields that have another meaning for a connection (`tcp_get_info` in
/// Linux).
pub(crate) fn accept_queue(listener: &OwnedFd) -> AcceptQueue {
    let told = tcp_info(listener.as_fd());
    told.map_or_else(AcceptQueue::default, |info| AcceptQueue {
        len: info.tcpi_unacked,
        len_max: info.tcpi_sacked,
    })
}

/// Returns the state of a TCP socket (tcp(7), `TCP_INFO`).
fn tcp_info(socket: BorrowedFd<'_>) -> Option<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel writes at most `len` bytes into a value of that size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    // SAFETY: the value consists of integers, which were all zero before the kernel wrote a part of them.
    (result == 0).then(|| unsafe { info.assume_init() })
}

/// Returns the number of bytes that a connected socket holds and its peer has not confirmed (tcp(7),
/// `SIOCOUTQ`). For a Unix socket, these are the bytes that the peer has not read.
pub(crate) fn unconfirmed_bytes(socket: BorrowedFd<'_>) -> Option<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the kernel writes one integer.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    (result == 0).then(|| usize::try_from(bytes).unwrap_or(0))
}

/// Smallest number for a duplicate, after the standard streams.
const FIRST_FREE: RawFd = 3;

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Returns the number of packets of any kind that a TCP socket has sent.
    pub(crate) fn packets_sent(socket: BorrowedFd<'_>) -> u32 {
        tcp_info(socket).unwrap().tcpi_segs_out
    }

    #[test]
    fn the_queue_of_a_listener_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peers: Vec<_> = (0..3).map(|_| TcpStream::connect(listener.local_addr().unwrap())).collect();
        let socket = OwnedFd::from(listener);
        let queue = accept_queue(&socket);
        assert_eq!((queue.len, peers.len()), (3, 3));
        assert!(queue.len_max >= 3, "{queue:?}");
    }

    #[test]
    fn a_unix_socket_tells_nothing_of_its_queue() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        assert_eq!(accept_queue(&listener.into()), AcceptQueue::default());
    }
}

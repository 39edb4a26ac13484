//! What connections inherit from the socket that they came on.

use std::io;

use socket2::Socket;

/// What the system takes of a reply ahead of what it may send: enough to keep a fast peer busy until we are
/// asked for more. What a peer does not take stays with us, where it is counted and bounded, and not in the
/// system. Half of the longest packet: with more, a second one may lie behind the first, and where the
/// congestion control paces (bbr) each that does costs a timer (`docs/performance.md`).
pub(crate) const UNSENT_BYTES: u32 = 32 << 10;

/// Sets what connections inherit (Linux).
pub(super) fn tune_tcp(socket: &Socket) -> io::Result<()> {
    // A reply is one write: waiting for more to send would only delay it.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)
}

//! Options that accepted connections inherit from their listening socket.

use std::io;

use socket2::Socket;

/// Maximum bytes of a reply that the system buffers before it can send them. This buffer suffices for a fast
/// peer until the system asks for more bytes. All further bytes stay in this process, where they are counted
/// and bounded.
///
/// The value is half of the longest packet. With a larger value, a second packet may wait after the first.
/// With a congestion control that paces packets (bbr), each packet that waits costs a timer
/// (`docs/explanation/decisions/unsent-bound.md`).
pub(crate) const UNSENT_BYTES: u32 = 32 << 10;

/// Sets the options that connections inherit on Linux.
pub(super) fn tune_tcp(socket: &Socket) -> io::Result<()> {
    // A reply is sent with one write, so a delay for more bytes would be useless.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)
}

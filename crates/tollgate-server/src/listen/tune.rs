//! Options that accepted connections inherit from their listening socket.

use std::io;

use socket2::Socket;

/// Bytes of a reply that the system buffers before it can send them. They keep a fast peer busy until the
/// system asks for more. The rest stays in this process, where it is counted and bounded.
///
/// The value is half of the longest packet. A larger value may queue a second packet after the first. With
/// congestion control that paces (bbr), each such packet costs a timer
/// (`docs/explanation/decisions/unsent-bound.md`).
pub(crate) const UNSENT_BYTES: u32 = 32 << 10;

/// Sets the options that connections inherit on Linux.
pub(super) fn tune_tcp(socket: &Socket) -> io::Result<()> {
    // A reply is one write, so a delay for more bytes would be useless.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)
}

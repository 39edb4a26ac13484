//! Steps on a connection. Every fault is written as a list of steps.

use std::time::Duration;

/// One step on a connection.
///
/// After the last step a backend reads the next request of the connection, and a client reads until the
/// server ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes one by one, with this pause before each byte except the first.
    Drip(Vec<u8>, Duration),
    /// Sends these bytes several times, with this pause before each time except the first.
    Repeat(Vec<u8>, u64, Duration),
    /// Sends random bytes. The same seed gives the same bytes.
    Noise {
        /// Number of bytes.
        bytes: u64,
        /// Seed of the bytes.
        seed: u64,
    },
    /// Waits for this time.
    Wait(Duration),
    /// Waits until the peer ends the connection. Received bytes are read and dropped.
    Hold,
    /// Waits until the peer is gone, and reads nothing. The bytes from the peer fill the buffers.
    Freeze,
    /// Sends the end (FIN). Bytes that still arrive are read for a second, so that the end does not become a
    /// reset.
    Close,
    /// Ends the sending half (FIN) and goes on reading.
    HalfClose,
    /// Ends the connection by RST.
    Reset,
}

//! Steps on a connection. Every fault is written as a list of steps.

use std::time::Duration;

/// One step on a connection.
///
/// After the last step, a backend reads the next request of the connection. A client reads until the server
/// ends the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes one by one, with this pause before each byte except the first.
    Drip(Vec<u8>, Duration),
    /// Sends these bytes this many times, with this pause before each time except the first.
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
    /// Waits until the peer ends the connection, without reading. The bytes from the peer fill the buffers.
    Freeze,
    /// Ends the connection (FIN). Bytes that still arrive are read for a second, because unread bytes would
    /// turn the end into a reset.
    Close,
    /// Ends the sending half (FIN) and continues to read.
    HalfClose,
    /// Ends the connection by RST.
    Reset,
}

//! What is done to a connection, step by step: the language in which every fault is written.

use std::time::Duration;

/// One thing that is done on a connection.
///
/// After the last step a backend reads the next request of the connection, and a client reads until the
/// server ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes one by one, with this pause before each but the first.
    Drip(Vec<u8>, Duration),
    /// Sends these bytes so many times, with this pause before each time but the first.
    Repeat(Vec<u8>, u64, Duration),
    /// Sends so many bytes that mean nothing, the same ones for the same seed.
    Noise {
        /// How many.
        bytes: u64,
        /// Which.
        seed: u64,
    },
    /// Does nothing for so long.
    Wait(Duration),
    /// Does nothing more until the peer ends the connection; what comes is read and forgotten.
    Hold,
    /// Does nothing more and reads nothing more until the peer is gone: what it sends fills the buffers.
    Freeze,
    /// Sends the end (FIN); what still comes is read for a second, so that it does not become a reset.
    Close,
    /// Ends the sending half (FIN) and goes on reading.
    HalfClose,
    /// Ends the connection by RST.
    Reset,
}

//! The reason for an early end of a connection.

use std::io;

/// The peer is gone, or took no bytes for too long.
pub(super) struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Self
    }
}

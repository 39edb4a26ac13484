//! The end of a connection that its peer broke off.

use std::io;

/// The peer is gone, or took nothing for too long.
pub(super) struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Self
    }
}

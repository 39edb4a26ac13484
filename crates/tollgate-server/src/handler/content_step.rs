//! The result of one step of a streamed content.

/// The result of one step of a streamed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentStep {
    /// Bytes were written or read. The next bytes are not available yet.
    Written,
    /// The script ran its slice. Other connections have their turn first.
    Sliced,
    /// The content is complete.
    Ended,
    /// The script or the backend failed, so the content will never be complete.
    Broken,
}

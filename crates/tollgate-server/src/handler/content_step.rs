//! The result of one step of a streamed content.

/// The result of one step of a streamed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentStep {
    /// Bytes were written or read. The next ones have to be waited for.
    Written,
    /// The script ran its slice. Others have their turn first.
    Sliced,
    /// The content is whole.
    Ended,
    /// The script or the backend failed. The content will never be whole.
    Broken,
}

//! What a turn of a streamed reply came to.

/// What a call that writes came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flowed {
    /// It wrote something, and waits.
    Written,
    /// It ran its slice: others have their turn first.
    Sliced,
    /// It wrote all of the content.
    Ended,
    /// It failed: the content will never be whole.
    Broken,
}

//! A place between two records of a log.

use crate::id::Sequence;

/// How far a reader of a log came. It always stands at the end of a batch or of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The last record that is behind.
    pub last: Sequence,
    /// Header checksum of the batch that ends there; none behind a gap.
    pub chain: Option<u32>,
}

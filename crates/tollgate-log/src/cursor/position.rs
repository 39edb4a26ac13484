//! A place between two records of a log.

use crate::id::Sequence;

/// How far a reader of a log is. A position is always the end of a batch or of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The last record before the position.
    pub last: Sequence,
    /// Header checksum of the batch that ends there. `None` after a gap.
    pub chain: Option<u32>,
}

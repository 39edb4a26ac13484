//! The position of a reader: a place between two records of a log.

use crate::id::Sequence;

/// Position of a reader in a log. A position is always the end of a batch or of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The last record before the position.
    pub last: Sequence,
    /// Header checksum of the batch that ends at the position. `None` after a gap.
    pub chain: Option<u32>,
}

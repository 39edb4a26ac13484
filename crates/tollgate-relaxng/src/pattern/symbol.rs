//! The symbols of an alphabet.

/// A name that a schema mentions, or a class of names that it cannot tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Symbol(pub(crate) u32);

impl Symbol {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

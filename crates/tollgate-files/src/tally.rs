//! A count of descriptors that the caches of a worker share.

use std::cell::Cell;

/// Number of descriptors that the younger generations of all caches have gained since the last turn.
#[derive(Default)]
pub(crate) struct Tally(Cell<usize>);

impl Tally {
    pub(crate) fn add(&self, descriptors: usize) {
        self.0.set(self.0.get() + descriptors);
    }

    pub(crate) fn subtract(&self, descriptors: usize) {
        self.0.set(self.0.get() - descriptors);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.get()
    }

    pub(crate) fn clear(&self) {
        self.0.set(0);
    }
}

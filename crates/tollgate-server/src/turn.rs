//! The turns of a worker: from one look for what came to the next. Requests that are answered in one turn came together.

use std::cell::Cell;

thread_local! {
    static TURNS: Cell<u64> = const { Cell::new(0) };
}

/// Begins the next one of this thread.
pub(crate) fn begin() {
    TURNS.set(TURNS.get().wrapping_add(1));
}

/// The number of this one.
pub(crate) fn number() -> u64 {
    TURNS.get()
}

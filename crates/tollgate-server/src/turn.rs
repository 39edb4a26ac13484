//! The turns of a worker: from one time it was idle to the next. What came while it was idle is answered in one turn. A
//! worker that always has something to do stays in one turn, over many looks for what came.

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

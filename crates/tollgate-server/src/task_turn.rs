//! Turns of the tasks of a worker.

use std::pin::pin;
use std::task::Context;

/// Wakes the current task, so that it is polled again after all other ready tasks.
pub(crate) fn give_turn(context: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(context);
}

//! Turns of the tasks of a worker.

use std::pin::pin;
use std::task::Context;

/// Lets all other ready tasks run before the current task is polled again.
pub(crate) fn give_turn(context: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(context);
}

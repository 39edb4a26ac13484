//! Turns of the tasks of a worker.

use std::pin::pin;
use std::task::Context;

/// Has the task polled again when all others that are ready had their turn.
pub(crate) fn give_turn(context: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(context);
}

//! Decides whether memory for the reply of a handler is available, within the limits of its connection and of
//! all connections.

use std::task::Context;
use std::time::Duration;

use tokio::time::sleep;

use super::requests::Queue;
use crate::task_turn::give_turn;
use crate::worker::Worker;

/// Size of pending replies at which they are sent, in bytes, even if more requests are in the buffer.
pub(in crate::conn) const REPLIES_BYTES_MAX: usize = 256 << 10;

/// Pause before a handler that has begun checks again whether memory is available.
const ROOM_PAUSE: Duration = Duration::from_millis(50);

impl Queue {
    /// Returns whether memory for the reply of a handler is available. For the first handler, the results of
    /// later handlers do not count.
    #[inline]
    pub(super) fn may_go_on(&self, index: usize, worker: &Worker) -> bool {
        let returned_bytes = if index == 0 { 0 } else { self.bytes.reply };
        let has_room = if self.running[index].is_safe() {
            self.leaving_bytes + self.answered_bytes + returned_bytes < REPLIES_BYTES_MAX
        } else {
            // An unsafe handler changes something, and no handler runs after it. Such a handler therefore
            // runs while a long reply is being sent, unless peers hold too much memory.
            let is_behind_much = self.leaving_bytes >= REPLIES_BYTES_MAX;
            self.answered_bytes < REPLIES_BYTES_MAX
                && !(is_behind_much && worker.capacity.is_full_for_peers())
        };
        has_room && !self.has_to_await_room(index, worker)
    }

    /// Returns whether a handler waits because all connections together hold too much memory.
    ///
    /// The first handler waits only for memory that is freed without it: by the log, by the peers, and by
    /// first handlers that hold much. First handlers that hold much do not wait, so no two connections wait
    /// for each other.
    ///
    /// A later handler also waits for memory that handlers hold, because its reply is sent only after the
    /// first reply. While memory is full, a handler that has not begun does not wait, because it is refused.
    #[inline]
    fn has_to_await_room(&self, index: usize, worker: &Worker) -> bool {
        let request = &self.running[index];
        let has_begun = !request.is_untouched();
        let capacity = &worker.capacity;
        match index {
            0 => has_begun && !request.holds_much() && capacity.is_full_without_handlers(),
            _ if capacity.is_full() => has_begun,
            _ => capacity.is_full_for_handlers_behind(),
        }
    }

    /// If a handler waits for memory, polls the queue again after a pause. A pause is needed because the
    /// connection that frees memory does not wake this task.
    #[inline]
    pub(super) fn await_room(&mut self, worker: &Worker, context: &mut Context<'_>) {
        let awaits_room = |index: usize| {
            let request = &self.running[index];
            (request.can_run() || request.awaits_reply()) && self.has_to_await_room(index, worker)
        };
        if !(0..self.running.len()).any(awaits_room) {
            return self.room_pause = None;
        }
        let pause = self.room_pause.get_or_insert_with(|| Box::pin(sleep(ROOM_PAUSE)));
        if pause.as_mut().poll(context).is_ready() {
            self.room_pause = None;
            give_turn(context);
        }
    }
}

//! Whether there is room for the reply of a handler: on its connection, and in the memory of all connections.

use std::task::Context;
use std::time::Duration;

use tokio::time::sleep;

use super::requests::Queue;
use crate::task_turn::give_turn;
use crate::worker::Worker;

/// Replies that wait are sent when they are this large, even if more requests are there.
pub(in crate::conn) const REPLIES_BYTES_MAX: usize = 256 << 10;

/// How soon a handler that has begun asks again for room.
const ROOM_PAUSE: Duration = Duration::from_millis(50);

impl Queue {
    /// Whether there is room for what a handler may return. The first one does not wait for what those behind
    /// it returned.
    #[inline]
    pub(super) fn may_go_on(&self, index: usize, worker: &Worker) -> bool {
        let returned_bytes = if index == 0 { 0 } else { self.bytes.reply };
        let has_room = if self.running[index].is_safe() {
            self.leaving_bytes + self.answered_bytes + returned_bytes < REPLIES_BYTES_MAX
        } else {
            // It changes something, and nothing runs behind it: as long as peers may hold more it does not
            // wait for its own.
            let is_behind_much = self.leaving_bytes >= REPLIES_BYTES_MAX;
            self.answered_bytes < REPLIES_BYTES_MAX
                && !(is_behind_much && worker.capacity.is_full_for_peers())
        };
        has_room && !self.has_to_await_room(index, worker)
    }

    /// Whether a handler waits for room. The first one waits only for room that is made without it: by the
    /// log, the peers, and first handlers that hold much, which do not wait. So no two connections wait for
    /// each other. A handler behind the first also waits for what handlers hold, because its reply cannot
    /// leave before the first one's. While all memory is held, a handler that has not begun does not wait,
    /// because it is refused.
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

    /// Asks again after a pause, if a handler waits for room. Another connection makes that room, and wakes
    /// nobody.
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

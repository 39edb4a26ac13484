//! The one place that a connection has in the script queue of its worker.

use std::task::Context;

use super::requests::Queue;
use crate::overload::QueuePlace;
use crate::worker::Worker;

impl Queue {
    /// Returns whether the script queue lets a script of this connection run.
    #[inline]
    pub(super) fn is_its_turn(&mut self) -> bool {
        self.place.as_mut().is_some_and(QueuePlace::may_run)
    }

    /// Ends the turn of the place after a slice, because other scripts wait in the script queue.
    #[inline]
    pub(super) fn spend_place(&mut self) {
        if let Some(place) = self.place.as_mut().filter(|place| place.is_first()) {
            place.spend();
        }
    }

    /// Holds a place in the script queue while a script needs one. The task is woken when the place is the
    /// first of the queue.
    #[inline]
    pub(super) fn queue_up(&mut self, worker: &Worker, context: &Context<'_>) {
        let may_begin = self.answered.is_empty();
        let mut in_turn = (0..self.running.len()).filter(|index| {
            (may_begin || !self.running[*index].has_to_begin()) && self.may_go_on(*index, worker)
        });
        let Some(waiting_script) = in_turn.find_map(|index| self.running[index].waiting_script.as_ref())
        else {
            return self.place = None;
        };
        let place = self.place.get_or_insert_with(|| waiting_script.enter());
        if place.is_first() {
            place.give_turn();
            self.is_turn_over = true;
        } else {
            place.watch(context.waker());
        }
    }
}

//! The turns of the handlers: the handler that runs next, and the time when other connections have their
//! turn.

use std::future::poll_fn;
use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::requests::Queue;
use super::running_request::RunningRequest;
use crate::handler::Turn;
use crate::overload::HeldMemory;
use crate::task_turn::give_turn;
use crate::worker::Worker;

impl Queue {
    /// Waits for `future`, and runs the handlers during the wait. The future stays pinned in the caller,
    /// because it may be large.
    pub(in crate::conn) fn beside<F: Future + Unpin>(
        &mut self,
        worker: &Worker,
        held: &HeldMemory,
        mut future: F,
    ) -> impl Future<Output = F::Output> {
        poll_fn(move |context| {
            let polled = Pin::new(&mut future).poll(context);
            if polled.is_pending() {
                self.run(worker, held, context);
            }
            polled
        })
    }

    /// Waits for `future`, or for the answer to the first request. Returns `None` if the answer comes first.
    ///
    /// # Cancel safety
    /// As cancel-safe as `future`. After the answer, `future` is not polled again.
    pub(in crate::conn) fn race<F: Future + Unpin>(
        &mut self,
        worker: &Worker,
        held: &HeldMemory,
        mut future: F,
    ) -> impl Future<Output = Option<F::Output>> {
        poll_fn(move |context| {
            if !self.answered.is_empty() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(output) = Pin::new(&mut future).poll(context) {
                return Poll::Ready(Some(output));
            }
            self.run(worker, held, context);
            if self.answered.is_empty() { Poll::Pending } else { Poll::Ready(None) }
        })
    }

    /// Runs handlers until one handler has used its slice or no handler can continue. Handlers that wait are
    /// polled once.
    fn run(&mut self, worker: &Worker, held: &HeldMemory, context: &mut Context<'_>) {
        if self.is_empty() {
            return;
        }
        self.poll_waits(worker, context);
        self.settle(worker);
        held.set_queued(self.queued());
        while !self.is_turn_over
            && let Some(index) = self.next_to_run(worker)
        {
            if self.running[index].queues_up_first() {
                continue;
            }
            self.run_one(index, worker, context);
            self.settle(worker);
            held.set_queued(self.queued());
        }
        if !self.running.is_empty() {
            self.queue_up(worker, context);
            self.start_read(context);
            self.await_room(worker, context);
        }
        held.set_queued(self.queued());
        if take(&mut self.is_turn_over) {
            give_turn(context);
        }
        for answered in &mut self.answered {
            answered.watch(context);
        }
    }

    /// Runs one handler for a turn, or refuses its request.
    fn run_one(&mut self, index: usize, worker: &Worker, context: &mut Context<'_>) {
        let request = &mut self.running[index];
        let was_in_script_queue = request.is_in_script_queue();
        // The memory is checked again, because other requests may have used it since this request was
        // admitted.
        let turn = if request.is_untouched() && worker.capacity.is_full() {
            request.refuse(worker)
        } else {
            request.run(context)
        };
        let is_in_script_queue = request.is_in_script_queue();
        request.count(&mut self.bytes);
        self.is_turn_over = turn == Turn::Sliced;
        if was_in_script_queue && !is_in_script_queue {
            // When a script leaves the script queue, the next script of the connection gets a new place.
            self.place = None;
        } else if self.is_turn_over {
            self.spend_place();
        }
    }

    /// Polls the operations that handlers wait for. A reply of a backend is read only while memory for it is
    /// available.
    fn poll_waits(&mut self, worker: &Worker, context: &mut Context<'_>) {
        for index in 0..self.running.len() {
            let request = &self.running[index];
            if request.has_pending_read() || (request.awaits_reply() && !self.may_go_on(index, worker)) {
                continue;
            }
            let request = &mut self.running[index];
            request.poll_wait(context);
            request.count(&mut self.bytes);
        }
    }

    /// Asks a thread to read files for the next handler that needs them, but only after the client has taken
    /// all replies.
    fn start_read(&mut self, context: &mut Context<'_>) {
        if !self.answered.is_empty() || self.running.iter().any(RunningRequest::is_reading) {
            return;
        }
        if let Some(request) = self.running.iter_mut().find(|request| request.has_pending_read()) {
            request.poll_wait(context);
            request.count(&mut self.bytes);
            // A wait that ends at once counts as a turn, too.
            self.is_turn_over |= !request.is_reading();
        }
    }

    /// Returns the index of the handler that runs next. Handlers run in turns, so that no handler waits for
    /// another handler that never ends. A handler with an unsafe method has to be the first of the queue.
    fn next_to_run(&mut self, worker: &Worker) -> Option<usize> {
        let count = self.running.len();
        let from = self.next_index.min(count);
        let is_its_turn = self.is_its_turn();
        // A script that has not begun waits until the client has taken the replies of this queue.
        let may_begin = self.answered.is_empty();
        let is_in_turn = |request: &RunningRequest| {
            !request.waits_in_script_queue() || (is_its_turn && (may_begin || !request.has_to_begin()))
        };
        let may_run = |index: &usize| {
            let request = &self.running[*index];
            request.can_run()
                && (*index == 0 || request.is_safe())
                && is_in_turn(request)
                && self.may_go_on(*index, worker)
        };
        let index = (from..count).chain(0..from).find(may_run)?;
        self.next_index = index + 1;
        Some(index)
    }

    /// Answers the first requests whose handlers have returned. Requests without a handler are answered while
    /// memory for their replies is available.
    fn settle(&mut self, worker: &Worker) {
        while let Some(first) = self.running.front() {
            if first.is_at_once() {
                if !self.may_go_on(0, worker) {
                    return;
                }
                if worker.capacity.is_full() && first.is_untouched() {
                    self.running[0].refuse(worker);
                }
            }
            if !self.answer_first(&worker.recorder) {
                return;
            }
        }
    }
}

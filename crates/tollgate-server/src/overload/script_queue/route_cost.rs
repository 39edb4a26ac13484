//! Measures the run time of the scripts of a route, and decides whether they enter the script queue.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_script::thread_time;

use super::{QueuePlace, ScriptQueue};

/// Number of short scripts between two timed scripts. Not every script is timed, because two readings of the
/// thread's clock cost a microsecond. A cycle of 17 coincides with no other short cycle.
const UNTIMED: u32 = 16;
/// Maximum number of timed scripts in the average. With fewer scripts, a single delayed script would make all
/// scripts of the route count as long.
const KNOWN_MAX: u32 = 64;

pub(crate) struct RouteCost {
    script_queue: Rc<ScriptQueue>,
    /// Number of scripts of the route that wait in the script queue.
    waiting: Cell<usize>,
    /// Processor time of a script up to its end, a wait, or the end of its slice. The value is the mean of
    /// the first scripts, and a moving average later. Wall time would make a short script look long if the
    /// system ran other threads at the same time.
    stretch: Cell<Duration>,
    /// Number of scripts in the mean.
    known: Cell<u32>,
    /// Number of scripts before the next timed script.
    untimed: Cell<u32>,
}

/// A script that waits in the script queue. The script is counted for its current route until this value is
/// dropped. The script has a separate place, or shares the place of its connection.
pub(crate) struct WaitingScript {
    pub(super) route_cost: Rc<RouteCost>,
}

impl ScriptQueue {
    /// Creates the cost of one more route.
    pub(crate) fn route_cost(self: &Rc<Self>) -> Rc<RouteCost> {
        Rc::new(RouteCost::new(self))
    }
}

impl RouteCost {
    fn new(script_queue: &Rc<ScriptQueue>) -> Self {
        Self {
            script_queue: script_queue.clone(),
            waiting: Cell::new(0),
            stretch: Cell::default(),
            known: Cell::new(0),
            untimed: Cell::new(0),
        }
    }

    /// Returns whether a request is refused at `now`.
    #[inline]
    pub(crate) fn refuses(&self, now: Instant) -> bool {
        self.waiting.get() > 0 && self.is_long() && self.script_queue.refuses(now)
    }

    /// Returns whether a script has to wait in the script queue before it begins. A script has to wait if the
    /// scripts of the route are long, and other scripts wait or have used up the turn.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.is_long() && (self.script_queue.len() > 0 || self.script_queue.is_turn_used_up())
    }

    /// Counts one more waiting script of the route.
    pub(crate) fn begin_waiting(self: &Rc<Self>) -> WaitingScript {
        self.waiting.set(self.waiting.get() + 1);
        WaitingScript { route_cost: self.clone() }
    }

    /// Records that a script begins or continues. Returns the processor time of the thread if the script is
    /// timed.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Duration> {
        let untimed = self.untimed.get();
        if untimed > 0 && !self.is_long() {
            self.untimed.set(untimed - 1);
            return None;
        }
        self.untimed.set(UNTIMED);
        Some(thread_time())
    }

    /// Records that a script stopped by itself, or was suspended at the end of its slice.
    #[inline]
    pub(crate) fn end(&self, begun: Option<Duration>, was_sliced: bool) {
        match begun {
            Some(begun) => self.learn(thread_time().saturating_sub(begun)),
            // The slice ended by wall time, a part of which other threads may have used. The length of the
            // script is therefore unknown, and the next script is timed.
            None if was_sliced => {
                self.untimed.set(0);
                self.count(self.script_queue.slice);
            }
            None => self.count(self.stretch.get()),
        }
    }

    /// Adds a measured run time. After a long script the next script is timed, too.
    pub(super) fn learn(&self, ran: Duration) {
        self.count(ran);
        let was_long = self.is_long();
        let known = (self.known.get() + 1).min(KNOWN_MAX);
        self.known.set(known);
        let stretch = self.stretch.get();
        self.stretch.set(stretch - stretch / known + ran / known);
        if self.script_queue.is_long(ran) {
            self.untimed.set(0);
        }
        if was_long && !self.is_long() {
            self.script_queue.wake_all();
        }
    }

    fn count(&self, ran: Duration) {
        self.script_queue.ran.set(self.script_queue.ran.get() + ran);
    }

    /// Returns the total run time of the scripts of the worker.
    #[inline]
    pub(crate) fn ran(&self) -> Duration {
        self.script_queue.ran.get()
    }

    fn is_long(&self) -> bool {
        self.script_queue.is_long(self.stretch.get())
    }
}

impl WaitingScript {
    /// Adds a place at the back of the script queue.
    pub(crate) fn enter(&self) -> QueuePlace {
        self.route_cost.script_queue.enter()
    }

    /// Returns whether a waiting script may begin now, because the scripts of its route are short again.
    pub(crate) fn may_begin(&self) -> bool {
        !self.route_cost.is_long()
    }

    /// Adds the run time of a finished script to the average of the queue. At most one round counts, because
    /// no script waits longer than that for another.
    pub(crate) fn learn(&self, ran: Duration) {
        self.route_cost.script_queue.learn(ran);
    }
}

impl Drop for WaitingScript {
    fn drop(&mut self) {
        self.route_cost.waiting.set(self.route_cost.waiting.get() - 1);
    }
}

#[cfg(test)]
mod tests;

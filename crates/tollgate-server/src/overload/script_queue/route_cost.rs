//! Where the scripts of a route enter the script queue, and what is known of them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_script::thread_time;

use super::{QueuePlace, ScriptQueue};

/// Of scripts that are not long each seventeenth is timed: to read this clock twice takes a microsecond, as
/// each is a system call. No other short cycle has that length.
const UNTIMED: u32 = 16;
/// So many that were timed are what is known of a route. With fewer one that was held up would have all be
/// long.
const KNOWN_MAX: u32 = 64;

pub(crate) struct RouteCost {
    script_queue: Rc<ScriptQueue>,
    /// How many there are.
    waiting: Cell<usize>,
    /// The processor time of a script up to its end, a wait, or the end of its slice: the mean of the first
    /// ones, then a moving average. By the clock of the wall a short one would be long where the system had
    /// others run meanwhile.
    stretch: Cell<Duration>,
    /// Of how many that is the mean.
    known: Cell<u32>,
    /// How many are not timed before the next one is.
    untimed: Cell<u32>,
}

/// A script that waits for its turn in the script queue, counted for the route that it is of now, whether it
/// has a place of its own or shares that of its connection. Dropping it ends that.
pub(crate) struct WaitingScript {
    pub(super) route_cost: Rc<RouteCost>,
}

impl ScriptQueue {
    /// An entrance for one more route.
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

    /// Whether a request of this moment is refused.
    #[inline]
    pub(crate) fn refuses(&self, now: Instant) -> bool {
        self.waiting.get() > 0 && self.is_long() && self.script_queue.refuses(now)
    }

    /// Whether a script waits in the script queue before it begins: those of the route are long, and others
    /// are before it, or had the turn.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.is_long() && (self.script_queue.len() > 0 || self.script_queue.is_turn_used_up())
    }

    /// One more script of the route waits for its turn.
    pub(crate) fn begin_waiting(self: &Rc<Self>) -> WaitingScript {
        self.waiting.set(self.waiting.get() + 1);
        WaitingScript { route_cost: self.clone() }
    }

    /// A script of the route begins to run, or to run on. Some: the processor time of the thread.
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

    /// It has stopped, or was stopped at the end of its slice.
    #[inline]
    pub(crate) fn end(&self, begun: Option<Duration>, was_sliced: bool) {
        match begun {
            Some(begun) => self.learn(thread_time().saturating_sub(begun)),
            // Its slice is over by the clock of the wall: another thread may have had that time, so it tells
            // nothing but to look at the next one.
            None if was_sliced => {
                self.untimed.set(0);
                self.count(self.script_queue.slice);
            }
            None => self.count(self.stretch.get()),
        }
    }

    /// One ran for as long. Behind a long one the next is timed too.
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

    /// How long scripts of the worker ran, altogether.
    #[inline]
    pub(crate) fn ran(&self) -> Duration {
        self.script_queue.ran.get()
    }

    fn is_long(&self) -> bool {
        self.script_queue.is_long(self.stretch.get())
    }
}

impl WaitingScript {
    /// Takes the last place in the script queue.
    pub(crate) fn enter(&self) -> QueuePlace {
        self.route_cost.script_queue.enter()
    }

    /// Whether those who have not begun need not wait any more: scripts of the route are not long after all.
    pub(crate) fn may_begin(&self) -> bool {
        !self.route_cost.is_long()
    }

    /// The script is done, after so long: nobody waits for more of it than it runs in a round.
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

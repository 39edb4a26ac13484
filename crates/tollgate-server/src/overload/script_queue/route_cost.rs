//! Where the scripts of a route enter the lane, and what is known of them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_script::thread_time;

use super::{Lane, Ticket};

/// Of scripts that are not long each seventeenth is timed: to read this clock twice takes a microsecond, as each is a system call.
/// No other short cycle has that length.
const UNTIMED: u32 = 16;
/// So many that were timed are what is known of a route. With fewer one that was held up would have all be long.
const KNOWN_MAX: u32 = 64;

pub(crate) struct Door {
    lane: Rc<Lane>,
    /// How many there are.
    guests: Cell<usize>,
    /// The processor time of a script up to its end, a wait, or the end of its slice: the mean of the first ones, then a moving
    /// average. By the clock of the wall a short one would be long where the system had others run meanwhile.
    stretch: Cell<Duration>,
    /// Of how many that is the mean.
    known: Cell<u32>,
    /// How many are not timed before the next one is.
    untimed: Cell<u32>,
}

/// A script that waits for its turn in the lane, counted for the route that it is of now, whether it has a place of its own or
/// shares that of its connection. Dropping it ends that.
pub(crate) struct Guest {
    pub(super) door: Rc<Door>,
}

impl Lane {
    /// An entrance for one more route.
    pub(crate) fn door(self: &Rc<Self>) -> Rc<Door> {
        Rc::new(Door::new(self))
    }
}

impl Door {
    fn new(lane: &Rc<Lane>) -> Self {
        Self {
            lane: lane.clone(),
            guests: Cell::new(0),
            stretch: Cell::default(),
            known: Cell::new(0),
            untimed: Cell::new(0),
        }
    }

    /// Whether a request of this moment is refused.
    #[inline]
    pub(crate) fn refuses(&self, now: Instant) -> bool {
        self.guests.get() > 0 && self.is_long() && self.lane.refuses(now)
    }

    /// Whether a script waits in the lane before it begins: those of the route are long, and others are before it, or had the
    /// turn.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.is_long() && (self.lane.len() > 0 || self.lane.is_turn_used_up())
    }

    /// One more script of the route waits for its turn.
    pub(crate) fn welcome(self: &Rc<Self>) -> Guest {
        self.guests.set(self.guests.get() + 1);
        Guest { door: self.clone() }
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
            // Its slice is over by the clock of the wall: another thread may have had that time, so it tells nothing but to
            // look at the next one.
            None if was_sliced => {
                self.untimed.set(0);
                self.count(self.lane.slice);
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
        if self.lane.is_long(ran) {
            self.untimed.set(0);
        }
        if was_long && !self.is_long() {
            self.lane.wake_all();
        }
    }

    fn count(&self, ran: Duration) {
        self.lane.ran.set(self.lane.ran.get() + ran);
    }

    /// How long scripts of the worker ran, altogether.
    #[inline]
    pub(crate) fn ran(&self) -> Duration {
        self.lane.ran.get()
    }

    fn is_long(&self) -> bool {
        self.lane.is_long(self.stretch.get())
    }
}

impl Guest {
    /// Takes the last place in the lane.
    pub(crate) fn enter(&self) -> Ticket {
        self.door.lane.enter()
    }

    /// Whether those who have not begun need not wait any more: scripts of the route are not long after all.
    pub(crate) fn lets_in(&self) -> bool {
        !self.door.is_long()
    }

    /// The script is done, after so long: nobody waits for more of it than it runs in a round.
    pub(crate) fn learn(&self, ran: Duration) {
        self.door.lane.learn(ran);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.door.guests.set(self.door.guests.get() - 1);
    }
}

#[cfg(test)]
mod tests;

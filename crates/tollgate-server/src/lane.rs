//! The lane of a worker: scripts that were not done within their first slice wait here for the next ones, first in, first
//! out, so that one is done when those before it are. In turns all would take as long as all of them together.
//!
//! Only who is first runs, a slice at a time: between two of them others have their turn. After [`ROUND_SLICES`] it goes to
//! the back, so that a script with a large budget does not stop those behind it. Who waits for anything else leaves.
//!
//! A lane that is long is no harm as long as it gets shorter again, and then nobody is refused. Once those at its end would
//! wait for a quarter of `queue_age_max` it does not: more comes than is done, and whatever may wait waits for nothing. From
//! then on it is kept short, until for as long nobody had to be refused, or for a minute (256 times as long). As many are done a
//! second as before.
//!
//! Refused are requests for routes that have a script in the lane: others do not wait here.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::seldom::{News, Spell};

/// How many slices the first runs before the others are.
const ROUND_SLICES: u32 = 8;
/// So many in a lane are never too many: with fewer a worker would have nothing to do between two of them.
const SHORT_LEN: usize = 2;
/// After so many patiences (a quarter of `queue_age_max` each) a short lane is tried anew, a minute by default: clients that
/// come again as soon as they are refused could keep it short for ever, though it had room for all of them. Fewer than one in a
/// hundred wait long for that.
const SHORT_PATIENCES: u32 = 256;
/// How often the log hears of it.
const LINE_PAUSE: Duration = Duration::from_secs(10);
/// The share of the last one in what is known of all.
const LAST: f64 = 1.0 / 8.0;

pub(crate) struct Lane {
    /// About what a slice takes.
    slice: Duration,
    age_max: Cell<Duration>,
    /// By number.
    places: RefCell<VecDeque<Place>>,
    next_number: Cell<u64>,
    /// What the last scripts took, in slices: a moving average.
    slices: Cell<f64>,
    state: Cell<State>,
    refusals: Spell,
}

#[derive(Clone, Copy)]
enum State {
    /// What comes is taken.
    Open,
    /// It is kept short.
    Short { since: Instant, refused_at: Instant },
}

struct Place {
    number: u64,
    since: Instant,
    /// Of whoever waits to be first.
    waker: Option<Waker>,
}

/// Where the scripts of one route enter the lane of their worker.
pub(crate) struct Door {
    lane: Rc<Lane>,
    /// How many there are.
    guests: Cell<usize>,
}

/// A script that goes on after its slice, counted for the route that it is of now, whether it has a place of its own or shares
/// that of its connection. Dropping it ends that.
pub(crate) struct Guest {
    door: Rc<Door>,
}

/// A place in the lane. Dropping it leaves the lane.
pub(crate) struct Ticket {
    lane: Rc<Lane>,
    number: u64,
    /// Slices that it may run before others are first.
    left: u32,
}

impl Lane {
    pub(crate) fn new(slice: Duration, age_max: Duration) -> Self {
        Self {
            slice,
            age_max: Cell::new(age_max),
            places: RefCell::default(),
            next_number: Cell::new(0),
            slices: Cell::new(2.0),
            state: Cell::new(State::Open),
            refusals: Spell::new(LINE_PAUSE),
        }
    }

    /// From now on requests may wait as long as this.
    pub(crate) fn set_age_max(&self, age_max: Duration) {
        self.age_max.set(age_max);
    }

    /// An entrance for one more route.
    pub(crate) fn door(self: &Rc<Self>) -> Rc<Door> {
        Rc::new(Door { lane: self.clone(), guests: Cell::new(0) })
    }

    pub(crate) fn len(&self) -> usize {
        self.places.borrow().len()
    }

    /// How long the first has been in it.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        self.places
            .borrow()
            .front()
            .map_or(Duration::ZERO, |first| now.saturating_duration_since(first.since))
    }

    /// Looks whether those who come may wait again.
    pub(crate) fn relax(&self, now: Instant) {
        let State::Short { since, refused_at } = self.state.get() else { return };
        let is_calm = now.saturating_duration_since(refused_at) >= self.patience();
        if is_calm || now.saturating_duration_since(since) >= self.patience() * SHORT_PATIENCES {
            self.state.set(State::Open);
        }
    }

    /// Tells the log whether requests are refused: now and then, however many they are.
    pub(crate) fn tell(&self, now: Instant, worker: usize) {
        let (waiting, wait_ms) = (self.len(), self.wait(now).as_millis() as u64);
        match self.refusals.news(now) {
            Some(News::Happened(refused)) => tracing::warn!(
                worker,
                refused,
                waiting,
                wait_ms,
                "more scripts come than the worker can run: requests are refused"
            ),
            Some(News::Over) => tracing::info!(
                worker,
                waiting,
                wait_ms,
                "scripts wait for each other no longer than they may: no request is refused for that"
            ),
            None => {}
        }
    }

    /// How long one may wait before it is certain that those who come are too many.
    fn patience(&self) -> Duration {
        self.age_max.get() / 4
    }

    /// How long one that comes now will wait, as far as is known.
    fn wait(&self, now: Instant) -> Duration {
        let slices = self.len() as f64 * self.slices.get();
        self.slice.mul_f64(slices).max(self.age(now))
    }

    fn refuses(&self, now: Instant) -> bool {
        if self.len() < SHORT_LEN {
            return false;
        }
        let since = match self.state.get() {
            State::Short { since, .. } => since,
            State::Open => {
                if self.wait(now) < self.patience() {
                    return false;
                }
                now
            }
        };
        self.state.set(State::Short { since, refused_at: now });
        self.refusals.note();
        true
    }

    /// Takes the last place.
    pub(crate) fn enter(self: &Rc<Self>) -> Ticket {
        Ticket { lane: self.clone(), number: self.add(), left: ROUND_SLICES }
    }

    /// Adds a place at the back.
    fn add(&self) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        self.places.borrow_mut().push_back(Place { number, since: Instant::now(), waker: None });
        number
    }

    fn is_first(&self, number: u64) -> bool {
        self.places.borrow().front().is_some_and(|first| first.number == number)
    }

    fn watch(&self, number: u64, waker: &Waker) {
        let mut places = self.places.borrow_mut();
        let place = find(&places, number).and_then(|at| places.get_mut(at));
        let Some(place) = place.filter(|place| !place.waker.as_ref().is_some_and(|own| own.will_wake(waker)))
        else {
            return;
        };
        let replaced = place.waker.replace(waker.clone());
        // What a waker drops may leave the lane.
        drop(places);
        drop(replaced);
    }

    fn learn(&self, slices: u32) {
        let (known, last) = (self.slices.get(), f64::from(slices.min(ROUND_SLICES)));
        self.slices.set(known + (last - known) * LAST);
    }

    /// Removes a place; who is first by that is woken.
    fn leave(&self, number: u64) {
        let mut places = self.places.borrow_mut();
        let Some(at) = find(&places, number) else { return };
        let left = places.remove(at);
        let next = if at == 0 { places.front_mut().and_then(|first| first.waker.take()) } else { None };
        drop(places);
        drop(left);
        if let Some(next) = next {
            next.wake();
        }
    }
}

fn find(places: &VecDeque<Place>, number: u64) -> Option<usize> {
    places.binary_search_by_key(&number, |place| place.number).ok()
}

impl Door {
    /// Whether a request of this moment is refused.
    #[inline]
    pub(crate) fn refuses(&self, now: Instant) -> bool {
        self.guests.get() > 0 && self.lane.refuses(now)
    }

    /// One more script of the route goes on after its slice.
    pub(crate) fn welcome(self: &Rc<Self>) -> Guest {
        self.guests.set(self.guests.get() + 1);
        Guest { door: self.clone() }
    }
}

impl Guest {
    /// Takes the last place in the lane.
    pub(crate) fn enter(&self) -> Ticket {
        self.door.lane.enter()
    }

    /// The script is done, after so many slices: nobody waits for more of them than it runs in a round.
    pub(crate) fn learn(&self, slices: u32) {
        self.door.lane.learn(slices);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.door.guests.set(self.door.guests.get() - 1);
    }
}

impl Ticket {
    pub(crate) fn is_first(&self) -> bool {
        self.lane.is_first(self.number)
    }

    /// Has whoever waits woken when it is first.
    pub(crate) fn watch(&self, waker: &Waker) {
        self.lane.watch(self.number, waker);
    }

    /// It ran a slice. After several it is the last again.
    pub(crate) fn spend(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            let number = self.lane.add();
            self.lane.leave(std::mem::replace(&mut self.number, number));
            self.left = ROUND_SLICES;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.lane.leave(self.number);
    }
}

#[cfg(test)]
mod tests;

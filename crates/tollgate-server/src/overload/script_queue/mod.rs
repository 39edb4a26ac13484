//! The script queue of a worker: scripts that were not done within their first slice wait here for the next
//! ones, first in, first out, so that one is done when those before it are. In turns all would take as long
//! as all of them together.
//!
//! Where the scripts of a route are known to be long, they wait here for their first slice too, if others are
//! before them or a slice of scripts ran in this turn: a crowd of them would have a turn of as many slices,
//! and all that is short waits for turns.
//!
//! Only who is first runs, and scripts run a slice in a turn: then others have theirs. After [`ROUND_SLICES`]
//! it goes to the back, so that a script with a large budget does not stop those behind it. Who waits for
//! anything else leaves.
//!
//! A script queue that is long is no harm as long as it gets shorter again, and then nobody is refused. Once
//! those at its end would wait for a quarter of `queue_age_max` it does not: more comes than is done, and
//! whatever may wait waits for nothing. From then on it is kept short, until for as long nobody had to be
//! refused, or for a minute (256 times as long). As many are done a second as before.
//!
//! Refused are requests for routes whose scripts are long and that have one in the script queue: others do
//! not wait here.

mod route_cost;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use tollgate_meter::{Episode, EpisodeNews};

pub(crate) use self::route_cost::{RouteCost, WaitingScript};

/// How many slices the first runs before the others are.
const ROUND_SLICES: u32 = 8;
/// So many in a script queue are never too many: with fewer a worker would have nothing to do between two of
/// them.
const SHORT_LEN: usize = 2;
/// As little is a wait of so many slices, however many have them together.
const SHORT_SLICES: u32 = 2;
/// After so many patiences (a quarter of `queue_age_max` each) a short script queue is tried anew, a minute
/// by default: clients that come again as soon as they are refused could keep it short for ever, though it
/// had room for all of them. Fewer than one in a hundred wait long for that.
const SHORT_PATIENCES: u32 = 256;
/// How often the log hears of it.
const LINE_PAUSE: Duration = Duration::from_secs(10);
/// Scripts that take this part of a slice are long.
const LONG_DIVISOR: u32 = 16;
/// So many are woken together at most.
const BATCH_MAX: u32 = 64;
/// The share of the last one in what is known of all.
const LAST_DIVISOR: u32 = 8;

pub(crate) struct ScriptQueue {
    /// About what a slice takes.
    slice: Duration,
    /// How long scripts of the worker ran, altogether.
    ran: Cell<Duration>,
    /// What that was when the turn began.
    ran_before: Cell<Duration>,
    age_max: Cell<Duration>,
    /// By number.
    places: RefCell<VecDeque<Waiter>>,
    next_number: Cell<u64>,
    /// What the last scripts took: a moving average. It begins with nothing, for a guess would refuse a crowd
    /// that comes to a new server.
    script: Cell<Duration>,
    state: Cell<State>,
    refusals: Episode,
}

#[derive(Clone, Copy)]
enum State {
    /// What comes is taken.
    Open,
    /// It is kept short.
    Short { since: Instant, refused_at: Instant },
}

struct Waiter {
    number: u64,
    since: Instant,
    /// Of whoever waits to be first.
    waker: Option<Waker>,
}

/// A place in the script queue. Dropping it leaves the script queue.
pub(crate) struct QueuePlace {
    script_queue: Rc<ScriptQueue>,
    number: u64,
    /// Slices that it may run before others are first.
    left: u32,
    /// Others that are ready have their turn before it is asked again.
    gave_turn: bool,
}

impl ScriptQueue {
    pub(crate) fn new(slice: Duration, age_max: Duration) -> Self {
        Self {
            slice,
            ran: Cell::default(),
            ran_before: Cell::default(),
            age_max: Cell::new(age_max),
            places: RefCell::default(),
            next_number: Cell::new(0),
            script: Cell::default(),
            state: Cell::new(State::Open),
            refusals: Episode::new(LINE_PAUSE),
        }
    }

    /// From now on requests may wait as long as this.
    pub(crate) fn set_age_max(&self, age_max: Duration) {
        self.age_max.set(age_max);
    }

    pub(crate) fn len(&self) -> usize {
        self.places.borrow().len()
    }

    /// Whether a script that took so long is one that others should not wait for.
    fn is_long(&self, script: Duration) -> bool {
        script >= self.slice / LONG_DIVISOR
    }

    /// Whether scripts had a slice of this turn, whoever of them.
    fn is_turn_used_up(&self) -> bool {
        self.ran.get() - self.ran_before.get() >= self.slice
    }

    fn begin_turn(&self) {
        self.ran_before.set(self.ran.get());
    }

    /// How long the first has been in it.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        self.places
            .borrow()
            .front()
            .map_or(Duration::ZERO, |first| now.saturating_duration_since(first.since))
    }

    /// Whether those who come are refused where it is no longer short.
    pub(crate) fn is_kept_short(&self) -> bool {
        matches!(self.state.get(), State::Short { .. })
    }

    /// Looks whether those who come may wait again.
    pub(crate) fn relax(&self, now: Instant) {
        let State::Short { since, refused_at } = self.state.get() else { return };
        let is_calm = now.saturating_duration_since(refused_at) >= self.patience();
        if is_calm || now.saturating_duration_since(since) >= self.patience() * SHORT_PATIENCES {
            self.state.set(State::Open);
        }
    }

    /// Writes to the log whether requests are refused: now and then, however many they are.
    pub(crate) fn log_refusals(&self, now: Instant, worker: usize) {
        let (waiting, wait_ms) = (self.len(), self.wait(now).as_millis() as u64);
        match self.refusals.news(now) {
            Some(EpisodeNews::Happened(refused)) => tracing::warn!(
                worker,
                refused,
                waiting,
                wait_ms,
                "more scripts come than the worker can run: requests are refused"
            ),
            Some(EpisodeNews::Over) => tracing::info!(
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
        let places = u32::try_from(self.len()).unwrap_or(u32::MAX);
        self.script.get().saturating_mul(places).max(self.age(now))
    }

    fn refuses(&self, now: Instant) -> bool {
        let wait = self.wait(now);
        if self.len() < SHORT_LEN || wait < self.slice * SHORT_SLICES {
            return false;
        }
        let since = match self.state.get() {
            State::Short { since, .. } => since,
            State::Open => {
                if wait < self.patience() {
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
    pub(crate) fn enter(self: &Rc<Self>) -> QueuePlace {
        QueuePlace { script_queue: self.clone(), number: self.add(), left: ROUND_SLICES, gave_turn: false }
    }

    /// Adds a place at the back.
    fn add(&self) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        self.places.borrow_mut().push_back(Waiter { number, since: Instant::now(), waker: None });
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
        // What a waker drops may leave the script queue.
        drop(places);
        drop(replaced);
    }

    fn learn(&self, ran: Duration) {
        let (known, last) = (self.script.get(), ran.min(self.slice * ROUND_SLICES));
        self.script.set(known - known / LAST_DIVISOR + last / LAST_DIVISOR);
    }

    /// Removes a place. Who is first by that is woken, with as many behind as one slice may be enough for:
    /// each that had to wake the next would let all who are ready go before.
    fn leave(&self, number: u64) {
        let mut places = self.places.borrow_mut();
        let Some(at) = find(&places, number) else { return };
        let left = places.remove(at);
        let is_next_asleep = at == 0 && places.front().is_some_and(|first| first.waker.is_some());
        drop(places);
        drop(left);
        if is_next_asleep {
            self.wake_first(self.scripts_of_slice());
        }
    }

    /// About how many scripts are done within a slice.
    fn scripts_of_slice(&self) -> usize {
        let script = self.script.get().max(self.slice / BATCH_MAX);
        (self.slice.as_nanos() / script.as_nanos().max(1)).max(1) as usize
    }

    fn wake_first(&self, count: usize) {
        for at in 0..count.min(self.len()) {
            let waker = self.places.borrow_mut().get_mut(at).and_then(|place| place.waker.take());
            // What a waker drops may leave the script queue.
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn wake_all(&self) {
        self.wake_first(usize::MAX);
    }
}

fn find(places: &VecDeque<Waiter>, number: u64) -> Option<usize> {
    places.binary_search_by_key(&number, |place| place.number).ok()
}

impl QueuePlace {
    pub(crate) fn is_first(&self) -> bool {
        self.script_queue.is_first(self.number)
    }

    /// Whether it runs now: those before it are done, and scripts did not have all that they may of this
    /// turn.
    pub(crate) fn may_run(&mut self) -> bool {
        if !self.is_first() || (self.script_queue.is_turn_used_up() && !self.gave_turn) {
            return false;
        }
        if std::mem::take(&mut self.gave_turn) {
            self.script_queue.begin_turn();
        }
        true
    }

    /// Whoever has it is polled when all others that are ready had their turn.
    pub(crate) fn give_turn(&mut self) {
        self.gave_turn = true;
    }

    /// Has whoever waits woken when it is first.
    pub(crate) fn watch(&self, waker: &Waker) {
        self.script_queue.watch(self.number, waker);
    }

    /// It ran a slice, and gives others their turn. After several it is the last again.
    pub(crate) fn spend(&mut self) {
        self.give_turn();
        self.left -= 1;
        if self.left == 0 {
            let number = self.script_queue.add();
            self.script_queue.leave(std::mem::replace(&mut self.number, number));
            self.left = ROUND_SLICES;
        }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.script_queue.leave(self.number);
    }
}

#[cfg(test)]
mod tests;

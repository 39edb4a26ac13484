//! The script queue of a worker. A script that needs more than one slice waits here for further slices, first
//! in, first out. If scripts alternated after each slice, all of them would end late, at nearly the same
//! time.
//!
//! If the scripts of a route are known to be long, they also wait here before their first slice. Such scripts
//! wait if other scripts wait, or if scripts have already used a slice in this turn. Without this rule, many
//! long scripts would make one turn as long as many slices, and every short request waits for a turn.
//!
//! Only the first script runs, and scripts run one slice in a turn. After [`ROUND_SLICES`] slices a script
//! moves to the back, so that a long script does not stop the others. A script that begins to wait for an
//! operation leaves the queue.
//!
//! A long queue that becomes shorter by itself refuses no request. If a new script would wait for a quarter
//! of `queue_age_max`, more scripts arrive than the worker can run. The queue is then kept short by refusals,
//! because a longer wait helps no request. The worker still runs the same number of scripts per second.
//!
//! This state ends when no request was refused for a quarter of `queue_age_max`. The state ends in any case
//! after 256 times that period, which is a minute by default.
//!
//! Only requests for routes with long scripts are refused, and only if the route has a script in the queue.
//! Scripts of all other routes do not wait here.

mod route_cost;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use tollgate_meter::{Episode, EpisodeNews};

pub(crate) use self::route_cost::{RouteCost, WaitingScript};

/// Number of slices that the first script runs before it moves to the back.
const ROUND_SLICES: u32 = 8;
/// Minimum length of a queue that refuses requests. In a shorter queue, the worker would be idle between two
/// scripts.
const SHORT_LEN: usize = 2;
/// Minimum wait at which requests are refused, in slices.
const SHORT_SLICES: u32 = 2;
/// Maximum time for which a queue is kept short, in units of a quarter of `queue_age_max`. By default it is a
/// minute. Without a maximum, clients that retry at once could keep this state forever, even if the worker
/// could run all of their scripts. The maximum makes fewer than one request in a hundred wait long.
const SHORT_PATIENCES: u32 = 256;
/// Minimum time between two log lines.
const LINE_PAUSE: Duration = Duration::from_secs(10);
/// Divisor of a slice. A script that runs for this part of a slice is long.
const LONG_DIVISOR: u32 = 16;
/// Maximum number of scripts that are woken together.
const BATCH_MAX: u32 = 64;
/// Divisor for the moving average: the last script has the weight 1 / `LAST_DIVISOR`.
const LAST_DIVISOR: u32 = 8;

pub(crate) struct ScriptQueue {
    /// Approximate length of a slice.
    slice: Duration,
    /// Total run time of the scripts of the worker.
    ran: Cell<Duration>,
    /// The value of `ran` when the turn began.
    ran_before: Cell<Duration>,
    age_max: Cell<Duration>,
    /// Places, sorted by number.
    places: RefCell<VecDeque<Waiter>>,
    next_number: Cell<u64>,
    /// Moving average of the run time of scripts. The average begins at zero, because a guess would refuse
    /// many requests of a new server.
    script: Cell<Duration>,
    state: Cell<State>,
    refusals: Episode,
}

#[derive(Clone, Copy)]
enum State {
    /// All requests are admitted.
    Open,
    /// The queue is kept short.
    Short { since: Instant, refused_at: Instant },
}

struct Waiter {
    number: u64,
    since: Instant,
    /// Waker of a script that waits to be the first.
    waker: Option<Waker>,
}

/// A place in the script queue. Dropping this value gives up the place.
pub(crate) struct QueuePlace {
    script_queue: Rc<ScriptQueue>,
    number: u64,
    /// Number of slices left before the place moves to the back.
    left: u32,
    /// Whether other ready tasks have their turn before this place runs again.
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

    /// Sets the maximum time that requests wait.
    pub(crate) fn set_age_max(&self, age_max: Duration) {
        self.age_max.set(age_max);
    }

    pub(crate) fn len(&self) -> usize {
        self.places.borrow().len()
    }

    /// Returns whether a script with this run time is long, so that other scripts should not wait for it.
    fn is_long(&self, script: Duration) -> bool {
        script >= self.slice / LONG_DIVISOR
    }

    /// Returns whether scripts have used up the slice of this turn.
    fn is_turn_used_up(&self) -> bool {
        self.ran.get() - self.ran_before.get() >= self.slice
    }

    fn begin_turn(&self) {
        self.ran_before.set(self.ran.get());
    }

    /// Returns the time that the first script has been in the queue.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        self.places
            .borrow()
            .front()
            .map_or(Duration::ZERO, |first| now.saturating_duration_since(first.since))
    }

    /// Returns whether the queue is being kept short by refusals.
    pub(crate) fn is_kept_short(&self) -> bool {
        matches!(self.state.get(), State::Short { .. })
    }

    /// Ends the state in which the queue is kept short, if its time is over.
    pub(crate) fn relax(&self, now: Instant) {
        let State::Short { since, refused_at } = self.state.get() else { return };
        let is_calm = now.saturating_duration_since(refused_at) >= self.patience();
        if is_calm || now.saturating_duration_since(since) >= self.patience() * SHORT_PATIENCES {
            self.state.set(State::Open);
        }
    }

    /// Logs whether requests are refused, at most once in [`LINE_PAUSE`].
    pub(crate) fn log_refusals(&self, now: Instant, worker: usize) {
        let (waiting, wait_ms) = (self.len(), self.wait(now).as_millis() as u64);
        match self.refusals.news(now) {
            Some(EpisodeNews::Happened(refused)) => tracing::warn!(
                worker,
                refused,
                waiting,
                wait_ms,
                "more scripts arrive than the worker can run: it refuses requests"
            ),
            Some(EpisodeNews::Over) => tracing::info!(
                worker,
                waiting,
                wait_ms,
                "waiting scripts run in time again: the worker refuses no request for them"
            ),
            None => {}
        }
    }

    /// Returns the wait above which more scripts arrive than the worker can run.
    fn patience(&self) -> Duration {
        self.age_max.get() / 4
    }

    /// Returns the expected wait of a script that arrives now.
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

    /// Adds a place at the back of the queue.
    pub(crate) fn enter(self: &Rc<Self>) -> QueuePlace {
        QueuePlace { script_queue: self.clone(), number: self.add(), left: ROUND_SLICES, gave_turn: false }
    }

    /// Adds a place at the back, and returns its number.
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
        // Dropping a waker may remove another place from the script queue, so the borrow has to end first.
        drop(places);
        drop(replaced);
    }

    fn learn(&self, ran: Duration) {
        let (known, last) = (self.script.get(), ran.min(self.slice * ROUND_SLICES));
        self.script.set(known - known / LAST_DIVISOR + last / LAST_DIVISOR);
    }

    /// Removes a place. If the place was the first, the next scripts are woken together, up to the number
    /// that may end within one slice. If each script woke the next one, all ready tasks would run between two
    /// scripts.
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

    /// Returns the approximate number of scripts that finish within a slice.
    fn scripts_of_slice(&self) -> usize {
        let script = self.script.get().max(self.slice / BATCH_MAX);
        (self.slice.as_nanos() / script.as_nanos().max(1)).max(1) as usize
    }

    fn wake_first(&self, count: usize) {
        for at in 0..count.min(self.len()) {
            let waker = self.places.borrow_mut().get_mut(at).and_then(|place| place.waker.take());
            // The borrow has ended, because waking or dropping a waker may remove a place from the script
            // queue.
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

    /// Returns whether the script may run now: its place is the first, and scripts have not used up this
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

    /// Lets all other ready tasks run before this place is polled again.
    pub(crate) fn give_turn(&mut self) {
        self.gave_turn = true;
    }

    /// Registers the task to be woken when this place is the first.
    pub(crate) fn watch(&self, waker: &Waker) {
        self.script_queue.watch(self.number, waker);
    }

    /// Counts a slice, and gives other tasks their turn. After [`ROUND_SLICES`] slices the place moves to the
    /// back.
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

//! Deadlines of connections. Each connection has a cell with its deadline. One sweep per tick checks all
//! cells, which replaces a timer for each read.
//!
//! A deadline takes effect at most two ticks late, and never early.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::clock::{TICK, WorkerClock};

/// Time after the begin of a drain in which an idle connection may still send a request: one to two ticks.
/// The client may just be sending a request, or may have just received a reply. Each reply in this time says
/// that it is the last one.
const IDLE_GRACE: Duration = Duration::from_millis(TICK.as_millis() as u64 * 3 / 2);

/// Maximum time that a draining server waits for a peer that already has its last reply.
pub(crate) const LINGER_TIME_DRAINING: Duration = Duration::from_secs(1);

/// The current activity of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The connection is between two requests.
    Idle,
    /// The first byte of a PROXY header has not arrived.
    Silent,
    /// The TLS handshake has not ended. A drain ends it.
    Handshake,
    Head,
    Body,
    /// The handler runs, which has its own bounds.
    Handling,
    /// The connection sends a reply that has no end by itself. A drain ends the reply.
    Events,
    /// The connection pauses after a refused request. A drain ends the pause.
    Paused,
    Writing,
    Lingering,
}

/// The deadlines of the connections of one worker.
pub(crate) struct Deadlines {
    clock: Rc<WorkerClock>,
    cells: RefCell<Vec<Rc<Cells>>>,
    draining_since: Cell<Option<Instant>>,
    emptied: Notify,
}

/// The deadline of one connection. Dropping this value removes the deadline.
pub(crate) struct Slot {
    cells: Rc<Cells>,
    deadlines: Rc<Deadlines>,
}

struct Cells {
    place: Cell<usize>,
    phase: Cell<Phase>,
    due: Cell<Option<Instant>>,
    is_over: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Deadlines {
    pub(crate) fn new(clock: Rc<WorkerClock>) -> Self {
        Self { clock, cells: RefCell::default(), draining_since: Cell::new(None), emptied: Notify::new() }
    }

    pub(crate) fn enter(deadlines: &Rc<Self>) -> Slot {
        let mut all = deadlines.cells.borrow_mut();
        let cells = Rc::new(Cells {
            place: Cell::new(all.len()),
            phase: Cell::new(Phase::Idle),
            due: Cell::new(None),
            is_over: Cell::new(false),
            waker: RefCell::new(None),
        });
        all.push(cells.clone());
        Slot { cells, deadlines: deadlines.clone() }
    }

    /// Wakes the connections whose deadlines have passed. The deadlines of idle connections are moved forward
    /// by `hurry`.
    pub(crate) fn sweep(&self, hurry: Duration) {
        let now = self.clock.coarse();
        let drained = self.draining_since().map(|since| now - since);
        let is_due = |cells: &&Rc<Cells>| {
            let phase = cells.phase.get();
            let limit = if phase == Phase::Idle { now + hurry } else { now };
            let is_drained = match phase {
                Phase::Idle | Phase::Silent => drained >= Some(IDLE_GRACE),
                Phase::Events | Phase::Paused | Phase::Handshake => drained.is_some(),
                _ => false,
            };
            is_drained || cells.due.get().is_some_and(|due| due <= limit)
        };
        let due: Vec<_> = self.cells.borrow().iter().filter(is_due).cloned().collect();
        due.iter().for_each(|cells| cells.end());
    }

    /// Returns the number of connections.
    pub(crate) fn count(&self) -> usize {
        self.cells.borrow().len()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining_since().is_some()
    }

    pub(crate) fn draining_since(&self) -> Option<Instant> {
        self.draining_since.get()
    }

    /// Begins a drain. Connections close after their replies, idle connections after a grace period, and
    /// event streams end. Lingering connections have already sent their last reply, so they get a shorter
    /// deadline.
    pub(crate) fn drain(&self) {
        let now = self.clock.coarse();
        self.draining_since.set(Some(now));
        for cells in self.cells.borrow().iter().filter(|cells| cells.phase.get() == Phase::Lingering) {
            let due = cells.due.get().into_iter().chain([now + LINGER_TIME_DRAINING]).min();
            cells.due.set(due);
        }
        self.sweep(Duration::ZERO);
    }

    /// Waits until there are no connections.
    pub(crate) async fn emptied(&self) {
        while !self.cells.borrow().is_empty() {
            self.emptied.notified().await;
        }
    }
}

impl Slot {
    /// Enters a phase without a deadline.
    pub(crate) fn set(&self, phase: Phase) {
        self.cells.phase.set(phase);
        self.cells.due.set(None);
        self.cells.is_over.set(false);
    }

    /// Enters a phase with a deadline. If the connection is already in this phase, the deadline stays.
    pub(crate) fn arm(&self, phase: Phase, timeout: Duration) {
        let is_new = self.cells.phase.get() != phase;
        if is_new {
            self.cells.phase.set(phase);
            self.cells.is_over.set(false);
        }
        if is_new || (self.cells.due.get().is_none() && !self.is_over()) {
            self.extend(timeout);
        }
    }

    /// Enters another phase with the same deadline.
    pub(crate) fn pass_to(&self, phase: Phase) {
        self.cells.phase.set(phase);
    }

    /// Extends the deadline by the time that `bytes` need at `rate` bytes per second, but not beyond `most`.
    /// If `rate` is 0, the deadline becomes `most`.
    pub(crate) fn earn(&self, bytes: usize, rate: u64, most: Option<Instant>) {
        let nanoseconds = (bytes as u64).saturating_mul(1_000_000_000).checked_div(rate);
        let earned = self.cells.due.get().zip(nanoseconds);
        let due = earned.and_then(|(due, nanoseconds)| due.checked_add(Duration::from_nanos(nanoseconds)));
        self.cells.due.set(due.into_iter().chain(most).min());
    }

    /// Returns the instant `timeout` after `begun`.
    pub(crate) fn after(&self, begun: Instant, timeout: Duration) -> Option<Instant> {
        begun.checked_add(timeout + TICK)
    }

    /// Returns the latest instant that is `timeout` from now.
    pub(crate) fn within(&self, timeout: Duration) -> Option<Instant> {
        self.deadlines.clock.coarse().checked_add(timeout + TICK)
    }

    /// Restarts the deadline of a phase.
    fn extend(&self, timeout: Duration) {
        // `within` adds one tick, because the coarse clock is up to one tick late.
        self.cells.due.set(self.within(timeout));
    }

    /// Continues a phase whose deadline had passed.
    pub(crate) fn prolong(&self, time: Duration) {
        self.cells.is_over.set(false);
        self.extend(time);
    }

    /// Stops the deadline, and returns the remaining time.
    pub(crate) fn stop(&self) -> Option<Duration> {
        self.cells.due.take().map(|due| due.saturating_duration_since(self.deadlines.clock.coarse()))
    }

    /// Restarts the deadline with the remaining time.
    pub(crate) fn go_on(&self, left: Option<Duration>) {
        self.cells.due.set(left.and_then(|left| self.deadlines.clock.coarse().checked_add(left)));
    }

    /// Restarts the deadline as [`Self::extend`] does, but not beyond `most`.
    pub(crate) fn extend_until(&self, timeout: Duration, most: Instant) {
        self.cells.due.set(self.within(timeout).into_iter().chain([most]).min());
    }

    /// Returns the number of ticks of the clock.
    pub(crate) fn ticks(&self) -> u32 {
        self.deadlines.clock.ticks()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.cells.is_over.get()
    }

    /// Registers the waker of the task that is woken when the deadline passes.
    pub(crate) fn watch(&self, waker: &Waker) {
        let mut watched = self.cells.waker.borrow_mut();
        if !watched.as_ref().is_some_and(|watched| watched.will_wake(waker)) {
            *watched = Some(waker.clone());
        }
    }
}

impl Cells {
    fn end(&self) {
        self.due.set(None);
        self.is_over.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut all = self.deadlines.cells.borrow_mut();
        let place = self.cells.place.get();
        all.swap_remove(place);
        if let Some(moved) = all.get(place) {
            moved.place.set(place);
        }
        if all.is_empty() {
            self.deadlines.emptied.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadlines() -> (Rc<WorkerClock>, Rc<Deadlines>) {
        let clock = Rc::new(WorkerClock::new());
        (clock.clone(), Rc::new(Deadlines::new(clock)))
    }

    #[test]
    fn a_deadline_that_passed_ends_its_phase_and_no_other() {
        let (clock, deadlines) = deadlines();
        let (late, early) = (Deadlines::enter(&deadlines), Deadlines::enter(&deadlines));
        late.arm(Phase::Head, Duration::from_secs(60));
        early.arm(Phase::Head, Duration::ZERO);
        let begun = clock.coarse();
        while clock.coarse() - begun <= TICK {
            assert!(!early.is_over());
            deadlines.sweep(Duration::ZERO);
            clock.tick();
        }
        deadlines.sweep(Duration::ZERO);
        assert!(early.is_over() && !late.is_over());
        early.arm(Phase::Writing, Duration::from_secs(60));
        assert!(!early.is_over());
    }

    #[test]
    fn a_phase_keeps_its_deadline_until_it_is_left() {
        let (_, deadlines) = deadlines();
        let slot = Deadlines::enter(&deadlines);
        slot.arm(Phase::Head, Duration::from_secs(1));
        let due = slot.cells.due.get();
        slot.arm(Phase::Head, Duration::from_secs(9));
        assert_eq!(slot.cells.due.get(), due);
        slot.set(Phase::Handling);
        slot.arm(Phase::Head, Duration::from_secs(9));
        assert!(slot.cells.due.get() > due);
    }

    #[test]
    fn time_that_stands_still_is_not_over_and_goes_on_where_it_stood() {
        let (clock, deadlines) = deadlines();
        let slot = Deadlines::enter(&deadlines);
        slot.arm(Phase::Body, Duration::ZERO);
        let left = slot.stop();
        let begun = clock.coarse();
        while clock.coarse() - begun <= 2 * TICK {
            clock.tick();
            deadlines.sweep(Duration::ZERO);
        }
        assert!(!slot.is_over());
        slot.go_on(left);
        assert_eq!(slot.cells.due.get(), Some(clock.coarse() + TICK));
    }

    #[test]
    fn time_is_earned_by_bytes_up_to_a_bound() {
        let (clock, deadlines) = deadlines();
        let slot = Deadlines::enter(&deadlines);
        let second = Duration::from_secs(1);
        slot.arm(Phase::Body, second);
        let due = slot.cells.due.get().unwrap();
        slot.earn(1000, 500, Some(due + 9 * second));
        assert_eq!(slot.cells.due.get(), Some(due + 2 * second));
        slot.earn(1_000_000, 500, Some(due + 9 * second));
        assert_eq!(slot.cells.due.get(), Some(due + 9 * second));
        slot.earn(1, 0, slot.within(second));
        assert_eq!(slot.cells.due.get(), Some(clock.coarse() + second + TICK));
    }

    #[test]
    fn idle_connections_end_in_a_hurry_and_no_others() {
        let (_, deadlines) = deadlines();
        let [idle, busy, silent] = [Phase::Idle, Phase::Head, Phase::Silent].map(|phase| {
            let slot = Deadlines::enter(&deadlines);
            slot.set(Phase::Handling);
            slot.arm(phase, Duration::from_secs(75));
            slot
        });
        deadlines.sweep(Duration::from_secs(70));
        assert!(!idle.is_over() && !busy.is_over() && !silent.is_over());
        deadlines.sweep(Duration::from_secs(76));
        assert!(idle.is_over() && !busy.is_over() && !silent.is_over());
    }

    #[test]
    fn draining_ends_the_idle_a_tick_later_and_places_stay_true() {
        let (clock, deadlines) = deadlines();
        let slots: Vec<_> = (0..5).map(|_| Deadlines::enter(&deadlines)).collect();
        slots[1].arm(Phase::Body, Duration::from_secs(60));
        slots[2].set(Phase::Events);
        slots[4].set(Phase::Paused);
        deadlines.drain();
        let over = || slots.iter().map(Slot::is_over).collect::<Vec<_>>();
        let begun = clock.coarse();
        while clock.coarse() - begun <= TICK {
            assert_eq!(over(), [false, false, true, false, true]);
            clock.tick();
            deadlines.sweep(Duration::ZERO);
        }
        while clock.coarse() - begun < 2 * TICK {
            clock.tick();
        }
        deadlines.sweep(Duration::ZERO);
        assert_eq!(over(), [true, false, true, true, true]);
        drop(slots);
        assert!(deadlines.cells.borrow().is_empty());
    }
}

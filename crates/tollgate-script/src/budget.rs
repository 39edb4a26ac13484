//! The time of a call: how long it may run at a stretch, and in all. The allocator limits its memory
//! ([`crate::call`]).
//!
//! One ticker thread of the process ([`ticker`]) raises a counter each millisecond; Luau's interrupt compares
//! it with the end of the slice and of the budget, so that no clock is read while a script runs. Ticks pass
//! while another thread has the core, too, so what they say is checked: before a call ends by its budget, and
//! from its second slice on, the thread's processor time is asked.
//!
//! An interrupt comes with each call, return and turn of a loop, and costs 1 ns while it decides nothing
//! ([`crate::sys`]). Pattern matching has one for each step of a match, so that one which explodes ends at
//! the budget too.
//!
//! Invariants:
//! - A call that is over its budget stays over: each further interrupt raises again, so `pcall` delays the
//!   end by one interrupt only, and whatever the script returns afterwards is not looked at.
//! - Only the call's own coroutine is suspended by a slice. In a coroutine that the script made, a yield of
//!   ours would look like one of its own, so there the call runs on until it is back or its budget ends.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua::{Lua, VmState};
use rustix::time::{ClockId, clock_gettime};

use crate::memory::unlimited;
use crate::sys::interrupt;
use crate::ticker::{self, Running, TICK};

const NEVER: u64 = u64::MAX;

thread_local! {
    /// The tick from which on interrupts of this thread are looked at: [`Budget::next`] of the call that
    /// runs, or 0.
    static DUE: Cell<u64> = const { Cell::new(NEVER) };
}

/// Says whether an interrupt has to be looked at.
fn is_due() -> bool {
    ticker::now() >= DUE.get()
}

/// The time limits of a host, and where the call that runs now stands against them.
pub(crate) struct Budget {
    /// Whether a stretch is counted now.
    running: Arc<Running>,
    slice_ticks: u64,
    cpu_budget: Duration,
    /// The whole of it.
    cpu_ticks: u64,
    /// The next tick at which the interrupt has something to decide.
    next: Cell<u64>,
    /// The tick before which the budget cannot be used up.
    cpu_end: Cell<u64>,
    entered: Cell<u64>,
    /// What the call used before this stretch.
    spent: Cell<Duration>,
    /// The thread's processor time when the stretch began; none while no tick asked for it.
    began: Cell<Option<Duration>>,
    /// The coroutine that a slice may suspend, as an address to compare with.
    coroutine: Cell<*const c_void>,
    /// Whether the latest interrupt asked for a yield.
    asked_yield: Cell<bool>,
    is_over: Cell<bool>,
    traceback: RefCell<String>,
}

/// What a call used of its budget, up to the end of one slice.
pub(crate) struct BudgetUse {
    /// The processor time of the call so far; of one that ended within its first slice it is not known.
    pub(crate) spent: Duration,
    /// Where the script was when it ran over its budget.
    pub(crate) over: Option<String>,
}

impl Budget {
    pub(crate) fn new(cpu_budget: Duration, slice: Duration) -> Self {
        Self {
            running: Running::enroll(),
            slice_ticks: in_ticks(slice),
            cpu_budget,
            cpu_ticks: in_ticks(cpu_budget),
            next: Cell::new(NEVER),
            cpu_end: Cell::new(NEVER),
            entered: Cell::new(0),
            spent: Cell::new(Duration::ZERO),
            began: Cell::new(None),
            coroutine: Cell::new(ptr::null()),
            asked_yield: Cell::new(false),
            is_over: Cell::new(false),
            traceback: RefCell::new(String::new()),
        }
    }

    /// Has the interrupts of a VM decided by its budget.
    pub(crate) fn watch(self: &Rc<Self>, lua: &Lua) -> mlua::Result<()> {
        let budget = Rc::clone(self);
        lua.set_interrupt(move |lua| budget.interrupt(lua));
        interrupt::shorten(lua, is_due)
    }

    fn set_next(&self, tick: u64) {
        self.next.set(tick);
        DUE.set(tick);
    }

    /// Starts to count. `spent` is what the call used in earlier slices; without a coroutine nothing is
    /// suspended.
    pub(crate) fn enter(&self, spent: Duration, coroutine: Option<*const c_void>) {
        self.running.begin();
        let now = ticker::now();
        let left_ticks =
            if spent.is_zero() { self.cpu_ticks } else { in_ticks(self.cpu_budget.saturating_sub(spent)) };
        // One more, as the running tick is partly gone: nobody gets less than the budget.
        let cpu_end = now + left_ticks + 1;
        let slice_end = if coroutine.is_some() { now + self.slice_ticks } else { NEVER };
        self.entered.set(now);
        self.spent.set(spent);
        self.began.set(if spent.is_zero() { None } else { Some(thread_time()) });
        self.cpu_end.set(cpu_end);
        self.set_next(slice_end.min(cpu_end));
        self.coroutine.set(coroutine.unwrap_or(ptr::null()));
        self.asked_yield.set(false);
        self.is_over.set(false);
    }

    /// Ends the stretch that `enter` began.
    pub(crate) fn leave(&self) -> BudgetUse {
        self.running.end();
        self.set_next(NEVER);
        self.cpu_end.set(NEVER);
        let since = self.began.take().map_or(Duration::ZERO, |began| thread_time().saturating_sub(began));
        let over = self.is_over.replace(false).then(|| self.traceback.take());
        BudgetUse { spent: self.spent.get() + since, over }
    }

    /// Says whether the yield just seen was the interrupt's.
    pub(crate) fn is_slice_end(&self) -> bool {
        self.asked_yield.get()
    }

    /// Says whether the budget is gone; for our own long loops, where no interrupt comes by.
    pub(crate) fn is_exhausted(&self) -> bool {
        let is_over = self.is_used_up(ticker::now());
        if is_over {
            self.is_over.set(true);
        }
        is_over
    }

    /// Says whether the budget is used up at a tick: asks the thread's clock once the ticks say so.
    fn is_used_up(&self, now: u64) -> bool {
        if now < self.cpu_end.get() {
            return false;
        }
        let left = self.cpu_budget.saturating_sub(self.used(now));
        if left.is_zero() {
            return true;
        }
        self.cpu_end.set(now + in_ticks(left));
        false
    }

    /// The processor time of the call. Of a first stretch, what passed before anybody asked counts as at most
    /// a slice.
    fn used(&self, now: u64) -> Duration {
        let time = thread_time();
        let began = self.began.get().unwrap_or_else(|| {
            let ticks = (now - self.entered.get()).min(self.slice_ticks);
            time.saturating_sub(TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX)))
        });
        self.began.set(Some(began));
        self.spent.get() + time.saturating_sub(began)
    }

    /// Decides at an interrupt of the VM.
    fn interrupt(&self, lua: &Lua) -> mlua::Result<VmState> {
        self.asked_yield.set(false);
        DUE.set(self.next.get());
        let now = ticker::now();
        if now < self.next.get() { Ok(VmState::Continue) } else { self.decide(lua, now) }
    }

    fn decide(&self, lua: &Lua, now: u64) -> mlua::Result<VmState> {
        if self.is_used_up(now) {
            self.set_next(now);
            if !self.is_over.replace(true) {
                let traceback = unlimited(lua, || lua.traceback(None, 0));
                self.traceback.replace(traceback.map(|text| text.to_string_lossy()).unwrap_or_default());
            }
            return Err(mlua::Error::runtime("cpu budget of the call is used up"));
        }
        // A call that is suspended here has its time from now on; where Luau cannot yield the next tick asks
        // again.
        self.used(now);
        self.set_next(now + 1);
        // Not by `current_thread`, which panics if memory is out.
        if lua.exec_raw_lua(|raw| raw.state().cast_const().cast()) == self.coroutine.get() {
            self.asked_yield.set(true);
            // Where Luau cannot yield it goes on; then the next interrupt takes the request back.
            DUE.set(0);
            return Ok(VmState::Yield);
        }
        Ok(VmState::Continue)
    }
}

/// The processor time of the calling thread.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn in_ticks(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(TICK.as_micros()))
        .unwrap_or(u64::MAX / 4)
        .clamp(1, u64::MAX / 4)
}

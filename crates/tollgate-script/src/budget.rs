//! Time limits of a call: for one slice, and for the whole call. The allocator limits the memory of the call
//! ([`crate::call`]).
//!
//! One ticker thread of the process ([`ticker`]) increments a counter each millisecond. Luau's interrupt
//! compares this counter with the end of the slice and of the budget. No clock is read while a script runs.
//! Ticks also pass while another thread has the core, so the processor time of the thread is read, too. The
//! processor time is read before a call ends by its budget, and from the second slice of a call on.
//!
//! Luau interrupts at each call, each return and each turn of a loop. An interrupt that has nothing to decide
//! costs 1 ns ([`crate::sys`]). Pattern matching interrupts at each step of a match, so a match of
//! exponential cost also ends at the budget.
//!
//! Invariants:
//! - A call that has used up its budget gets no more time: each further interrupt raises the error again.
//!   `pcall` therefore delays the end by one interrupt only, and a value that the script returns later is
//!   ignored.
//! - A slice suspends only the call's own coroutine. In a coroutine that the script made, our yield would
//!   look like a yield of the script. The call therefore runs until it leaves that coroutine or its budget
//!   ends.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua::{Lua, VmState};

use crate::memory::unlimited;
use crate::sys::interrupt;
use crate::thread_time::thread_time;
use crate::ticker::{self, Running, TICK};

const NEVER: u64 = u64::MAX;

thread_local! {
    /// First tick at which interrupts of this thread have something to decide.
    ///
    /// The value is [`Budget::next`] of the running call, or 0 to make the next interrupt decide.
    static DUE: Cell<u64> = const { Cell::new(NEVER) };
}

/// Returns whether an interrupt has something to decide.
fn is_due() -> bool {
    ticker::now() >= DUE.get()
}

/// Time limits of a `Host`, and the state of the running call within them.
pub(crate) struct Budget {
    /// Whether the `Host` runs a call now.
    running: Arc<Running>,
    slice_ticks: u64,
    cpu_budget: Duration,
    /// `cpu_budget` in ticks.
    cpu_ticks: u64,
    /// The next tick at which the interrupt has something to decide.
    next: Cell<u64>,
    /// First tick at which the budget may be used up.
    cpu_end: Cell<u64>,
    entered: Cell<u64>,
    /// Processor time of the call before this run.
    spent: Cell<Duration>,
    /// Processor time of the thread when this run began. `None` until a tick needs this time.
    began: Cell<Option<Duration>>,
    /// Address of the coroutine that a slice may suspend.
    coroutine: Cell<*const c_void>,
    /// Whether the latest interrupt requested a yield.
    asked_yield: Cell<bool>,
    is_over: Cell<bool>,
    traceback: RefCell<String>,
}

/// Use of the budget by a call, up to the end of one run.
pub(crate) struct BudgetUse {
    /// Processor time of the call so far. The time is zero for a call that ended within its first slice,
    /// because a first slice is not measured.
    pub(crate) spent: Duration,
    /// Traceback of the script at the point where the call exceeded its budget. `None` if it did not.
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

    /// Makes the interrupts of a VM use this budget.
    pub(crate) fn watch(self: &Rc<Self>, lua: &Lua) -> mlua::Result<()> {
        let budget = Rc::clone(self);
        lua.set_interrupt(move |lua| budget.interrupt(lua));
        interrupt::shorten(lua, is_due)
    }

    fn set_next(&self, tick: u64) {
        self.next.set(tick);
        DUE.set(tick);
    }

    /// Begins to count the time of a run. `spent` is the processor time of earlier slices. If `coroutine` is
    /// `None`, no slice suspends the call.
    pub(crate) fn enter(&self, spent: Duration, coroutine: Option<*const c_void>) {
        self.running.begin();
        let now = ticker::now();
        let left_ticks =
            if spent.is_zero() { self.cpu_ticks } else { in_ticks(self.cpu_budget.saturating_sub(spent)) };
        // The current tick is partly over. One more tick ensures that each call gets its full budget.
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

    /// Ends the run that `enter` began.
    pub(crate) fn leave(&self) -> BudgetUse {
        self.running.end();
        self.set_next(NEVER);
        self.cpu_end.set(NEVER);
        let since = self.began.take().map_or(Duration::ZERO, |began| thread_time().saturating_sub(began));
        let over = self.is_over.replace(false).then(|| self.traceback.take());
        BudgetUse { spent: self.spent.get() + since, over }
    }

    /// Returns whether the last yield came from the interrupt.
    pub(crate) fn is_slice_end(&self) -> bool {
        self.asked_yield.get()
    }

    /// Returns whether the budget is used up. Long loops in Rust call this function, because they have no
    /// interrupts.
    pub(crate) fn is_exhausted(&self) -> bool {
        let is_over = self.is_used_up(ticker::now());
        if is_over {
            self.is_over.set(true);
        }
        is_over
    }

    /// Returns whether the budget is used up at a tick. The clock of the thread is read only if the ticks
    /// exceed the budget.
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

    /// Returns the processor time of the call.
    ///
    /// In the first slice, the clock of the thread is read late. The time before that reading counts as one
    /// slice at most.
    fn used(&self, now: u64) -> Duration {
        let time = thread_time();
        let began = self.began.get().unwrap_or_else(|| {
            let ticks = (now - self.entered.get()).min(self.slice_ticks);
            time.saturating_sub(TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX)))
        });
        self.began.set(Some(began));
        self.spent.get() + time.saturating_sub(began)
    }

    /// Decides at an interrupt of the VM whether the call continues, yields or ends.
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
        // The processor time of the call is measured from now on. If Luau cannot yield here, the next tick
        // decides again.
        self.used(now);
        self.set_next(now + 1);
        // `current_thread` would panic if the VM is out of memory.
        if lua.exec_raw_lua(|raw| raw.state().cast_const().cast()) == self.coroutine.get() {
            self.asked_yield.set(true);
            // If Luau cannot yield here, the script continues. The next interrupt then withdraws the request.
            DUE.set(0);
            return Ok(VmState::Yield);
        }
        Ok(VmState::Continue)
    }
}

fn in_ticks(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(TICK.as_micros()))
        .unwrap_or(u64::MAX / 4)
        .clamp(1, u64::MAX / 4)
}

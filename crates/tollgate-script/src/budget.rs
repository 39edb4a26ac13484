//! Answers for time: how long a call may run at a stretch and in all. Leaves memory to the allocator's limit ([`crate::call`]).
//!
//! One ticker thread of the process raises a counter each millisecond; Luau's interrupt compares it with the end of
//! the slice and of the budget, so that no clock is read while a script runs. A tick is counted per wake-up of the
//! ticker, not per elapsed millisecond: while the whole process is stopped, no call grows older.
//!
//! An interrupt comes with each call, return and turn of a loop, and costs 13 ns (mlua's callback, not the comparison).
//! Pattern matching has one for each step of a match, so that one which explodes ends at the budget too.
//!
//! Invariants:
//! - A call that is over its budget stays over: each further interrupt raises again, so `pcall` delays the end by one
//!   interrupt only, and whatever the script returns afterwards is not looked at.
//! - Only the call's own coroutine is suspended by a slice. In a coroutine that the script made, a yield of ours
//!   would look like one of its own, so there the call runs on until it is back or its budget ends.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mlua::{Lua, Thread, VmState};

use crate::api::unlimited;

/// Counts wake-ups of the ticker since the first host was made.
static TICKS: AtomicU64 = AtomicU64::new(0);
static TICKER_RUNS: Mutex<bool> = Mutex::new(false);
const TICK: Duration = Duration::from_millis(1);
const NEVER: u64 = u64::MAX;

/// Starts the ticker thread unless it runs already.
pub(crate) fn start_ticker() -> io::Result<()> {
    let mut runs = TICKER_RUNS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !*runs {
        std::thread::Builder::new().name("tollgate-tick".to_owned()).spawn(|| {
            loop {
                std::thread::sleep(TICK);
                TICKS.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        *runs = true;
    }
    Ok(())
}

/// The time limits of a host, and where the call that runs now stands against them.
pub(crate) struct Budget {
    slice_ticks: u64,
    cpu_ticks: u64,
    /// The next tick at which the interrupt has something to decide.
    next: Cell<u64>,
    cpu_end: Cell<u64>,
    entered: Cell<u64>,
    /// The coroutine that a slice may suspend, as an address to compare with.
    coroutine: Cell<*const c_void>,
    /// Whether the latest interrupt asked for a yield.
    asked_yield: Cell<bool>,
    is_over: Cell<bool>,
    traceback: RefCell<String>,
}

/// What one stretch of running came to.
pub(crate) struct Stretch {
    pub(crate) ticks: u64,
    /// Where the script was when it ran over its budget.
    pub(crate) over: Option<String>,
}

impl Budget {
    pub(crate) fn new(cpu_budget: Duration, slice: Duration) -> Self {
        Self {
            slice_ticks: in_ticks(slice),
            cpu_ticks: in_ticks(cpu_budget),
            next: Cell::new(NEVER),
            cpu_end: Cell::new(NEVER),
            entered: Cell::new(0),
            coroutine: Cell::new(ptr::null()),
            asked_yield: Cell::new(false),
            is_over: Cell::new(false),
            traceback: RefCell::new(String::new()),
        }
    }

    /// Starts to count. `spent` is what the call used in earlier slices; without a coroutine nothing is suspended.
    pub(crate) fn enter(&self, spent: u64, coroutine: Option<&Thread>) {
        let now = TICKS.load(Ordering::Relaxed);
        // One more, as the running tick is partly gone: nobody gets less than the budget.
        let cpu_end = now + self.cpu_ticks.saturating_sub(spent) + 1;
        let slice_end = if coroutine.is_some() { now + self.slice_ticks } else { NEVER };
        self.entered.set(now);
        self.cpu_end.set(cpu_end);
        self.next.set(slice_end.min(cpu_end));
        self.coroutine.set(coroutine.map_or(ptr::null(), Thread::to_pointer));
        self.asked_yield.set(false);
        self.is_over.set(false);
    }

    /// Ends the stretch that `enter` began.
    pub(crate) fn leave(&self) -> Stretch {
        let ticks = TICKS.load(Ordering::Relaxed) - self.entered.get();
        self.next.set(NEVER);
        self.cpu_end.set(NEVER);
        let over = self.is_over.replace(false).then(|| self.traceback.take());
        Stretch { ticks, over }
    }

    /// Says whether the yield just seen was the interrupt's.
    pub(crate) fn is_slice_end(&self) -> bool {
        self.asked_yield.get()
    }

    /// Says whether the budget is gone; for our own long loops, where no interrupt comes by.
    pub(crate) fn is_exhausted(&self) -> bool {
        let is_over = TICKS.load(Ordering::Relaxed) >= self.cpu_end.get();
        if is_over {
            self.is_over.set(true);
        }
        is_over
    }

    /// Decides at an interrupt of the VM.
    #[inline]
    pub(crate) fn interrupt(&self, lua: &Lua) -> mlua::Result<VmState> {
        self.asked_yield.set(false);
        let now = TICKS.load(Ordering::Relaxed);
        if now < self.next.get() { Ok(VmState::Continue) } else { self.decide(lua, now) }
    }

    #[cold]
    fn decide(&self, lua: &Lua, now: u64) -> mlua::Result<VmState> {
        if now >= self.cpu_end.get() {
            self.next.set(now);
            if !self.is_over.replace(true) {
                let traceback = unlimited(lua, || lua.traceback(None, 0));
                self.traceback.replace(traceback.map(|text| text.to_string_lossy()).unwrap_or_default());
            }
            return Err(mlua::Error::runtime("cpu budget of the call is used up"));
        }
        // Where Luau cannot yield now the next tick asks again.
        self.next.set(now + 1);
        if lua.current_thread().to_pointer() == self.coroutine.get() {
            self.asked_yield.set(true);
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

//! How Luau collects garbage: bit by bit. A script that allocates pays for it, byte by byte. [`IdleCollection`] collects
//! what the last calls left.

use std::cell::Cell;
use std::time::{Duration, Instant};

use mlua::Lua;
use mlua::state::{GcIncParams, GcMode};

/// How much of the collecting each allocation brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collector {
    /// How far the heap may grow before all of it was looked at again, in percent of what was kept the last time.
    pub goal: u16,
    /// How much is looked at, in percent of what is allocated meanwhile.
    pub step_multiplier: u16,
    /// After how many KiB of allocations there is a step of it.
    pub step_kib: u16,
}

/// Luau begins with steps of 1 KiB: what garbage costs with others is measured by `examples/garbage.rs`.
impl Default for Collector {
    fn default() -> Self {
        Self { goal: 200, step_multiplier: 200, step_kib: 16 }
    }
}

impl Collector {
    pub(crate) fn apply(self, lua: &Lua) {
        let Self { goal, step_multiplier, step_kib } = self;
        let params = GcIncParams::default().goal(goal.into());
        let params = params.step_multiplier(step_multiplier.into()).step_size(step_kib.into());
        lua.gc_set_mode(GcMode::Incremental(params));
    }
}

/// Collects the garbage of a VM that runs no calls. Without it, an idle VM keeps what its last calls left.
#[derive(Debug, Default)]
pub(crate) struct IdleCollection {
    /// The memory of the VM when it was asked the last time: another figure means that a call ran.
    used_bytes: Cell<usize>,
    /// The memory of the VM after the last complete collection.
    kept_bytes: Cell<usize>,
    /// The cycles that ended since a call ran.
    cycles: Cell<u32>,
}

impl IdleCollection {
    /// Collects for a moment, if no call ran since it was asked the last time, and there may be garbage.
    pub(crate) fn advance(&self, lua: &Lua) {
        let used_bytes = lua.used_memory();
        if self.used_bytes.replace(used_bytes) != used_bytes {
            return self.cycles.set(0);
        }
        let may_be_garbage = used_bytes > self.kept_bytes.get() + GARBAGE_BYTES_MAX;
        if may_be_garbage && self.cycles.get() < CYCLES {
            self.collect(lua);
        }
    }

    fn collect(&self, lua: &Lua) {
        let begun = Instant::now();
        let mut cycles = self.cycles.get();
        while cycles < CYCLES && begun.elapsed() < STRETCH {
            // The collector allocates nothing, so an error is as good as an end.
            cycles += u32::from(lua.gc_step().unwrap_or(true));
        }
        self.cycles.set(cycles);
        self.used_bytes.set(lua.used_memory());
        if cycles == CYCLES {
            self.kept_bytes.set(self.used_bytes.get());
        }
    }
}

/// An idle VM keeps up to this much garbage.
const GARBAGE_BYTES_MAX: usize = 1 << 20;
/// The second cycle frees what became garbage after the first one had marked it.
const CYCLES: u32 = 2;
/// A request that comes meanwhile waits for the rest of this.
const STRETCH: Duration = Duration::from_micros(200);

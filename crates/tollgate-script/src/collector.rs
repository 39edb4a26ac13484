//! How Luau collects garbage: bit by bit. A script that allocates pays for it, byte by byte.
//! [`ExtraCollection`] collects what calls with long texts left.

use std::cell::Cell;
use std::time::{Duration, Instant};

use mlua::Lua;
use mlua::state::{GcIncParams, GcMode};

/// How much of the collecting each allocation brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collector {
    /// How far the heap may grow before all of it was looked at again, in percent of what was kept the last
    /// time.
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

/// Collects garbage between calls. Scripts that allocate collect as well, but a few calls with long texts
/// fill a VM before the collector has looked through it, and an idle VM keeps what its last calls left.
#[derive(Debug, Default)]
pub(crate) struct ExtraCollection {
    /// A call that leaves more than this, and more than [`BUSY_BYTES_MAX`], collects.
    busy_bytes_max: Cell<usize>,
    /// The memory of the VM when it was idle the last time: another figure means that a call ran.
    idle_bytes: Cell<usize>,
    /// The memory of the VM after it was collected while it was idle.
    kept_bytes: Cell<usize>,
    /// The cycles that ended while it was idle since a call ran.
    idle_cycles: Cell<u32>,
}

impl ExtraCollection {
    /// Collects after a call that left much. After it, the VM may grow to twice what it has then: a VM that
    /// keeps much is not looked through after each call.
    #[inline]
    pub(crate) fn after_call(&self, lua: &Lua) {
        if lua.used_memory() > self.busy_bytes_max.get().max(BUSY_BYTES_MAX) {
            collect(lua, BUSY_STRETCH, CYCLES);
            self.busy_bytes_max.set(2 * lua.used_memory());
        }
    }

    /// Collects in an idle VM, if there may be garbage.
    pub(crate) fn while_idle(&self, lua: &Lua) {
        let used_bytes = lua.used_memory();
        if self.idle_bytes.replace(used_bytes) != used_bytes {
            return self.idle_cycles.set(0);
        }
        let may_be_garbage = used_bytes > self.kept_bytes.get() + IDLE_GARBAGE_BYTES_MAX;
        let cycles_left = CYCLES - self.idle_cycles.get();
        if may_be_garbage && cycles_left > 0 {
            let cycles = collect(lua, IDLE_STRETCH, cycles_left);
            self.idle_cycles.set(self.idle_cycles.get() + cycles);
            self.idle_bytes.set(lua.used_memory());
            if cycles == cycles_left {
                self.kept_bytes.set(self.idle_bytes.get());
            }
        }
    }
}

/// Collects until so many cycles end, or for `stretch`. Returns the cycles that ended.
#[cold]
fn collect(lua: &Lua, stretch: Duration, cycles_max: u32) -> u32 {
    let (begun, mut cycles) = (Instant::now(), 0);
    while cycles < cycles_max && begun.elapsed() < stretch {
        // The collector allocates nothing, so an error is as good as an end.
        cycles += u32::from(lua.gc_step().unwrap_or(true));
    }
    cycles
}

/// A VM that has less leaves collecting to its scripts.
const BUSY_BYTES_MAX: usize = 16 << 20;
/// Two cycles over a megabyte of small objects take about one millisecond; texts of 16 MiB take longer to
/// make.
const BUSY_STRETCH: Duration = Duration::from_millis(2);
/// An idle VM keeps up to this much garbage.
const IDLE_GARBAGE_BYTES_MAX: usize = 1 << 20;
/// The second cycle frees what became garbage after the first one had marked it.
const CYCLES: u32 = 2;
/// A request that comes meanwhile waits for the rest of this.
const IDLE_STRETCH: Duration = Duration::from_micros(200);

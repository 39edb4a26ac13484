//! How Luau collects garbage: incrementally. A script that allocates pays for the collection in proportion to
//! its bytes.
//!
//! [`ExtraCollection`] collects the garbage of calls with long texts.

use std::cell::Cell;
use std::time::{Duration, Instant};

use mlua::Lua;
use mlua::state::{GcIncParams, GcMode};

/// How much garbage collection each allocation causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collector {
    /// How far the heap may grow until the end of a collection, in percent of the size after the last
    /// collection.
    pub goal: u16,
    /// Amount of memory that the collector visits, in percent of the allocations.
    pub step_multiplier: u16,
    /// Number of KiB of allocations between two steps of the collector.
    pub step_kib: u16,
}

/// Luau's own default is a step of 1 KiB. `examples/garbage.rs` measures the cost of garbage with other
/// steps.
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

/// Collects garbage between calls.
///
/// Scripts that allocate also collect. But a few calls with long texts fill a VM before the collector has
/// visited it once. An idle VM would keep the garbage of its last calls.
#[derive(Debug, Default)]
pub(crate) struct ExtraCollection {
    /// A call that leaves more memory than this, and more than [`BUSY_BYTES_MAX`], collects.
    busy_bytes_max: Cell<usize>,
    /// Memory of the VM when it was last idle. A different value means that a call ran.
    idle_bytes: Cell<usize>,
    /// Memory of the VM after it was collected while idle.
    kept_bytes: Cell<usize>,
    /// Number of cycles that ended while idle, since the last call.
    idle_cycles: Cell<u32>,
}

impl ExtraCollection {
    /// Collects after a call that left much memory.
    ///
    /// Afterwards the VM may grow to twice its size. A VM that keeps much memory is therefore not visited
    /// after each call.
    #[inline]
    pub(crate) fn after_call(&self, lua: &Lua) {
        if lua.used_memory() > self.busy_bytes_max.get().max(BUSY_BYTES_MAX) {
            collect(lua, BUSY_STRETCH, CYCLES);
            self.busy_bytes_max.set(2 * lua.used_memory());
        }
    }

    /// Collects in an idle VM if there may be garbage.
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

/// Collects until `cycles_max` cycles end, or for `stretch`. Returns the number of cycles that ended.
#[cold]
fn collect(lua: &Lua, stretch: Duration, cycles_max: u32) -> u32 {
    let (begun, mut cycles) = (Instant::now(), 0);
    while cycles < cycles_max && begun.elapsed() < stretch {
        // The collector allocates nothing, so an error counts as an end.
        cycles += u32::from(lua.gc_step().unwrap_or(true));
    }
    cycles
}

/// Smaller VMs leave garbage collection to their scripts.
const BUSY_BYTES_MAX: usize = 16 << 20;
/// Two cycles over a megabyte of small objects take about one millisecond. A text of 16 MiB takes longer to
/// create.
const BUSY_STRETCH: Duration = Duration::from_millis(2);
/// An idle VM keeps up to this much garbage.
const IDLE_GARBAGE_BYTES_MAX: usize = 1 << 20;
/// The second cycle frees objects that became garbage after the first cycle marked them.
const CYCLES: u32 = 2;
/// A request that arrives during the collection waits for the rest of this time.
const IDLE_STRETCH: Duration = Duration::from_micros(200);

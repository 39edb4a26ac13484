//! Settings of Luau's incremental garbage collector. A script that allocates does a part of the collection,
//! in proportion to the allocated bytes.
//!
//! [`ExtraCollection`] collects the garbage of calls with long texts.

use std::cell::Cell;
use std::time::Duration;

use mlua::Lua;
use mlua::state::{GcIncParams, GcMode};

use crate::thread_time::thread_time;

/// Settings that decide how much garbage collection each allocation causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collector {
    /// Size of the heap at which a collection should end, in percent of the size after the last collection.
    pub goal: u16,
    /// Amount of memory that the collector visits, in percent of the allocations.
    pub step_multiplier: u16,
    /// Number of KiB of allocations between two steps of the collector.
    pub step_kib: u16,
}

/// The step is 16 KiB, although Luau's own default is 1 KiB. `examples/garbage.rs` measures the cost of
/// garbage with other steps.
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
/// Scripts that allocate also collect. Nevertheless, a few calls with long texts fill a VM before the
/// collector has visited the VM once. Without this type, an idle VM would also keep the garbage of its last
/// calls.
#[derive(Debug, Default)]
pub(crate) struct ExtraCollection {
    /// Memory of the VM above which a call collects at its end, in bytes. The memory must also exceed
    /// [`BUSY_BYTES_MAX`].
    busy_bytes_max: Cell<usize>,
    /// Memory of the VM when it was last idle, in bytes. A different value means that a call ran.
    idle_bytes: Cell<usize>,
    /// Memory of the VM after it was collected while idle, in bytes.
    kept_bytes: Cell<usize>,
    /// Number of collection cycles that ended since the last call, while the VM was idle.
    idle_cycles: Cell<u32>,
}

impl ExtraCollection {
    /// Collects after a call if the VM holds much memory.
    ///
    /// After this collection the VM may grow to twice its size. A VM that keeps much memory is therefore not
    /// visited after each call.
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

/// Collects until `cycles_max` cycles end, or for `stretch` of processor time. Returns the number of cycles
/// that ended. Time of other threads does not count, so a busy machine collects as much.
#[cold]
fn collect(lua: &Lua, stretch: Duration, cycles_max: u32) -> u32 {
    let (begun, mut cycles) = (thread_time(), 0);
    while cycles < cycles_max && thread_time().saturating_sub(begun) < stretch {
        // The collector allocates nothing, so no error is expected. An error counts as the end of a cycle.
        cycles += u32::from(lua.gc_step().unwrap_or(true));
    }
    cycles
}

/// Maximum memory of a VM that is not collected after a call, in bytes. In smaller VMs the allocations of
/// scripts suffice.
const BUSY_BYTES_MAX: usize = 16 << 20;
/// Maximum processor time of a collection after a call. Two cycles over a megabyte of small objects need
/// about one millisecond. Creating a text of 16 MiB needs more time than that.
const BUSY_STRETCH: Duration = Duration::from_millis(2);
/// Maximum garbage that an idle VM keeps, in bytes.
const IDLE_GARBAGE_BYTES_MAX: usize = 1 << 20;
/// Number of cycles of a complete collection. The second cycle frees objects that became garbage after the
/// first cycle marked them.
const CYCLES: u32 = 2;
/// Maximum processor time of a collection in an idle VM. A request that arrives during the collection waits
/// until this time is over.
const IDLE_STRETCH: Duration = Duration::from_micros(200);

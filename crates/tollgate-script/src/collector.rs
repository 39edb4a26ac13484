//! Answers for how Luau collects garbage: bit by bit, by the script that allocates.

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

//! Answers for what a script finds in its globals: `tollgate`, `print`, and a standard library without the doors.

mod globals;
pub(crate) mod json;
mod log;

pub(crate) use globals::{Marks, install};

use mlua::Lua;

/// Runs `f` without the memory limit of the call.
///
/// A standing limit sends each push of mlua through a protected call (0.1 us apiece). So our own functions go
/// without, and those whose results grow with their input watch `used_memory` themselves.
pub(crate) fn unlimited<R>(lua: &Lua, f: impl FnOnce() -> R) -> R {
    let limit = lua.set_memory_limit(0).unwrap_or(0);
    let result = f();
    // Only a VM that mlua did not make refuses a limit.
    let _ = lua.set_memory_limit(limit);
    result
}

/// Like [`unlimited`], for work of unknown size: `f` is told the bytes in use that it may reach.
pub(crate) fn watched<R>(lua: &Lua, f: impl FnOnce(usize) -> R) -> R {
    let limit = lua.set_memory_limit(0).unwrap_or(0);
    let result = f(if limit == 0 { usize::MAX } else { limit });
    let _ = lua.set_memory_limit(limit);
    result
}

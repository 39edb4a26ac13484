//! The memory limit of a call, and the work of our own functions without it.
//!
//! With a limit set, mlua makes each push a protected call, which costs 0.1 us. Our own functions therefore
//! remove the limit. A function whose result grows with its input checks `used_memory` itself.

use mlua::{Lua, LuaString};

/// Runs `f` without the memory limit of the call.
pub(crate) fn unlimited<R>(lua: &Lua, f: impl FnOnce() -> R) -> R {
    let limit = lua.set_memory_limit(0).unwrap_or(0);
    let result = f();
    // The call fails only for a VM that mlua did not create.
    let _ = lua.set_memory_limit(limit);
    result
}

/// Runs work of unknown size without the memory limit. `f` gets the limit: the bytes in use that it may
/// reach.
pub(crate) fn watched<R>(lua: &Lua, f: impl FnOnce(usize) -> R) -> R {
    let limit = lua.set_memory_limit(0).unwrap_or(0);
    let result = f(if limit == 0 { usize::MAX } else { limit });
    let _ = lua.set_memory_limit(limit);
    result
}

/// Creates a string inside [`watched`], which passed `memory_max`.
pub(crate) fn string_within(lua: &Lua, bytes: &[u8], memory_max: usize) -> mlua::Result<LuaString> {
    check_memory(lua, bytes.len(), memory_max)?;
    lua.create_string(bytes)
}

/// Checks that `bytes` more do not exceed the `memory_max` that [`watched`] passed.
///
/// # Errors
/// `MemoryError`, as a call gets it at its limit.
pub(crate) fn check_memory(lua: &Lua, bytes: usize, memory_max: usize) -> mlua::Result<()> {
    if lua.used_memory().saturating_add(bytes) > memory_max {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    Ok(())
}

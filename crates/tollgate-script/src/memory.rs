//! The memory limit of a call, and functions that run work without that limit.
//!
//! While a limit is set, mlua makes each push a protected call, which costs 0.1 us. The API functions
//! therefore remove the limit while they work. A function whose result grows with its input checks
//! `used_memory` itself.

use mlua::{Lua, LuaString};

/// Runs `f` without the memory limit of the call.
pub(crate) fn unlimited<R>(lua: &Lua, f: impl FnOnce() -> R) -> R {
    let limit = lua.set_memory_limit(0).unwrap_or(0);
    let result = f();
    // `set_memory_limit` fails only for a VM that mlua did not create.
    let _ = lua.set_memory_limit(limit);
    result
}

/// Runs work of unknown size without the memory limit. `f` gets the limit: the bytes that the VM may hold at
/// most.
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
/// `MemoryError`, the same error as at the memory limit of a call.
pub(crate) fn check_memory(lua: &Lua, bytes: usize, memory_max: usize) -> mlua::Result<()> {
    if lua.used_memory().saturating_add(bytes) > memory_max {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    Ok(())
}

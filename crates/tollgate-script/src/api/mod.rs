//! Answers for what a script finds in its globals: `tollgate`, `print`, and a standard library without the doors.

mod app;
pub(crate) mod arguments;
mod cookie;
mod crypto;
mod emit;
mod encodings;
mod env;
mod event;
pub(crate) mod fetch;
mod globals;
pub(crate) mod json;
mod log;
mod os;
mod out;
mod redirect;
mod shared;
mod sleep;
mod sql;
mod time;
mod url;
mod uuid;
pub(crate) mod xml;

pub(crate) use emit::{Emissions, EmitParts, Streams};
pub use emit::{EmitStream, Emitted};
pub(crate) use globals::{Marks, install};
pub(crate) use out::Outs;
pub use sql::{Database, SqlAnswer, SqlReply, SqlResult, SqlRow, SqlValue};
pub(crate) use time::{HTTP_LAST_US, http_date_of};

use mlua::{Lua, LuaString, Value};

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

/// Makes a string under [`watched`].
pub(crate) fn string_within(lua: &Lua, bytes: &[u8], memory_max: usize) -> mlua::Result<LuaString> {
    check_memory(lua, bytes.len(), memory_max)?;
    lua.create_string(bytes)
}

/// Says whether `bytes` more are within what [`watched`] told.
pub(crate) fn check_memory(lua: &Lua, bytes: usize, memory_max: usize) -> mlua::Result<()> {
    if lua.used_memory().saturating_add(bytes) > memory_max {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    Ok(())
}

/// What a script's author calls the type of a value.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        other => other.type_name(),
    }
}

//! `tollgate.env(name)`: reads only environment variables that the configuration lists.

use std::os::unix::ffi::OsStrExt as _;

use mlua::{Function, Lua, Table, Value};

use crate::arguments::text;
use crate::error::shown;
use crate::memory::unlimited;
use crate::nearest::hint;

/// Creates the function. The variables are read once, because the environment does not change.
pub(super) fn install(lua: &Lua, allowed: &[String]) -> mlua::Result<Function> {
    let values = lua.create_table()?;
    for name in allowed {
        if let Some(value) = std::env::var_os(name) {
            values.raw_set(name.as_str(), lua.create_string(value.as_bytes())?)?;
        }
    }
    let allowed: Vec<String> = allowed.to_vec();
    lua.create_function(move |lua, name: Value| value_of(lua, &values, &allowed, &name))
}

fn value_of(lua: &Lua, values: &Table, allowed: &[String], name: &Value) -> mlua::Result<Value> {
    let given = text("name of tollgate.env", name)?;
    if !allowed.iter().any(|allowed| allowed.as_bytes() == &given[..]) {
        let given = shown(&given);
        let hint = hint(&given, allowed.iter().map(String::as_str));
        return Err(mlua::Error::runtime(format!(
            "tollgate.env has no \"{given}\"{hint}: allowed are the names that env in [script] lists"
        )));
    }
    unlimited(lua, || values.raw_get(name))
}

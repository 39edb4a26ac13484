//! `req.auth`: the caller whose credentials the server has checked.

use mlua::{Lua, Table, Value};

use crate::budget::Budget;
use crate::json;
use crate::marks::Marks;
use crate::memory::{unlimited, watched};
use crate::request::Request;

/// Returns the table of the caller, or nil for a route without `auth`. A script cannot change the table.
pub(super) fn auth(lua: &Lua, request: &Request, marks: &Marks, budget: &Budget) -> mlua::Result<Value> {
    let Some(caller) = &request.caller else { return Ok(Value::Nil) };
    let make = || {
        let claims = match &caller.claims {
            None => Value::Nil,
            Some(claims) => {
                let text = serde_json::to_vec(claims).map_err(mlua::Error::external)?;
                watched(lua, |memory_max| json::answer(lua, &text, marks, budget, memory_max))?.0
            }
        };
        unlimited(lua, || table(lua, (caller.scheme, &caller.name), claims))
    };
    request.context.caller_table(make).map(Value::Table)
}

fn table(lua: &Lua, (scheme, name): (&str, &str), claims: Value) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("scheme", scheme)?;
    table.raw_set("name", name)?;
    table.raw_set("claims", claims)?;
    table.set_readonly(true);
    Ok(table)
}

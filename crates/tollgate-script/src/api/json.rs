//! `tollgate.json`: encodes and decodes JSON for scripts, by the rules of [`crate::json`].

use std::rc::Rc;

use mlua::{Lua, LuaString, Table, Value};

use crate::arguments::close;
use crate::budget::Budget;
use crate::json::{self, Encoder, Scratch};
use crate::marks::Marks;
use crate::memory::{string_within, watched};
use crate::sys::raw;

/// Creates the table `tollgate.json`.
pub(super) fn install(
    lua: &Lua,
    marks: &Rc<Marks>,
    budget: &Rc<Budget>,
    bytes_max: usize,
) -> mlua::Result<Table> {
    let json = lua.create_table()?;
    json.raw_set("null", Value::NULL)?;
    let (own_marks, own_budget) = (Rc::clone(marks), Rc::clone(budget));
    let encode = move |lua: &Lua, value: Value| {
        watched(lua, |memory_max| {
            let mut scratch = Scratch::default();
            let encoder = Encoder::new(&mut scratch, bytes_max, &own_marks, &own_budget);
            let encoded = raw::read(lua, &value, |value| encoder.encode(value))?;
            let encoded = encoded.map_err(|fault| mlua::Error::runtime(fault.in_words("value")))?;
            string_within(lua, encoded, memory_max)
        })
    };
    json.raw_set("encode", lua.create_function(encode)?)?;
    let (own_marks, own_budget) = (Rc::clone(marks), Rc::clone(budget));
    let decode = move |lua: &Lua, text: LuaString| {
        let text = text.as_bytes();
        watched(lua, |memory_max| json::answer(lua, &text, &own_marks, &own_budget, memory_max))
    };
    json.raw_set("decode", lua.create_function(decode)?)?;
    let own_marks = Rc::clone(marks);
    let array = move |lua: &Lua, table: Option<Table>| {
        let table = table.map_or_else(|| lua.create_table(), Ok)?;
        table.set_metatable(Some(own_marks.array.clone()))?;
        Ok(table)
    };
    json.raw_set("array", lua.create_function(array)?)?;
    close(lua, "tollgate.json", &json)?;
    Ok(json)
}

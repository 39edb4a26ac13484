//! `out:element`, `out:open` and `out:close`: write XML into a streamed reply.
//!
//! `Pipe` has the names of the open elements. The reply fails if the script returns before it closed them.

use std::rc::Rc;

use mlua::{Function, Lua, Table, Value};

use super::sending::{Data, send_data, stream_pipe};
use crate::budget::Budget;
use crate::memory::unlimited;
use crate::sys::{operation, raw};
use crate::waits::Waits;
use crate::xml;

/// Adds the functions to the methods of `out`.
pub(super) fn install(
    lua: &Lua,
    methods: &Table,
    waits: &Rc<Waits>,
    budget: &Rc<Budget>,
    bytes_max: usize,
) -> mlua::Result<()> {
    methods.raw_set("element", element(lua, waits, budget, bytes_max)?)?;
    methods.raw_set("open", open(lua, waits, budget, bytes_max)?)?;
    methods.raw_set("close", close(lua, waits)?)
}

fn element(lua: &Lua, waits: &Rc<Waits>, budget: &Rc<Budget>, bytes_max: usize) -> mlua::Result<Function> {
    let (own, budget) = (Rc::clone(waits), Rc::clone(budget));
    let begin = lua.create_function(move |lua, (out, element): (Value, Value)| {
        let pipe = stream_pipe(&own, &out, "out:element(element)")?;
        let encoded =
            unlimited(lua, || raw::read(lua, &element, |value| xml::element(value, bytes_max, &budget)))?;
        let encoded = encoded.map_err(|fault| mlua::Error::runtime(fault.in_words("element")))?;
        Ok(send_data(&own, pipe, Data::Copy(encoded)))
    })?;
    operation::function(lua, waits, c"out:element", &begin)
}

fn open(lua: &Lua, waits: &Rc<Waits>, budget: &Rc<Budget>, bytes_max: usize) -> mlua::Result<Function> {
    let (own, budget) = (Rc::clone(waits), Rc::clone(budget));
    let begin = lua.create_function(move |lua, (out, tag, attr): (Value, Value, Value)| {
        let pipe = stream_pipe(&own, &out, "out:open(tag, attr)")?;
        let has_declaration = pipe.is_untouched();
        let begun = unlimited(lua, || {
            let element = lua.create_table()?;
            element.raw_set("tag", tag)?;
            element.raw_set("attr", attr)?;
            raw::read(lua, &Value::Table(element), |value| {
                xml::begun(value, has_declaration, bytes_max, &budget)
            })
        })?;
        let (tag, text) = begun.map_err(|fault| mlua::Error::runtime(fault.in_words("element")))?;
        if !pipe.open_element(tag) {
            return Err(mlua::Error::runtime("out:open: elements are nested deeper than 128"));
        }
        Ok(send_data(&own, pipe, Data::Copy(text)))
    })?;
    operation::function(lua, waits, c"out:open", &begin)
}

fn close(lua: &Lua, waits: &Rc<Waits>) -> mlua::Result<Function> {
    let own = Rc::clone(waits);
    let begin = lua.create_function(move |_, out: Value| {
        let pipe = stream_pipe(&own, &out, "out:close()")?;
        let Some(tag) = pipe.close_element() else {
            return Err(mlua::Error::runtime("out:close: no element is open: call out:open before"));
        };
        Ok(send_data(&own, pipe, Data::Copy(format!("</{tag}>").into_bytes())))
    })?;
    operation::function(lua, waits, c"out:close", &begin)
}

//! `out`, the argument of the functions `write` and `events` of a reply.

mod elements;
mod sending;

use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::event;
use crate::arguments::kind;
use crate::budget::Budget;
use crate::reply::Streamed;
use crate::sys::operation;
use crate::waits::Waits;
use sending::{Data, is_open_for_more, send_data, stream_pipe};

/// The metatables of `out`.
pub(crate) struct OutMetatables {
    write: Table,
    events: Table,
}

impl OutMetatables {
    /// Creates the metatables. `bytes_max` is the maximum size of an event, and of an XML element.
    pub(crate) fn new(
        lua: &Lua,
        waits: &Rc<Waits>,
        budget: &Rc<Budget>,
        bytes_max: usize,
    ) -> mlua::Result<Self> {
        let own = Rc::clone(waits);
        let write = lua.create_function(move |_, (out, data): (Value, Value)| {
            let pipe = stream_pipe(&own, &out, "out:write(text)")?;
            let data = match data {
                Value::String(text) => Data::Text(text),
                Value::Buffer(buffer) => Data::Copy(buffer.to_vec()),
                other => {
                    let found = kind(&other);
                    return Err(mlua::Error::runtime(format!(
                        "argument of out:write is a {found}: allowed are a string, a buffer"
                    )));
                }
            };
            Ok(send_data(&own, pipe, data))
        })?;
        let own = Rc::clone(waits);
        let send = lua.create_function(move |_, (out, event): (Value, Value)| {
            let pipe = stream_pipe(&own, &out, "out:send{ data = text }")?;
            pipe.push_whole(&event::in_bytes(&event, bytes_max)?);
            Ok(is_open_for_more(&own, pipe))
        })?;
        let write = operation::function(lua, waits, c"out:write", &write)?;
        let send = operation::function(lua, waits, c"out:send", &send)?;
        let (writing, sending) = (lua.create_table()?, lua.create_table()?);
        writing.raw_set("write", write)?;
        elements::install(lua, &writing, waits, budget, bytes_max)?;
        sending.raw_set("send", send)?;
        Ok(Self { write: metatable(lua, &writing)?, events: metatable(lua, &sending)? })
    }

    /// Creates the `out` of one reply.
    pub(crate) fn make(&self, lua: &Lua, streamed: Streamed) -> mlua::Result<Table> {
        let out = lua.create_table()?;
        out.set_metatable(Some(match streamed {
            Streamed::Write => self.write.clone(),
            Streamed::Events => self.events.clone(),
        }))?;
        out.set_readonly(true);
        Ok(out)
    }
}

fn metatable(lua: &Lua, methods: &Table) -> mlua::Result<Table> {
    methods.set_readonly(true);
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", methods)?;
    metatable.raw_set("__metatable", "out")?;
    metatable.raw_set("__type", "out")?;
    metatable.set_readonly(true);
    Ok(metatable)
}

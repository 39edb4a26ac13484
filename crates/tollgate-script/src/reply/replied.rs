//! The reply that an `after` script gets.

use std::rc::Rc;

use bytes::Bytes;
use mlua::{Lua, LuaString, Table};

use crate::error::shown;
use crate::memory::{check_memory, watched};

/// A complete reply, before `after` scripts add fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replied {
    /// Status of the reply.
    pub status: u16,
    /// The header fields in their order. The names may have any case.
    pub fields: Vec<(String, Bytes)>,
}

impl Replied {
    /// Creates `reply`, the second argument of an `after` script.
    pub(crate) fn table(&self, lua: &Lua) -> mlua::Result<Table> {
        let headers = lua.create_table()?;
        for (name, value) in &self.fields {
            let name = name.to_ascii_lowercase();
            if !headers.contains_key(name.as_str())? {
                headers.raw_set(name, lua.create_string(value)?)?;
            }
        }
        headers.set_readonly(true);
        let reply = lua.create_table_from([("status", self.status)])?;
        reply.raw_set("headers", headers)?;
        let fields: Rc<[_]> = self.fields.clone().into();
        let all = move |lua: &Lua, (_reply, part, name): (Table, LuaString, LuaString)| {
            watched(lua, |memory_max| {
                check_memory(lua, 0, memory_max)?;
                all(lua, &fields, &part.as_bytes(), &name.as_bytes())
            })
        };
        reply.raw_set("all", lua.create_function(all)?)?;
        reply.set_readonly(true);
        Ok(reply)
    }
}

/// Returns all values of the header field `name`, in their order. `part` is `headers`.
fn all(lua: &Lua, fields: &[(String, Bytes)], part: &[u8], name: &[u8]) -> mlua::Result<Table> {
    if part != b"headers" {
        let part = shown(part);
        let text = format!("reply:all has no part \"{part}\", allowed: \"headers\"");
        return Err(mlua::Error::runtime(text));
    }
    let values = fields.iter().filter(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
    let values = values.map(|(_, value)| lua.create_string(value)).collect::<mlua::Result<Vec<_>>>()?;
    lua.create_sequence_from(values)
}

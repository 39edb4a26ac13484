//! The reply that an `after` script gets.

use bytes::Bytes;
use mlua::{Lua, Table};

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
        reply.set_readonly(true);
        Ok(reply)
    }
}

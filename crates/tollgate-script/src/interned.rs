//! Recognises known names among the keys that a script uses, by the addresses of the texts.
//!
//! Luau keeps one copy of each text, so two texts are equal if their addresses are equal. The bytes are not
//! compared, because mlua allocates memory each time that it lends the bytes of a text.

use std::ffi::c_void;

use mlua::{Lua, LuaString};

/// Known names. The strings are held so that their addresses stay valid.
#[derive(Default)]
pub(crate) struct Interned {
    addresses: Vec<*const c_void>,
    _held: Vec<LuaString>,
}

impl Interned {
    pub(crate) fn new<'a>(lua: &Lua, names: impl IntoIterator<Item = &'a str>) -> mlua::Result<Self> {
        let names = names.into_iter().map(|name| lua.create_string(name));
        let held = names.collect::<mlua::Result<Vec<_>>>()?;
        Ok(Self { addresses: held.iter().map(LuaString::to_pointer).collect(), _held: held })
    }

    /// Returns the index of a text among the known names. `text` must be the VM's own copy.
    pub(crate) fn position(&self, text: &[u8]) -> Option<usize> {
        let address = text.as_ptr().cast::<c_void>();
        self.addresses.iter().position(|&known| known == address)
    }

    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_however_it_came_to_be() {
        let lua = Lua::new();
        let known =
            Interned::new(&lua, ["status", "a name that is longer than any inline text could be"]).unwrap();
        let check = |expression: &str, expect: Option<usize>| {
            let text: LuaString = lua.load(expression).eval().unwrap();
            assert_eq!(known.position(&text.as_bytes()), expect, "{expression}");
        };
        check("'status'", Some(0));
        check("('sta' .. 'tus'):lower()", Some(0));
        check("table.concat({ 'a name that is longer than ', 'any inline text could be' })", Some(1));
        check("'Status'", None);
    }
}

//! `tollgate.xml`: encodes, decodes and escapes XML for scripts, by the rules of [`crate::xml`].

mod compiled;
mod schema;

use std::rc::Rc;

use mlua::{Lua, Table, Value};

use crate::arguments::{bytes_of, close};
use crate::budget::Budget;
use crate::memory::{string_within, watched};
use crate::options::HostOptions;
use crate::require::Modules;
use crate::sys::raw;
use crate::xml;

/// Creates the table `tollgate.xml`.
pub(super) fn install(
    lua: &Lua,
    budget: &Rc<Budget>,
    modules: &Rc<Modules>,
    options: &HostOptions,
) -> mlua::Result<Table> {
    let HostOptions { reply_bytes_max: bytes_max, doctype, .. } = *options;
    let xml: Table = lua.load(FINDING).set_name("=xml").call(())?;
    let own = Rc::clone(budget);
    let encode = move |lua: &Lua, value: Value| {
        watched(lua, |memory_max| {
            let encoded = raw::read(lua, &value, |value| xml::element(value, bytes_max, &own))?;
            let encoded = encoded.map_err(|fault| mlua::Error::runtime(fault.in_words("value")))?;
            string_within(lua, &encoded, memory_max)
        })
    };
    xml.raw_set("encode", lua.create_function(encode)?)?;
    let own = Rc::clone(budget);
    let decode = move |lua: &Lua, text: Value| {
        bytes_of("text of tollgate.xml.decode", &text, |text| {
            watched(lua, |memory_max| xml::answer(lua, text, doctype, &own, memory_max))
        })
    };
    xml.raw_set("decode", lua.create_function(decode)?)?;
    let escape = move |lua: &Lua, text: Value| {
        bytes_of("text of tollgate.xml.escape", &text, |text| {
            watched(lua, |memory_max| {
                let escaped = xml::escaped(text, bytes_max);
                let escaped = escaped.map_err(|fault| mlua::Error::runtime(fault.in_words("text")))?;
                string_within(lua, &escaped, memory_max)
            })
        })
    };
    xml.raw_set("escape", lua.create_function(escape)?)?;
    compiled::install(lua, &xml, budget, options)?;
    schema::install(lua, &xml, budget, modules)?;
    close(lua, "tollgate.xml", &xml)?;
    Ok(xml)
}

/// Luau code of the functions that find elements within other elements.
const FINDING: &str = include_str!("xml/finding.luau");

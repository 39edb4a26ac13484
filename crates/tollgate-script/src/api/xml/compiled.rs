//! `tollgate.xml.template` and `tollgate.xml.values`: functions that are compiled when a script is loaded.

use std::rc::Rc;

use mlua::{Function, Lua, LuaString, Table, Value};
use tollgate_xml::Doctype;

use crate::arguments::bytes_of;
use crate::budget::Budget;
use crate::conversion;
use crate::memory::{string_within, unlimited, watched};
use crate::options::HostOptions;
use crate::sys::raw;
use crate::xml::{self, Values};

/// Adds the functions to `tollgate.xml`.
pub(super) fn install(
    lua: &Lua,
    xml: &Table,
    budget: &Rc<Budget>,
    options: &HostOptions,
) -> mlua::Result<()> {
    let HostOptions { reply_bytes_max: bytes_max, doctype, .. } = *options;
    let own = Rc::clone(budget);
    let template = move |lua: &Lua, source: Value| {
        bytes_of("source of tollgate.xml.template", &source, |source| {
            unlimited(lua, || template(lua, source, &own, bytes_max))
        })
    };
    xml.raw_set("template", lua.create_function(template)?)?;
    let own = Rc::clone(budget);
    let values = move |lua: &Lua, (paths, namespaces): (Table, Option<Table>)| {
        unlimited(lua, || values(lua, &paths, namespaces.as_ref(), doctype, &own))
    };
    xml.raw_set("values", lua.create_function(values)?)
}

/// Returns a function that writes the template with the values of a table.
fn template(lua: &Lua, source: &[u8], budget: &Rc<Budget>, bytes_max: usize) -> mlua::Result<Function> {
    let compiled = xml::compile(lua, source)
        .map_err(|reason| mlua::Error::runtime(format!("tollgate.xml.template: {reason}")))?;
    let budget = Rc::clone(budget);
    lua.create_function(move |lua: &Lua, value: Value| {
        watched(lua, |memory_max| {
            let written = raw::read(lua, &value, |value| xml::render(&compiled, value, bytes_max, &budget))?;
            let written = written.map_err(|fault| mlua::Error::runtime(fault.in_words("values")))?;
            string_within(lua, &written, memory_max)
        })
    })
}

/// Returns a function that reads the values of a text.
fn values(
    lua: &Lua,
    paths: &Table,
    namespaces: Option<&Table>,
    doctype: Doctype,
    budget: &Rc<Budget>,
) -> mlua::Result<Function> {
    let refused = |reason: &str| mlua::Error::runtime(format!("tollgate.xml.values: {reason}"));
    let mut named = Vec::new();
    for pair in paths.pairs::<Value, Value>() {
        match pair? {
            (Value::String(name), Value::String(path)) => named.push((name, path.to_string_lossy())),
            _ => return Err(refused("the paths are a table of paths by the names of their values")),
        }
    }
    named.sort_by_key(|(name, _): &(LuaString, String)| name.to_string_lossy());
    let mut prefixes = Vec::new();
    for pair in namespaces.into_iter().flat_map(Table::pairs::<Value, Value>) {
        match pair? {
            (Value::String(prefix), Value::String(uri)) => {
                prefixes.push((prefix.to_string_lossy(), uri.to_string_lossy()));
            }
            _ => return Err(refused("the namespaces are a table of namespaces by prefixes")),
        }
    }
    let values = Values::new(named, &prefixes, doctype).map_err(|reason| refused(&reason))?;
    let budget = Rc::clone(budget);
    lua.create_function(move |lua: &Lua, text: Value| {
        bytes_of("text of tollgate.xml.values", &text, |text| {
            watched(lua, |memory_max| {
                conversion::answer(lua, values.read(lua, text, &budget, memory_max).map(Value::Table))
            })
        })
    })
}

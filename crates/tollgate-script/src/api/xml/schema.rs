//! `tollgate.xml.schema` and `tollgate.xml.check`: schemas of RELAX NG for scripts.

use std::rc::Rc;

use mlua::{Lua, LuaString, Table, Value};
use tollgate_validate::{compile, limits};

use crate::arguments::bytes_of;
use crate::budget::Budget;
use crate::memory::unlimited;
use crate::require::Modules;
use crate::xml::{SchemaValue, fault, fault_table, schema_of};

/// Adds the functions to `tollgate.xml`.
pub(super) fn install(
    lua: &Lua,
    xml: &Table,
    budget: &Rc<Budget>,
    modules: &Rc<Modules>,
) -> mlua::Result<()> {
    let modules = Rc::clone(modules);
    let schema = move |lua: &Lua, file: LuaString| {
        unlimited(lua, || {
            let refused = |reason: &str| mlua::Error::runtime(format!("tollgate.xml.schema: {reason}"));
            let loader = modules
                .loading()
                .ok_or_else(|| refused("schemas are compiled only while a script is loaded"))?;
            let compiled =
                compile(&file.to_string_lossy(), &loader).map_err(|error| refused(&error.to_string()))?;
            lua.create_any_userdata(SchemaValue(compiled.for_thread(limits())))
        })
    };
    xml.raw_set("schema", lua.create_function(schema)?)?;
    let budget = Rc::clone(budget);
    let check = move |lua: &Lua, (text, schema): (Value, Value)| {
        let schema = schema_of(&schema, "schema of tollgate.xml.check")?;
        bytes_of("text of tollgate.xml.check", &text, |text| {
            let found = fault(&schema, text, &budget)?;
            unlimited(lua, || match found {
                None => Ok((Value::Boolean(true), Value::Nil)),
                Some(fault) => Ok((Value::Nil, Value::Table(fault_table(lua, &fault)?))),
            })
        })
    };
    xml.raw_set("check", lua.create_function(check)?)
}

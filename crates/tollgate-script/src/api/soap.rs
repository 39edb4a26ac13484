//! `tollgate.soap`: reads and writes envelopes of SOAP 1.1 and 1.2, by the functions of `tollgate.xml`.

use mlua::{Lua, Table};

use crate::arguments::close;

/// Creates the table `tollgate.soap`.
pub(super) fn install(lua: &Lua, xml: &Table) -> mlua::Result<Table> {
    let soap: Table = lua.load(SOAP).set_name("=soap").call(xml)?;
    close(lua, "tollgate.soap", &soap)?;
    Ok(soap)
}

const SOAP: &str = include_str!("soap/envelopes.luau");

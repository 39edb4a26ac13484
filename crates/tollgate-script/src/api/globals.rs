//! The table of globals that scripts get. The setup removes functions of Luau, adds functions of Tollgate,
//! and makes the table read-only.

use std::rc::Rc;

use mlua::{Lua, Value};

use super::{
    EmitParts, app, cookie, crypto, emit as emits, encodings, env, fetch, json, log, os, redirect, shared,
    sleep, soap, sql, time, url, uuid, xml,
};
use crate::active::ActiveCell;
use crate::arguments::close;
use crate::budget::Budget;
use crate::fetch::FetcherCell;
use crate::marks::Marks;
use crate::options::HostOptions;
use crate::require::Modules;
use crate::sys::library_guards;
use crate::waits::Waits;

/// Fills the table of globals and makes it read-only.
pub(crate) fn install(
    lua: &Lua,
    active: &Rc<ActiveCell>,
    budget: &Rc<Budget>,
    options: &HostOptions,
    waits: &Rc<Waits>,
    (emit, fetcher, modules): (&EmitParts, &Rc<FetcherCell>, &Rc<Modules>),
) -> mlua::Result<Rc<Marks>> {
    let globals = lua.globals();
    for name in TAKEN_AWAY {
        globals.raw_set(name, Value::Nil)?;
    }
    library_guards::guard(lua, options.cpu_budget)?;
    let (store_integer, call_coroutines) = lua.load(GUARD).set_name("=guard").eval()?;
    os::install(lua, &options.clock)?;
    let marks = Rc::new(Marks::new(lua, store_integer, call_coroutines)?);

    let tollgate = lua.create_table()?;
    tollgate.raw_set("json", json::install(lua, &marks, budget, options.reply_bytes_max)?)?;
    let xml = xml::install(lua, budget, modules, options)?;
    tollgate.raw_set("soap", soap::install(lua, &xml)?)?;
    tollgate.raw_set("xml", xml)?;
    tollgate.raw_set("log", log::install(lua, active)?)?;
    tollgate.raw_set("crypto", crypto::install(lua, budget)?)?;
    tollgate.raw_set("base64", encodings::install_base64(lua)?)?;
    tollgate.raw_set("hex", encodings::install_hex(lua)?)?;
    tollgate.raw_set("url", url::install(lua, budget)?)?;
    tollgate.raw_set("uuid", uuid::install(lua, &options.clock)?)?;
    tollgate.raw_set("time", time::install(lua, &options.clock)?)?;
    tollgate.raw_set("env", env::install(lua, &options.env)?)?;
    let shared = shared::install(lua, &options.shared, options.shared_bytes_max, &options.clock)?;
    tollgate.raw_set("shared", shared)?;
    tollgate.raw_set("cookie", cookie::install(lua)?)?;
    tollgate.raw_set("redirect", lua.create_function(redirect::redirect)?)?;
    tollgate.raw_set("app", app::install(lua, &options.base)?)?;
    tollgate.raw_set("sleep", sleep::install(lua, waits, &options.clock)?)?;
    tollgate.raw_set("sql", sql::install(lua, active, waits, &marks, budget)?)?;
    let emit = emits::install(lua, emit, active, &marks, budget, options)?;
    tollgate.raw_set("emit", emit)?;
    let pass = lua.create_table()?;
    pass.set_metatable(Some(marks.pass.clone()))?;
    pass.set_readonly(true);
    tollgate.raw_set("pass", pass)?;
    let bytes_max = options.reply_bytes_max;
    fetch::install(
        lua,
        &tollgate,
        &fetch::FetchParts { marks: &marks, budget, active, waits, fetcher, bytes_max },
    )?;
    close(lua, "tollgate", &tollgate)?;
    globals.raw_set("tollgate", tollgate)?;
    lua.sandbox(true)?;
    Ok(marks)
}

/// Base functions of Luau that are removed, because they reach beyond the script, or because no handler needs
/// them. Each script gets its own `require`.
const TAKEN_AWAY: [&str; 8] =
    ["collectgarbage", "gcinfo", "getfenv", "loadstring", "newproxy", "require", "setfenv", "debug"];
const GUARD: &str = include_str!("guard.luau");

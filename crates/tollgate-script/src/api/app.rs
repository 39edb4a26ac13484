//! `tollgate.app`: the path at which the app of a script is mounted, and URLs below it.

use mlua::{Lua, Table, Value};
use tollgate_http::write_path;

use super::redirect::{REFERENCE, is_reference};
use crate::arguments::{close, text};
use crate::error::shown;
use crate::memory::unlimited;

/// Creates the table `tollgate.app` of an app that is mounted at `base`.
///
/// `base` is empty at the root. Any other `base` begins with a slash and does not end with one.
pub(super) fn install(lua: &Lua, base: &str) -> mlua::Result<Table> {
    let mut written = Vec::new();
    write_path(&mut written, base);
    let app = lua.create_table()?;
    app.raw_set("base", lua.create_string(base)?)?;
    app.raw_set("url", lua.create_function(move |lua, path: Value| url(lua, &written, &path))?)?;
    let base = base.to_owned();
    app.raw_set("below", lua.create_function(move |lua, path: Value| below(lua, &base, &path))?)?;
    close(lua, "tollgate.app", &app)?;
    Ok(app)
}

/// Returns a URL: the encoded base, followed by the reference.
fn url(lua: &Lua, base: &[u8], reference: &Value) -> mlua::Result<mlua::LuaString> {
    let given = text("path of tollgate.app.url", reference)?;
    // At the root, a reference that begins with `//` would name a host (RFC 3986 section 4.2).
    if !given.starts_with(b"/") || (base.is_empty() && given.starts_with(b"//")) {
        return Err(refused(&given, "a path below the app that begins with one slash"));
    }
    if !is_reference(&given) {
        return Err(refused(&given, REFERENCE));
    }
    unlimited(lua, || lua.create_string([base, &given].concat()))
}

fn refused(given: &[u8], allowed: &str) -> mlua::Error {
    let given = shown(given);
    mlua::Error::runtime(format!("path of tollgate.app.url is \"{given}\": allowed is {allowed}"))
}

/// Returns the part of a path below the base, or nil for any other path.
fn below(lua: &Lua, base: &str, path: &Value) -> mlua::Result<Value> {
    let given = text("path of tollgate.app.below", path)?;
    match given.strip_prefix(base.as_bytes()) {
        Some(rest) if rest.starts_with(b"/") => unlimited(lua, || lua.create_string(rest).map(Value::String)),
        _ => Ok(Value::Nil),
    }
}

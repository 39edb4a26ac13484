//! `tollgate.redirect(location, status)`: a reply that redirects the client (RFC 9110 section 15.4).

use mlua::{Lua, Table, Value};

use crate::arguments::text;
use crate::error::shown;
use crate::memory::unlimited;

/// Creates the reply, a table as a script would write it.
pub(super) fn redirect(lua: &Lua, (location, status): (Value, Value)) -> mlua::Result<Table> {
    let given = text("location of tollgate.redirect", &location)?;
    if given.is_empty() || !is_reference(&given) {
        return Err(mlua::Error::runtime(format!(
            "location of tollgate.redirect is \"{}\": allowed is {REFERENCE}",
            shown(&given)
        )));
    }
    let status = match status {
        Value::Nil => STATUS,
        Value::Integer(status) if STATUSES.contains(&status) => status,
        Value::Integer(status) => return Err(status_refused(&status.to_string())),
        Value::Number(status) => return Err(status_refused(&status.to_string())),
        other => return Err(status_refused(&format!("a {}", other.type_name()))),
    };
    unlimited(lua, || {
        let headers = lua.create_table_from([("location", &location)])?;
        let reply = lua.create_table()?;
        reply.raw_set("status", status)?;
        reply.raw_set("headers", headers)?;
        Ok(reply)
    })
}

/// Returns whether a text is a URI reference: ASCII without blanks and backslashes (RFC 3986 section 2).
///
/// Browsers read a backslash as a slash, so `/\host` would lead to another server.
pub(super) fn is_reference(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'\\')
}

pub(super) const REFERENCE: &str = "visible ASCII without backslashes: use tollgate.url.encode";

fn status_refused(found: &str) -> mlua::Error {
    mlua::Error::runtime(format!(
        "status of tollgate.redirect is {found}: allowed are 301, 302, 303, 307, 308"
    ))
}

const STATUS: i64 = 302;
const STATUSES: [i64; 5] = [301, 302, 303, 307, 308];

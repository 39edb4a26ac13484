//! Answers for `tollgate.redirect(location, status)`: a reply that leads elsewhere (RFC 9110 section 15.4).

use mlua::{Lua, Table, Value};

use super::arguments::text;
use super::unlimited;
use crate::error::shown;

/// Makes the reply, a table as a script would write it.
pub(super) fn redirect(lua: &Lua, (location, status): (Value, Value)) -> mlua::Result<Table> {
    let given = text("location of tollgate.redirect", &location)?;
    // A URI reference is ASCII without blanks (RFC 3986 section 2).
    if given.is_empty() || !given.iter().all(u8::is_ascii_graphic) {
        return Err(mlua::Error::runtime(format!(
            "location of tollgate.redirect is \"{}\": allowed is visible ASCII, tollgate.url.encode gives that",
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

fn status_refused(found: &str) -> mlua::Error {
    mlua::Error::runtime(format!(
        "status of tollgate.redirect is {found}: allowed are 301, 302, 303, 307, 308"
    ))
}

const STATUS: i64 = 302;
const STATUSES: [i64; 5] = [301, 302, 303, 307, 308];

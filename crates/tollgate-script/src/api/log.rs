//! `tollgate.log` and `print`: log lines of a script become `tracing` events, with the position in the script
//! and the request id.

use std::borrow::Cow;
use std::rc::Rc;

use mlua::{Lua, Table, Value, Variadic};
use tracing::Level;

use crate::active::ActiveCell;
use crate::arguments::close;
use crate::error::flat;
use crate::request::Request;

/// Creates the table with `debug`, `info`, `warn` and `error`, and `print`, which is `info`.
pub(super) fn install(lua: &Lua, active: &Rc<ActiveCell>) -> mlua::Result<Table> {
    let log = lua.create_table()?;
    for level in [Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR] {
        let active = Rc::clone(active);
        let write = lua.create_function(move |lua, values: Variadic<Value>| {
            let request = active.borrow().as_ref().map(|active| Rc::clone(&active.request));
            write_line(lua, level, request.as_deref(), &values)
        })?;
        if level == Level::INFO {
            lua.globals().raw_set("print", write.clone())?;
        }
        log.raw_set(level.as_str().to_ascii_lowercase(), write)?;
    }
    close(lua, "tollgate.log", &log)?;
    Ok(log)
}

fn write_line(lua: &Lua, level: Level, request: Option<&Request>, values: &[Value]) -> mlua::Result<()> {
    let line = joined(values)?;
    let id = request.map(|request| request.id.to_string());
    let trace = request.and_then(Request::trace_text);
    let at = place(lua);
    match level {
        Level::ERROR => tracing::error!(target: "tollgate::script", at, id, trace, "{line}"),
        Level::WARN => tracing::warn!(target: "tollgate::script", at, id, trace, "{line}"),
        Level::DEBUG => tracing::debug!(target: "tollgate::script", at, id, trace, "{line}"),
        _ => tracing::info!(target: "tollgate::script", at, id, trace, "{line}"),
    }
    Ok(())
}

fn joined(values: &[Value]) -> mlua::Result<String> {
    let mut line = String::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            line.push('\t');
        }
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                line.push_str(&String::from_utf8_lossy(&text[..text.len().min(TEXT_BYTES_MAX)]));
            }
            other => line.push_str(&other.to_string().map_err(flat)?),
        }
        if line.len() > LINE_BYTES_MAX {
            while line.len() > LINE_BYTES_MAX {
                line.pop();
            }
            line.push_str("...");
            break;
        }
    }
    Ok(line)
}

fn place(lua: &Lua) -> String {
    lua.inspect_stack(1, |frame| {
        let file = frame.source().short_src.map(Cow::into_owned).unwrap_or_default();
        frame.current_line().map_or_else(|| file.clone(), |line| format!("{file}:{line}"))
    })
    .unwrap_or_default()
}

const LINE_BYTES_MAX: usize = 4096;
/// Maximum bytes of one text that are used. A longer text makes the line exceed its limit, even after a
/// truncated character is dropped.
const TEXT_BYTES_MAX: usize = LINE_BYTES_MAX + 4;

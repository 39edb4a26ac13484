//! Answers for XML 1.0 in both directions, straight between bytes and Luau values, and for what stands for an element there:
//! `{ tag = "line", attr = { id = "7" }, "text", { tag = "b" } }`, as LuaExpat's object model has it.
//!
//! - Encoding escapes by construction: texts and values of attributes cannot become markup, names that are none are errors with
//!   their path. A table without `tag` is a list of what stands in its place. Attributes are in the order of their names.
//! - Decoding is strict: one element, names and characters of XML alone, UTF-8 alone. There is no DTD: `<!DOCTYPE` is refused, so
//!   nothing outside is ever read, and no entities are known but the five. Names stay as they are written, prefix and all.
//! - White space between elements is dropped where an element has no other text.
//! - Depth is bounded (128), output by `reply_bytes_max`. Both directions watch the CPU budget, decoding also the memory limit.

mod characters;
mod decode;
mod encode;

pub(crate) use encode::document;

use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::arguments::{bytes_of, close};
use super::json::DecodeError;
use super::{string_within, watched};
use crate::budget::Budget;
use crate::sys::seen;

const DEPTH_MAX: usize = 128;

/// Makes the table `tollgate.xml`.
pub(super) fn install(lua: &Lua, budget: &Rc<Budget>, bytes_max: usize) -> mlua::Result<Table> {
    let xml: Table = lua.load(FINDING).set_name("=xml").call(())?;
    let own = Rc::clone(budget);
    let encode = move |lua: &Lua, value: Value| {
        watched(lua, |memory_max| {
            let encoded = seen::look(lua, &value, |value| encode::element(value, bytes_max, &own))?;
            let encoded = encoded.map_err(|fault| mlua::Error::runtime(fault.in_words("value")))?;
            string_within(lua, &encoded, memory_max)
        })
    };
    xml.raw_set("encode", lua.create_function(encode)?)?;
    let own = Rc::clone(budget);
    let decode = move |lua: &Lua, text: Value| {
        bytes_of("text of tollgate.xml.decode", &text, |text| {
            watched(lua, |memory_max| answer(lua, text, &own, memory_max))
        })
    };
    xml.raw_set("decode", lua.create_function(decode)?)?;
    let escape = move |lua: &Lua, text: Value| {
        bytes_of("text of tollgate.xml.escape", &text, |text| {
            watched(lua, |memory_max| {
                let escaped = encode::escaped(text, bytes_max);
                let escaped = escaped.map_err(|fault| mlua::Error::runtime(fault.in_words("text")))?;
                string_within(lua, &escaped, memory_max)
            })
        })
    };
    xml.raw_set("escape", lua.create_function(escape)?)?;
    close(lua, "tollgate.xml", &xml)?;
    Ok(xml)
}

/// Decodes as a script is answered: the element, or nil and the reason.
///
/// # Errors
/// A budget of the call; a text that is no XML is an answer, not an error.
pub(crate) fn answer(
    lua: &Lua,
    text: &[u8],
    budget: &Budget,
    memory_max: usize,
) -> mlua::Result<(Value, Value)> {
    match decode::decode(lua, text, budget, memory_max) {
        Ok(element) => Ok((Value::Table(element), Value::Nil)),
        Err(DecodeError::Text(reason)) => Ok((Value::Nil, Value::String(lua.create_string(reason)?))),
        Err(DecodeError::Lua(error)) => Err(error),
    }
}

/// What finds elements in others.
const FINDING: &str = include_str!("xml/finding.luau");

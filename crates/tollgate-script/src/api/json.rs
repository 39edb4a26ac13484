//! Answers for JSON in both directions (RFC 8259), straight between bytes and Luau values.
//!
//! - Numbers: a number that is whole and within 64 bits leaves as an integer (`1.0` is `1`, `-0` is `0`), all others
//!   in the shortest form that reads back the same. Integers beyond 2^53 arrive as Luau 64-bit integers and leave
//!   exactly; beyond 64 bits they are refused rather than rounded. NaN and infinities are errors.
//! - Tables: keys 1..n make an array, text keys an object, with its keys in the order of their bytes. An empty table
//!   is `{}` unless `json.array` marked it. Mixed keys, holes and other keys are errors that name the path.
//! - `null` is the value `json.null`. Of two equal keys in a text the last one counts.
//! - Depth is bounded (128), output by `reply_bytes_max`, so a table that contains itself ends in an error. Both
//!   directions watch the CPU budget, decoding also the memory limit.

mod decode;
mod encode;

pub(crate) use decode::{DecodeError, decode};
pub(crate) use encode::{Encoder, Fault, Scratch};

use std::rc::Rc;

use mlua::{Lua, LuaString, Table, Value};

use super::arguments::close;
use super::{Marks, string_within, watched};
use crate::budget::Budget;
use crate::sys::seen;

const DEPTH_MAX: usize = 128;

/// Makes the table `tollgate.json`.
pub(super) fn install(
    lua: &Lua,
    marks: &Rc<Marks>,
    budget: &Rc<Budget>,
    bytes_max: usize,
) -> mlua::Result<Table> {
    let json = lua.create_table()?;
    json.raw_set("null", Value::NULL)?;
    let (own_marks, own_budget) = (Rc::clone(marks), Rc::clone(budget));
    let encode = move |lua: &Lua, value: Value| {
        watched(lua, |memory_max| {
            let mut scratch = Scratch::default();
            let encoder = Encoder::new(&mut scratch, bytes_max, &own_marks, &own_budget);
            let encoded = seen::look(lua, &value, |value| encoder.encode(value))?;
            let encoded = encoded.map_err(|fault| mlua::Error::runtime(fault.in_words("value")))?;
            string_within(lua, encoded, memory_max)
        })
    };
    json.raw_set("encode", lua.create_function(encode)?)?;
    let (own_marks, own_budget) = (Rc::clone(marks), Rc::clone(budget));
    let decode = move |lua: &Lua, text: LuaString| {
        let text = text.as_bytes();
        watched(lua, |memory_max| answer(lua, &text, &own_marks, &own_budget, memory_max))
    };
    json.raw_set("decode", lua.create_function(decode)?)?;
    let own_marks = Rc::clone(marks);
    let array = move |lua: &Lua, table: Option<Table>| {
        let table = table.map_or_else(|| lua.create_table(), Ok)?;
        table.set_metatable(Some(own_marks.array.clone()))?;
        Ok(table)
    };
    json.raw_set("array", lua.create_function(array)?)?;
    close(lua, "tollgate.json", &json)?;
    Ok(json)
}

/// Decodes as a script is answered: the value, or nil and the reason.
///
/// # Errors
/// A budget of the call; a text that is no JSON is an answer, not an error.
pub(crate) fn answer(
    lua: &Lua,
    text: &[u8],
    marks: &Marks,
    budget: &Budget,
    memory_max: usize,
) -> mlua::Result<(Value, Value)> {
    match decode(lua, text, marks, budget, memory_max) {
        Ok(value) => Ok((value, Value::Nil)),
        Err(DecodeError::Text(reason)) => Ok((Value::Nil, Value::String(lua.create_string(reason)?))),
        Err(DecodeError::Lua(error)) => Err(error),
    }
}

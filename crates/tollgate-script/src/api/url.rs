//! `tollgate.url`: percent-encoding (RFC 3986 section 2) and queries (WHATWG URL,
//! application/x-www-form-urlencoded).

use std::rc::Rc;

use mlua::{Lua, Table, Value};
use tollgate_http::query_pairs;

use super::encodings::{ValueOrReason, answer};
use crate::arguments::{bytes_of, close, text, unfit};
use crate::budget::Budget;
use crate::error::shown;
use crate::memory::{check_memory, string_within, watched};

/// Creates the table `tollgate.url`.
pub(super) fn install(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<Table> {
    let url = lua.create_table()?;
    url.raw_set("encode", lua.create_function(|lua, data: Value| encode(lua, &data))?)?;
    url.raw_set("decode", lua.create_function(|lua, text: Value| decode(lua, &text))?)?;
    let own = Rc::clone(budget);
    let parse = move |lua: &Lua, query: Value| parse_query(lua, &query, &own);
    url.raw_set("parse_query", lua.create_function(parse)?)?;
    let own = Rc::clone(budget);
    let all = move |lua: &Lua, (query, name): (Value, Value)| all_query(lua, &query, &name, &own);
    url.raw_set("all_query", lua.create_function(all)?)?;
    let own = Rc::clone(budget);
    let build = move |lua: &Lua, fields: Value| build_query(lua, &fields, &own);
    url.raw_set("build_query", lua.create_function(build)?)?;
    close(lua, "tollgate.url", &url)?;
    Ok(url)
}

fn encode(lua: &Lua, data: &Value) -> mlua::Result<mlua::LuaString> {
    watched(lua, |memory_max| {
        bytes_of("tollgate.url.encode", data, |data| {
            check_memory(lua, data.len().saturating_mul(3), memory_max)?;
            let mut encoded = Vec::with_capacity(data.len());
            push_encoded(&mut encoded, data);
            lua.create_string(encoded)
        })
    })
}

fn decode(lua: &Lua, encoded: &Value) -> mlua::Result<ValueOrReason> {
    watched(lua, |memory_max| {
        let encoded = text("tollgate.url.decode", encoded)?;
        check_memory(lua, encoded.len(), memory_max)?;
        answer(lua, decoded(&encoded))
    })
}

/// Returns the first value of each name, like `req.query`.
fn parse_query(lua: &Lua, query: &Value, budget: &Budget) -> mlua::Result<Table> {
    watched(lua, |memory_max| {
        let query = text("tollgate.url.parse_query", query)?;
        let fields = lua.create_table()?;
        for (name, value) in query_pairs(String::from_utf8_lossy(&query).as_bytes()) {
            check(lua, budget, memory_max)?;
            let name = lua.create_string(&*name)?;
            if fields.raw_get::<Value>(&name)?.is_nil() {
                fields.raw_set(name, string_within(lua, &value, memory_max)?)?;
            }
        }
        Ok(fields)
    })
}

/// Returns all values of one name, in their order.
fn all_query(lua: &Lua, query: &Value, name: &Value, budget: &Budget) -> mlua::Result<Table> {
    watched(lua, |memory_max| {
        let query = text("query of tollgate.url.all_query", query)?;
        let name = text("name of tollgate.url.all_query", name)?;
        let values = lua.create_table()?;
        for (key, value) in query_pairs(String::from_utf8_lossy(&query).as_bytes()) {
            check(lua, budget, memory_max)?;
            if key[..] == name[..] {
                values.raw_push(string_within(lua, &value, memory_max)?)?;
            }
        }
        Ok(values)
    })
}

/// Returns a query such as `a=1&b=2&b=3`. Names are sorted by their bytes, and lists keep their order.
pub(super) fn build_query(lua: &Lua, fields: &Value, budget: &Budget) -> mlua::Result<mlua::LuaString> {
    let Value::Table(fields) = fields else {
        return Err(unfit("tollgate.url.build_query", fields, "a table"));
    };
    watched(lua, |memory_max| {
        let mut names = Vec::new();
        for pair in fields.pairs::<Value, Value>() {
            check(lua, budget, memory_max)?;
            let (key, value) = pair?;
            let Value::String(name) = key else {
                return Err(unfit("key of tollgate.url.build_query", &key, "a string"));
            };
            names.push((name.as_bytes().to_vec(), value));
        }
        names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut query = Vec::new();
        for (name, value) in &names {
            let Value::Table(list) = value else {
                push_pair(lua, &mut query, name, value, memory_max)?;
                continue;
            };
            for index in 1..=list.raw_len() {
                check(lua, budget, memory_max)?;
                push_pair(lua, &mut query, name, &list.raw_get(index)?, memory_max)?;
            }
        }
        string_within(lua, &query, memory_max)
    })
}

fn push_pair(
    lua: &Lua,
    query: &mut Vec<u8>,
    name: &[u8],
    value: &Value,
    memory_max: usize,
) -> mlua::Result<()> {
    let value = match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Number(number) => number.to_string().into_bytes(),
        Value::Boolean(flag) => flag.to_string().into_bytes(),
        other => {
            let what = format!("value of \"{}\" of tollgate.url.build_query", shown(name));
            return Err(unfit(&what, other, "a string, a number, a boolean, a list of them"));
        }
    };
    check_memory(lua, query.len() + 3 * (name.len() + value.len()), memory_max)?;
    if !query.is_empty() {
        query.push(b'&');
    }
    push_encoded(query, name);
    query.push(b'=');
    push_encoded(query, &value);
    Ok(())
}

/// Checks the limits of the call. Loops in Rust must call this function, because they have no interrupts.
fn check(lua: &Lua, budget: &Budget, memory_max: usize) -> mlua::Result<()> {
    if budget.is_exhausted() {
        return Err(mlua::Error::runtime("cpu budget of the call is used up"));
    }
    check_memory(lua, 0, memory_max)
}

/// Leaves unreserved characters unescaped (RFC 3986 section 2.3).
fn push_encoded(out: &mut Vec<u8>, data: &[u8]) {
    for &byte in data {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

/// Decodes escapes. `+` stays a plus, because it means a blank only in queries.
fn decoded(encoded: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(encoded.len());
    let mut at = 0;
    while let Some(&byte) = encoded.get(at) {
        if byte == b'%' {
            let digit = |place: usize| encoded.get(place).and_then(|&digit| char::from(digit).to_digit(16));
            let escape = digit(at + 1).zip(digit(at + 2)).and_then(|(a, b)| u8::try_from(a << 4 | b).ok());
            out.push(escape.ok_or_else(|| format!("malformed escape at byte {}", at + 1))?);
            at += 3;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    Ok(out)
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

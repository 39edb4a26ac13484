//! `tollgate.shared`: the functions of scripts for the [`SharedStore`].

use std::sync::Arc;
use std::time::Duration;

use mlua::{Lua, Table, Value};

use crate::arguments::{close, text, unfit};
use crate::clock::Clock;
use crate::error::shown;
use crate::memory::{string_within, watched};
use crate::shared::{SharedError, SharedStore, SharedValue, When, Writing};

/// Creates the table `tollgate.shared`.
pub(super) fn install(
    lua: &Lua,
    shared: &Arc<SharedStore>,
    bytes_max: usize,
    clock: &Clock,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let (own, time) = (Arc::clone(shared), clock.clone());
    let get = move |lua: &Lua, key: Value| {
        let found = own.value(&key_of(&key)?, time.now());
        found.map_or(Ok(Value::Nil), |value| given_back(lua, value))
    };
    table.raw_set("get", lua.create_function(get)?)?;
    let (own, time) = (Arc::clone(shared), clock.clone());
    let set = move |_: &Lua, (key, value, ttl): (Value, Value, Value)| {
        let writing = writing(&time, &ttl, bytes_max)?;
        own.put(&key_of(&key)?, &value_of(&value)?, When::Always, writing)
            .map(drop)
            .map_err(mlua::Error::from)
    };
    table.raw_set("set", lua.create_function(set)?)?;
    let (own, time) = (Arc::clone(shared), clock.clone());
    let add = move |_: &Lua, (key, value, ttl): (Value, Value, Value)| {
        let writing = writing(&time, &ttl, bytes_max)?;
        own.put(&key_of(&key)?, &value_of(&value)?, When::Absent, writing).map_err(mlua::Error::from)
    };
    table.raw_set("add", lua.create_function(add)?)?;
    let (own, time) = (Arc::clone(shared), clock.clone());
    let compare_and_set = move |_: &Lua, (key, old, new, ttl): (Value, Value, Value, Value)| {
        let writing = writing(&time, &ttl, bytes_max)?;
        let old = if old.is_nil() { None } else { Some(value_of(&old)?) };
        own.put(&key_of(&key)?, &value_of(&new)?, When::Is(old.as_ref()), writing).map_err(mlua::Error::from)
    };
    table.raw_set("compare_and_set", lua.create_function(compare_and_set)?)?;
    let (own, time) = (Arc::clone(shared), clock.clone());
    let incr = move |_: &Lua, (key, by, init, ttl): (Value, Value, Value, Value)| {
        let (by, init) = (number_or("by", &by, 1.0)?, number_or("init", &init, 0.0)?);
        own.increase(&key_of(&key)?, by, init, writing(&time, &ttl, bytes_max)?).map_err(mlua::Error::from)
    };
    table.raw_set("incr", lua.create_function(incr)?)?;
    let (own, time) = (Arc::clone(shared), clock.clone());
    let delete = move |_: &Lua, key: Value| Ok(own.delete(&key_of(&key)?, time.now()));
    table.raw_set("delete", lua.create_function(delete)?)?;
    close(lua, "tollgate.shared", &table)?;
    Ok(table)
}

impl From<SharedError> for mlua::Error {
    fn from(error: SharedError) -> Self {
        Self::runtime(error.to_string())
    }
}

fn given_back(lua: &Lua, value: SharedValue) -> mlua::Result<Value> {
    Ok(match value {
        SharedValue::Boolean(flag) => Value::Boolean(flag),
        SharedValue::Number(number) => Value::Number(number),
        SharedValue::Text(bytes) => {
            Value::String(watched(lua, |memory_max| string_within(lua, &bytes, memory_max))?)
        }
    })
}

fn key_of(key: &Value) -> mlua::Result<mlua::BorrowedBytes> {
    let key = text("key of tollgate.shared", key)?;
    if key.len() > KEY_BYTES_MAX {
        return Err(mlua::Error::runtime(format!(
            "key of tollgate.shared exceeds limit: {} bytes, limit {KEY_BYTES_MAX} bytes",
            key.len()
        )));
    }
    Ok(key)
}

fn value_of(value: &Value) -> mlua::Result<SharedValue> {
    match value {
        Value::Boolean(flag) => Ok(SharedValue::Boolean(*flag)),
        Value::Integer(_) | Value::Number(_) => number("value", value).map(SharedValue::Number),
        Value::String(text) => Ok(SharedValue::Text(Arc::from(&*text.as_bytes()))),
        other => Err(unfit("value of tollgate.shared", other, "a string, a number, a boolean")),
    }
}

fn number_or(what: &str, value: &Value, default: f64) -> mlua::Result<f64> {
    if value.is_nil() { Ok(default) } else { number(what, value) }
}

/// Reads a number. Integers that a double would round are refused.
fn number(what: &str, value: &Value) -> mlua::Result<f64> {
    match value {
        Value::Number(number) => Ok(*number),
        Value::Integer(number) if number.unsigned_abs() <= INTEGER_MAX => Ok(*number as f64),
        Value::Integer(number) => Err(mlua::Error::runtime(format!(
            "{what} of tollgate.shared is {number}: allowed are integers up to 2^53"
        ))),
        other => Err(unfit(&format!("{what} of tollgate.shared"), other, "a number")),
    }
}

fn writing(time: &Clock, ttl: &Value, bytes_max: usize) -> mlua::Result<Writing> {
    let seconds = match ttl {
        Value::Nil => None,
        value => Some(number("ttl", value)?),
    };
    let ttl = match seconds {
        None => None,
        Some(seconds) if (TTL_MIN_S..=TTL_MAX_S).contains(&seconds) => Some(Duration::from_secs_f64(seconds)),
        Some(seconds) => {
            let found = shown(seconds.to_string().as_bytes());
            return Err(mlua::Error::runtime(format!(
                "ttl of tollgate.shared is {found}: allowed are seconds from 0.001 to 1e9"
            )));
        }
    };
    Ok(Writing { now: time.now(), ttl, bytes_max })
}

const KEY_BYTES_MAX: usize = 1024;
const INTEGER_MAX: u64 = 1 << 53;
const TTL_MIN_S: f64 = 0.001;
const TTL_MAX_S: f64 = 1e9;

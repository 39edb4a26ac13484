//! Checks of the arguments that scripts pass to our functions, and read-only tables of the API.

use mlua::{Lua, Table, Value};

use crate::error::shown;
use crate::nearest::hint;

/// Makes a table of the API read-only. After that, reading an unknown name is an error that suggests the
/// nearest name.
///
/// # Errors
/// Out of memory.
pub(crate) fn close(lua: &Lua, path: &'static str, table: &Table) -> mlua::Result<()> {
    let names = table.pairs::<String, Value>().map(|pair| pair.map(|(name, _)| name));
    let names = names.collect::<mlua::Result<Vec<_>>>()?;
    let refuse = lua.create_function(move |_, (_, key): (Value, Value)| -> mlua::Result<()> {
        let Value::String(name) = key else {
            return Err(mlua::Error::runtime(format!("{path} has no field of type {}", kind(&key))));
        };
        let name = shown(&name.as_bytes());
        let hint = hint(&name, names.iter().map(String::as_str));
        Err(mlua::Error::runtime(format!("{path} has no field \"{name}\"{hint}")))
    })?;
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", refuse)?;
    metatable.raw_set("__metatable", path)?;
    metatable.set_readonly(true);
    table.set_metatable(Some(metatable))?;
    table.set_readonly(true);
    Ok(())
}

/// Passes the bytes of a string or a buffer to `f`.
///
/// # Errors
/// Any other value. The error names the value as `what`.
pub(crate) fn bytes_of<R>(
    what: &str,
    value: &Value,
    f: impl FnOnce(&[u8]) -> mlua::Result<R>,
) -> mlua::Result<R> {
    match value {
        Value::String(text) => f(&text.as_bytes()),
        Value::Buffer(buffer) => f(&buffer.to_vec()),
        other => Err(unfit(what, other, "a string, a buffer")),
    }
}

/// Reads a whole number within `allowed`.
///
/// # Errors
/// Any other value. The error names the value as `what`.
pub(crate) fn whole_number(
    what: &str,
    value: &Value,
    allowed: std::ops::RangeInclusive<i64>,
) -> mlua::Result<i64> {
    let (first, last) = (allowed.start(), allowed.end());
    match value {
        Value::Integer(number) if allowed.contains(number) => Ok(*number),
        Value::Integer(number) => Err(out_of_range(what, number, first, last)),
        Value::Number(number) => Err(out_of_range(what, number, first, last)),
        other => Err(unfit(what, other, &format!("a whole number from {first} to {last}"))),
    }
}

fn out_of_range(what: &str, found: impl std::fmt::Display, first: &i64, last: &i64) -> mlua::Error {
    mlua::Error::runtime(format!("{what} is {found}: allowed is a whole number from {first} to {last}"))
}

/// Reads true, false or nil. Nil counts as false.
///
/// # Errors
/// Any other value. The error names the value as `what`.
pub(crate) fn flag(what: &str, value: &Value) -> mlua::Result<bool> {
    match value {
        Value::Nil => Ok(false),
        Value::Boolean(flag) => Ok(*flag),
        other => Err(unfit(what, other, "true, false")),
    }
}

/// Reads a string.
///
/// # Errors
/// Any other value. The error names the value as `what`.
pub(crate) fn text(what: &str, value: &Value) -> mlua::Result<mlua::BorrowedBytes> {
    match value {
        Value::String(text) => Ok(text.as_bytes()),
        other => Err(unfit(what, other, "a string")),
    }
}

/// Reads the fields of a table of options, in the order of `names`. No metamethod of the table runs.
///
/// # Errors
/// A value that is neither a table nor nil, or a field that is not in `names`.
pub(crate) fn options<const N: usize>(
    what: &str,
    value: &Value,
    names: [&str; N],
) -> mlua::Result<[Value; N]> {
    let mut options = [const { Value::Nil }; N];
    let table = match value {
        Value::Nil => return Ok(options),
        Value::Table(table) => table,
        other => return Err(unfit(what, other, "a table")),
    };
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let name = match &key {
            Value::String(name) => shown(&name.as_bytes()),
            other => format!("of type {}", kind(other)),
        };
        let Some(index) = names.iter().position(|known| **known == name) else {
            let (hint, allowed) = (hint(&name, names), names.join(", "));
            return Err(mlua::Error::runtime(format!(
                "{what} has an unknown field \"{name}\"{hint}: allowed are {allowed}"
            )));
        };
        options[index] = value;
    }
    Ok(options)
}

/// Returns the type of a value, as script authors know it.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        other => other.type_name(),
    }
}

/// Returns the error for a value of the wrong type.
#[cold]
pub(crate) fn unfit(what: &str, found: &Value, allowed: &str) -> mlua::Error {
    let found = kind(found);
    let verb = if allowed.contains(", ") { "are" } else { "is" };
    mlua::Error::runtime(format!("{what} is a {found}: allowed {verb} {allowed}"))
}

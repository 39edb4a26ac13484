//! Values at paths, read in one pass and without a tree.

use mlua::{Lua, LuaString, Table, Value};
use tollgate_xml::{Doctype, PathSet, PathValues, PrefixBinding, Reader};

use super::decode::limits;
use crate::budget::Budget;
use crate::conversion::DecodeError;
use crate::memory::check_memory;

/// Paths with the names of their values.
pub(crate) struct Values {
    names: Vec<LuaString>,
    is_number: Vec<bool>,
    set: PathSet,
    doctype: Doctype,
}

impl Values {
    /// Compiles paths, in pairs of a name and a path. `number(path)` is a number.
    ///
    /// # Errors
    /// The name of the path that is outside of the subset, and the reason.
    pub(crate) fn new(
        paths: Vec<(LuaString, String)>,
        namespaces: &[(String, String)],
        doctype: Doctype,
    ) -> Result<Self, String> {
        let prefixes: Vec<_> = namespaces.iter().map(|(prefix, uri)| PrefixBinding { prefix, uri }).collect();
        let (names, texts): (Vec<_>, Vec<_>) = paths.into_iter().unzip();
        let plain: Vec<_> = texts.iter().map(|text| number_path(text).unwrap_or(text)).collect();
        let is_number = texts.iter().map(|text| number_path(text).is_some()).collect();
        let set = PathSet::new(plain, &prefixes)
            .map_err(|error| format!("{}: {error}", names[error.path].to_string_lossy()))?;
        Ok(Self { names, is_number, set, doctype })
    }

    /// Reads the values of a text into a table. A path that finds nothing has no field.
    ///
    /// # Errors
    /// `Text` says why the text is no XML. `Lua` is an error of the VM.
    pub(crate) fn read(
        &self,
        lua: &Lua,
        text: &[u8],
        budget: &Budget,
        memory_max: usize,
    ) -> Result<Table, DecodeError> {
        let bytes_max = memory_max.saturating_sub(lua.used_memory());
        let (mut reader, mut values) =
            (Reader::new(limits(self.doctype)), PathValues::new(&self.set, bytes_max));
        let mut read = Ok(());
        for piece in text.chunks(BYTES_PER_CHECK) {
            if budget.is_exhausted() {
                return Err(mlua::Error::runtime("cpu budget of the call is used up").into());
            }
            read = read.and_then(|()| reader.feed(piece, &mut values));
        }
        let read = read.and_then(|()| reader.finish(&mut values));
        if values.is_too_long() {
            check_memory(lua, usize::MAX, memory_max)?;
        }
        read.map_err(|error| DecodeError::Text(error.to_string()))?;
        let found = values.finish().unwrap_or_default();
        let table = lua.create_table_with_capacity(0, found.len())?;
        for ((name, is_number), value) in self.names.iter().zip(&self.is_number).zip(found) {
            match value {
                None => {}
                Some(text) if *is_number => table.raw_set(name, number_of(&text))?,
                Some(text) => table.raw_set(name, lua.create_string(text)?)?,
            }
        }
        Ok(table)
    }
}

/// Returns the path in `number(path)`.
fn number_path(text: &str) -> Option<&str> {
    text.trim().strip_prefix("number(")?.strip_suffix(')').map(str::trim)
}

/// Returns the number that a text is, or nil.
fn number_of(text: &str) -> Value {
    let text = text.trim();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    match text.parse::<f64>() {
        Ok(number) if is_plain && number.is_finite() => Value::Number(number),
        _ => Value::Nil,
    }
}

const BYTES_PER_CHECK: usize = 64 << 10;

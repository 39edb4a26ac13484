//! `req:form()` and `req:all("form", name)`: forms in both encodings.
//!
//! For a missing or malformed form, the result is nil and the reason. The number of fields and the bytes of
//! part headers are bounded. The memory limit of the call bounds the values, and its CPU budget bounds the
//! time.

use std::borrow::Cow;

use mlua::{Lua, Table, Value, Variadic};
use tollgate_http::{FormPart, FormParts, RequestHead, query_pairs};

use crate::budget::Budget;
use crate::error::shown;
use crate::memory::{check_memory, string_within};
use crate::text::utf8;

/// Reads forms within the limits of a call.
pub(super) struct FormReader<'a> {
    pub(super) lua: &'a Lua,
    pub(super) budget: &'a Budget,
    pub(super) memory_max: usize,
}

/// Reason why there is no form.
enum Failure {
    /// The reason for the script.
    Reason(String),
    /// An error of a budget of the call.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Failure {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

impl FormReader<'_> {
    /// Returns the first value of each field, or nil and the reason.
    pub(super) fn firsts(&self, head: &RequestHead, body: &[u8]) -> mlua::Result<(Value, Value)> {
        let fields = self.lua.create_table()?;
        let read = self.each(head, body, |field| {
            let name = string_within(self.lua, &field.name(), self.memory_max)?;
            if fields.raw_get::<Value>(&name)?.is_nil() {
                fields.raw_set(name, self.value(&field)?)?;
            }
            Ok(())
        });
        self.answer(fields, read)
    }

    /// Returns all values of one field, or nil and the reason.
    pub(super) fn all(&self, head: &RequestHead, body: &[u8], name: &[u8]) -> mlua::Result<Variadic<Value>> {
        let values = self.lua.create_table()?;
        let read = self.each(head, body, |field| {
            if field.name()[..] == *name {
                values.raw_push(self.value(&field)?)?;
            }
            Ok(())
        });
        // Without an error, the list is the only return value, as for the other parts of a request. A second
        // value would become another argument if a script passes the result to a function.
        Ok(match self.answer(values, read)? {
            (values, Value::Nil) => Variadic::from_iter([values]),
            (nothing, reason) => Variadic::from_iter([nothing, reason]),
        })
    }

    fn answer(&self, table: Table, read: Result<(), Failure>) -> mlua::Result<(Value, Value)> {
        match read {
            Ok(()) => Ok((Value::Table(table), Value::Nil)),
            Err(Failure::Reason(reason)) => Ok((Value::Nil, Value::String(self.lua.create_string(reason)?))),
            Err(Failure::Lua(error)) => Err(error),
        }
    }

    fn each(
        &self,
        head: &RequestHead,
        body: &[u8],
        mut visit: impl FnMut(Field<'_>) -> mlua::Result<()>,
    ) -> Result<(), Failure> {
        let content_type = content_type(head)?;
        let mut count = 0;
        let mut visit = |field| {
            count += 1;
            if count > FIELDS_MAX {
                return Err(Failure::Reason(format!("form exceeds limit: {FIELDS_MAX} fields")));
            }
            if self.budget.is_exhausted() {
                return Err(mlua::Error::runtime("cpu budget of the call is used up").into());
            }
            Ok(visit(field)?)
        };
        let media_type = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        if media_type.eq_ignore_ascii_case(b"multipart/form-data") {
            let malformed = |error: tollgate_http::FormError| Failure::Reason(error.to_string());
            for part in FormParts::new(content_type, body).map_err(malformed)? {
                visit(Field::Part(part.map_err(malformed)?))?;
            }
            return Ok(());
        }
        if !media_type.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
            return Err(no_form(&format!("\"{}\"", shown(content_type))));
        }
        query_pairs(&utf8(body)).try_for_each(|(name, value)| visit(Field::Pair(name, value)))
    }

    /// Returns a text, or a table for a file.
    fn value(&self, field: &Field<'_>) -> mlua::Result<Value> {
        let (lua, memory_max) = (self.lua, self.memory_max);
        let text = |bytes: &[u8]| string_within(lua, &utf8(bytes), memory_max).map(Value::String);
        match field {
            Field::Pair(_, value) => text(value),
            Field::Part(FormPart { filename: None, content, .. }) => text(content),
            Field::Part(FormPart { filename: Some(filename), content_type, content, .. }) => {
                check_memory(lua, FILE_TABLE_BYTES, memory_max)?;
                let file = lua.create_table_with_capacity(0, 3)?;
                // The name of a file keeps its bytes. Two names must not become the same name.
                file.raw_set("filename", string_within(lua, filename, memory_max)?)?;
                // RFC 7578 section 4.4: the default is `text/plain`.
                file.raw_set("content_type", text(content_type.unwrap_or(b"text/plain"))?)?;
                // A file keeps its bytes.
                file.raw_set("body", string_within(lua, content, memory_max)?)?;
                Ok(Value::Table(file))
            }
        }
    }
}

/// One field of a form.
enum Field<'a> {
    Pair(Cow<'a, [u8]>, Cow<'a, [u8]>),
    Part(FormPart<'a>),
}

impl Field<'_> {
    fn name(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Pair(name, _) => Cow::Borrowed(name),
            Self::Part(part) => utf8(&part.name),
        }
    }
}

/// Returns the content type, if exactly one was sent.
fn content_type(head: &RequestHead) -> Result<&[u8], Failure> {
    let mut lines = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    match (lines.next(), lines.next()) {
        (Some((_, value)), None) => Ok(value),
        (None, _) => Err(no_form("missing")),
        (Some(_), Some(_)) => Err(no_form("repeated")),
    }
}

fn no_form(found: &str) -> Failure {
    Failure::Reason(format!(
        "body is not a form, its content-type is {found}: allowed are application/x-www-form-urlencoded, multipart/form-data"
    ))
}

const FIELDS_MAX: usize = 1000;
/// Upper bound of the memory of the table for a file, without its texts, in bytes.
const FILE_TABLE_BYTES: usize = 512;

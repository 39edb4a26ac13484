//! Answers for what a handler returned: checks it and turns it into an [`Outcome`]. Framing, `Date` and the like, and
//! dropping the content of a reply to HEAD, are the engine's.
//!
//! A number is a status without content; a text is 200 with `text/plain; charset=utf-8`; a table has the fields
//! below, and any other is an error. All reading is raw: no metamethod of the script runs here.

use bytes::Bytes;
use mlua::{LuaString, Table, Value};
use tollgate_http::{is_field_name, is_field_value, is_framing_field};

use crate::api::Marks;
use crate::api::json::{Encoder, Fault};
use crate::budget::Budget;
use crate::error::{CallError, shown};
use crate::interned::Interned;
use crate::nearest::hint;

/// Which fields of the `record` table a route keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFields {
    /// The columns that are read from `record.NAME`, in order.
    pub names: Vec<String>,
    /// Whether the whole of `record` is wanted, as JSON.
    pub whole: bool,
}

/// What a handler decided: the reply, and what is to be recorded of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The status, 200 to 599.
    pub status: u16,
    /// The header fields, valid for the wire, `content-type` among them where there is content.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The content.
    pub body: Bytes,
    /// The values for the log.
    pub record: Record,
}

/// What a script put into `record`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// One per [`RecordFields::names`], in that order.
    pub values: Vec<FieldValue>,
    /// The whole table as JSON, where that is wanted, or keys are unknown, and the script returned a record.
    pub whole: Option<String>,
    /// Keys that no name takes, sorted, at most 32; empty where the whole is wanted.
    pub unknown: Vec<String>,
}

/// One value of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// Absent, or `json.null`.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A number that is whole and within 64 bits, whatever Luau held it in: `1.0` is one.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// The bytes of a string or a buffer. Whether they are UTF-8 is not looked at.
    Text(Vec<u8>),
    /// A table, as JSON.
    Json(String),
    /// Why the value cannot be had.
    Unfit(String),
}

/// Turns what scripts return into outcomes, within the bounds of one host.
pub(crate) struct Reader<'a> {
    pub(crate) marks: &'a Marks,
    pub(crate) budget: &'a Budget,
    pub(crate) reply_bytes_max: usize,
    /// [`PARTS`].
    pub(crate) parts: &'a Interned,
    /// The names of columns that are read from `record`.
    pub(crate) columns: &'a Interned,
    /// Whether the whole of `record` is wanted.
    pub(crate) whole: bool,
}

/// The fields of a reply table as they stand there.
#[derive(Default)]
struct Parts {
    status: Value,
    headers: Value,
    body: Value,
    json: Value,
    html: Value,
    record: Value,
}

type Result<T> = std::result::Result<T, CallError>;

impl Reader<'_> {
    /// Reads the two first values that a handler returned.
    ///
    /// # Errors
    /// `Reply` names the field, what was found and what is allowed.
    pub(crate) fn outcome(&self, value: &Value, second: &Value) -> Result<Outcome> {
        if !matches!(second, Value::Nil) {
            return Err(reply(
                "handler returned more than one value: put status, headers and body into one table",
            ));
        }
        match value {
            Value::Table(table) => self.table(table),
            Value::Integer(_) | Value::Number(_) => Ok(Outcome {
                status: status(value)?,
                headers: Vec::new(),
                body: Bytes::new(),
                record: self.record(&Value::Nil)?,
            }),
            Value::String(text) => Ok(Outcome {
                status: 200,
                headers: vec![content_type(TEXT)],
                body: self.content("reply", &text.as_bytes())?,
                record: self.record(&Value::Nil)?,
            }),
            Value::Nil => Err(reply("handler returned nothing: return a status, a text or a table")),
            other => Err(reply(format!(
                "handler returned a {}: allowed are a status, a text, a table",
                kind(other)
            ))),
        }
    }

    fn table(&self, table: &Table) -> Result<Outcome> {
        let parts = Parts::of(table, self.parts)?;
        let status = if let Value::Nil = parts.status { 200 } else { status(&parts.status)? };
        let mut headers = headers(&parts.headers)?;
        let (body, default_type) = self.body(&parts)?;
        if !body.is_empty() && matches!(status, 204 | 304) {
            return Err(reply(format!(
                "reply.status is {status}, which has no content, beside {} bytes",
                body.len()
            )));
        }
        if let Some(default_type) = default_type
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.insert(0, content_type(default_type));
        }
        Ok(Outcome { status, headers, body, record: self.record(&parts.record)? })
    }

    fn body(&self, parts: &Parts) -> Result<(Bytes, Option<&'static str>)> {
        let kinds = [("body", &parts.body), ("json", &parts.json), ("html", &parts.html)];
        let mut given = kinds.into_iter().filter(|(_, value)| !matches!(value, Value::Nil));
        let Some((name, value)) = given.next() else { return Ok((Bytes::new(), None)) };
        if let Some((other, _)) = given.next() {
            return Err(reply(format!(
                "reply has both {name} and {other}: allowed is one of body, json, html"
            )));
        }
        match name {
            "json" => Ok((Bytes::from(self.json("reply.json", value)?), Some(JSON))),
            "html" => Ok((self.text("reply.html", value)?, Some(HTML))),
            _ => Ok((self.text("reply.body", value)?, Some(TEXT))),
        }
    }

    fn text(&self, what: &str, value: &Value) -> Result<Bytes> {
        match value {
            Value::String(text) => self.content(what, &text.as_bytes()),
            Value::Buffer(buffer) => {
                self.check_size(what, buffer.len())?;
                Ok(Bytes::from(buffer.to_vec()))
            }
            other => Err(reply(format!("{what} is a {}: allowed are a string, a buffer", kind(other)))),
        }
    }

    fn content(&self, what: &str, bytes: &[u8]) -> Result<Bytes> {
        self.check_size(what, bytes.len())?;
        Ok(Bytes::copy_from_slice(bytes))
    }

    fn check_size(&self, what: &str, bytes: usize) -> Result<()> {
        if bytes > self.reply_bytes_max {
            return Err(reply(format!(
                "{what} exceeds limit: {bytes} bytes, limit {} bytes",
                self.reply_bytes_max
            )));
        }
        Ok(())
    }

    fn json(&self, what: &str, value: &Value) -> Result<Vec<u8>> {
        self.encode(value).map_err(|fault| reply(fault.in_words(what)))
    }

    fn encode(&self, value: &Value) -> std::result::Result<Vec<u8>, Fault> {
        let mut encoder =
            Encoder::new(Vec::with_capacity(JSON_CAPACITY), self.reply_bytes_max, self.marks, self.budget);
        encoder.value(value)?;
        Ok(encoder.into_bytes())
    }

    fn record(&self, value: &Value) -> Result<Record> {
        let mut record =
            Record { values: vec![FieldValue::Nil; self.columns.len()], whole: None, unknown: Vec::new() };
        let table = match value {
            Value::Table(table) => table,
            Value::Nil => return Ok(record),
            other => return Err(reply(format!("reply.record is a {}: allowed is a table", kind(other)))),
        };
        if self.whole {
            record.whole = Some(text_of(self.json("reply.record", value)?));
        }
        if self.columns.len() > 0 || !self.whole {
            each(table, |key, value| {
                self.record_item(&mut record, &key, &value);
                Ok(())
            })?;
        }
        record.unknown.sort_unstable();
        if !record.unknown.is_empty() {
            // For the reject; a record that is no JSON either is told by its unknown keys alone.
            record.whole = self.json("reply.record", value).ok().map(text_of);
        }
        Ok(record)
    }

    fn record_item(&self, record: &mut Record, key: &Value, value: &Value) {
        let index = match key {
            Value::String(name) => self.columns.position(name),
            _ => None,
        };
        match index {
            Some(index) => record.values[index] = self.field_value(value),
            None if !self.whole && record.unknown.len() < UNKNOWN_MAX => {
                record.unknown.push(key_text(key));
            }
            None => {}
        }
    }

    fn field_value(&self, value: &Value) -> FieldValue {
        match value {
            Value::Nil => FieldValue::Nil,
            Value::Boolean(flag) => FieldValue::Bool(*flag),
            Value::Integer(number) => FieldValue::Int(*number),
            Value::Number(number) => FieldValue::Float(*number),
            Value::String(text) => self.bytes_value(text.as_bytes().to_vec()),
            Value::Buffer(buffer) => self.bytes_value(buffer.to_vec()),
            Value::Table(_) => match self.encode(value) {
                Ok(json) => FieldValue::Json(text_of(json)),
                Err(fault) => FieldValue::Unfit(fault.in_words("value")),
            },
            other if *other == Value::NULL => FieldValue::Nil,
            other => FieldValue::Unfit(format!("a {} cannot be recorded", kind(other))),
        }
    }

    fn bytes_value(&self, bytes: Vec<u8>) -> FieldValue {
        if bytes.len() > self.reply_bytes_max {
            return FieldValue::Unfit(format!(
                "text exceeds limit: {} bytes, limit {} bytes",
                bytes.len(),
                self.reply_bytes_max
            ));
        }
        FieldValue::Text(bytes)
    }
}

impl Parts {
    fn of(table: &Table, names: &Interned) -> Result<Self> {
        let mut parts = Self::default();
        each(table, |key, value| {
            let name = match &key {
                Value::String(name) => names.position(name).map(|index| PARTS[index]),
                _ => None,
            };
            let slot = match name {
                Some("status") => &mut parts.status,
                Some("headers") => &mut parts.headers,
                Some("body") => &mut parts.body,
                Some("json") => &mut parts.json,
                Some("html") => &mut parts.html,
                Some("record") => &mut parts.record,
                _ => return Err(unknown_part(&key)),
            };
            *slot = value;
            Ok(())
        })?;
        Ok(parts)
    }
}

#[cold]
fn unknown_part(key: &Value) -> CallError {
    let name = key_text(key);
    let hint = hint(&name, PARTS);
    reply(format!("reply has an unknown field \"{name}\"{hint}: allowed are {}", PARTS.join(", ")))
}

fn status(value: &Value) -> Result<u16> {
    let found = match value {
        Value::Integer(number) => match u16::try_from(*number) {
            Ok(status @ 200..=599) => return Ok(status),
            _ => number.to_string(),
        },
        Value::Number(number) => number.to_string(),
        other => format!("a {}", kind(other)),
    };
    Err(reply(format!("reply.status is {found}: allowed is a whole number from 200 to 599")))
}

fn headers(value: &Value) -> Result<Vec<(String, Vec<u8>)>> {
    let mut lines = Vec::new();
    match value {
        Value::Nil => {}
        Value::Table(table) => each(table, |name, value| header(&mut lines, &name, &value))?,
        other => return Err(reply(format!("reply.headers is a {}: allowed is a table", kind(other)))),
    }
    // A table has no order, so that of the names; lines of one list keep theirs.
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(lines)
}

fn header(lines: &mut Vec<(String, Vec<u8>)>, name: &Value, value: &Value) -> Result<()> {
    let Value::String(name) = name else {
        return Err(reply(format!("reply.headers has a key {}: allowed are field names", key_text(name))));
    };
    let name = header_name(name)?;
    let Value::Table(list) = value else { return push_line(lines, &name, value) };
    let mut count = 0;
    each(list, |_, _| {
        count += 1;
        Ok(())
    })?;
    if count != list.raw_len() {
        return Err(reply(format!(
            "reply.headers[\"{name}\"] is a table: allowed are a string, a number, a list of them"
        )));
    }
    for index in 1..=count {
        let value: Value = list.raw_get(index).map_err(|error| reply(error.to_string()))?;
        push_line(lines, &name, &value)?;
    }
    Ok(())
}

fn header_name(name: &LuaString) -> Result<String> {
    let bytes = name.as_bytes();
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) if is_field_name(&bytes) => text,
        _ => return Err(reply(format!("reply.headers has \"{}\", which is no field name", shown(&bytes)))),
    };
    if is_framing_field(text) {
        return Err(reply(format!("reply.headers has \"{text}\", which the server decides by itself")));
    }
    Ok(text.to_owned())
}

fn push_line(lines: &mut Vec<(String, Vec<u8>)>, name: &str, value: &Value) -> Result<()> {
    if lines.len() == HEADERS_MAX {
        return Err(reply(format!("reply.headers exceeds limit: {HEADERS_MAX} lines")));
    }
    let line = match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Number(number) => number.to_string().into_bytes(),
        other => {
            let found = kind(other);
            return Err(reply(format!(
                "reply.headers[\"{name}\"] is a {found}: allowed are a string, a number, a list of them"
            )));
        }
    };
    if !is_field_value(&line) {
        let found = shown(&line);
        return Err(reply(format!(
            "reply.headers[\"{name}\"] is \"{found}\", which is no field value (RFC 9110 section 5.5)"
        )));
    }
    lines.push((name.to_owned(), line));
    Ok(())
}

/// Visits each pair of a table, without its metamethods.
fn each(table: &Table, mut visit: impl FnMut(Value, Value) -> Result<()>) -> Result<()> {
    let mut end = Ok(());
    let walked = table.for_each::<Value, Value>(|key, value| {
        end = visit(key, value);
        // The error only ends the walk; what happened is in `end`.
        if end.is_ok() { Ok(()) } else { Err(mlua::Error::StackError) }
    });
    end?;
    walked.map_err(|error| reply(error.to_string()))
}

fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => shown(&text.as_bytes()),
        Value::Integer(number) => format!("[{number}]"),
        Value::Number(number) => format!("[{number}]"),
        other => format!("of type {}", kind(other)),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        Value::LightUserData(_) => "userdata",
        other => other.type_name(),
    }
}

fn text_of(json: Vec<u8>) -> String {
    String::from_utf8(json).unwrap_or_default()
}

fn content_type(value: &str) -> (String, Vec<u8>) {
    ("content-type".to_owned(), value.as_bytes().to_vec())
}

#[cold]
fn reply(text: impl Into<String>) -> CallError {
    CallError::Reply(text.into())
}

/// The fields of a reply table.
pub(crate) const PARTS: [&str; 6] = ["status", "headers", "body", "json", "html", "record"];
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const JSON_CAPACITY: usize = 128;
const HEADERS_MAX: usize = 256;
const UNKNOWN_MAX: usize = 32;

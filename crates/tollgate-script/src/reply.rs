//! Answers for what a handler returned: checks it and turns it into an [`Outcome`]. Framing, `Date` and the like, and
//! dropping the content of a reply to HEAD, are the engine's.
//!
//! A number is a status without content; a text is 200 with `text/plain; charset=utf-8`; a table has the fields
//! below, and any other is an error. All reading is raw: no metamethod of the script runs here.

mod validators;

use std::borrow::Cow;
use std::cell::RefCell;

use bytes::Bytes;
use tollgate_http::{StatusCode, is_field_name, is_field_value, is_framing_field, is_single_field};

use crate::api::Marks;
use crate::api::json::{Encoder, Fault, Scratch};
use crate::budget::Budget;
use crate::error::{CallError, shown};
use crate::interned::Interned;
use crate::nearest::hint;
use crate::request::ActiveCell;
use crate::sys::seen::{Entries, Seen};

use validators::Validators;

/// Which fields of the `record` table a route keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFields {
    /// The columns that are read from `record.NAME`, in order.
    pub names: Vec<String>,
    /// Whether the whole of `record` is wanted, as JSON.
    pub whole: bool,
}

/// The name and the value of a header field.
pub type HeaderLine = (Cow<'static, str>, Bytes);

/// The type that the content of a reply has by the way it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// A text, or `body`.
    Text,
    /// `html`.
    Html,
    /// `json`.
    Json,
    /// `events`.
    Events,
}

impl ContentType {
    /// Returns the field line that says so.
    pub const fn line(self) -> &'static str {
        match self {
            Self::Text => "content-type: text/plain; charset=utf-8\r\n",
            Self::Html => "content-type: text/html; charset=utf-8\r\n",
            Self::Json => "content-type: application/json\r\n",
            Self::Events => "content-type: text/event-stream\r\n",
        }
    }
}

/// By which function of the reply its content is written, after the handler returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streamed {
    /// `write`.
    Write,
    /// `events`.
    Events,
}

impl Streamed {
    /// The name of the field.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Events => "events",
        }
    }
}

/// What a handler decided: the reply, and what is to be recorded of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The status, 200 to 599.
    pub status: u16,
    /// The type of the content, where there is content and `headers` do not say it.
    pub content_type: Option<ContentType>,
    /// The header fields, valid for the wire.
    pub headers: Vec<HeaderLine>,
    /// The content, where it is not streamed.
    pub body: Bytes,
    /// How the content is written by the call, which goes on.
    pub streamed: Option<Streamed>,
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
    pub(crate) scratch: &'a RefCell<Scratch>,
    /// The request of the call that returned.
    pub(crate) active: &'a ActiveCell,
    pub(crate) reply_bytes_max: usize,
    /// [`PARTS`].
    pub(crate) parts: &'a Interned,
    /// The names of columns that are read from `record`.
    pub(crate) columns: &'a Interned,
    /// Whether the whole of `record` is wanted.
    pub(crate) whole: bool,
}

type Result<T> = std::result::Result<T, CallError>;

impl Reader<'_> {
    /// Reads the two first values that a handler returned.
    ///
    /// # Errors
    /// `Reply` names the field, what was found and what is allowed.
    pub(crate) fn outcome(&self, value: Seen<'_>, second: Seen<'_>) -> Result<Outcome> {
        if !matches!(second, Seen::Nil) {
            return Err(reply(
                "handler returned more than one value: put status, headers and body into one table",
            ));
        }
        match value {
            Seen::Table(table) => self.table(table),
            Seen::Integer(_) | Seen::Number(_) => Ok(Outcome {
                status: status(value)?,
                content_type: None,
                headers: Vec::new(),
                body: Bytes::new(),
                streamed: None,
                record: self.record(Seen::Nil)?,
            }),
            Seen::Text(text) => Ok(Outcome {
                status: 200,
                content_type: Some(ContentType::Text),
                headers: Vec::new(),
                body: self.content("reply", text)?,
                streamed: None,
                record: self.record(Seen::Nil)?,
            }),
            Seen::Nil => Err(reply("handler returned nothing: return a status, a text or a table")),
            other => Err(reply(format!(
                "handler returned a {}: allowed are a status, a text, a table",
                other.kind()
            ))),
        }
    }

    fn table(&self, table: Entries<'_>) -> Result<Outcome> {
        let parts = table.pick(self.parts).map_err(|key| unknown_part(&key))?;
        let [given_status, given_headers, body, json, html, record, etag, last_modified, write, events] =
            parts;
        let status = if let Seen::Nil = given_status { 200 } else { status(given_status)? };
        let mut headers = headers(given_headers, self.budget)?;
        let validators = Validators::read(etag, last_modified, self.active)?;
        validators.push_lines(&mut headers)?;
        let contents = [("body", body), ("json", json), ("html", html), ("write", write), ("events", events)];
        let Content { body, content_type, streamed } = self.body(contents)?;
        let has_content = streamed.is_some() || !body.is_empty();
        if has_content && !StatusCode::new(status).is_some_and(StatusCode::may_have_content) {
            let beside = streamed.map_or_else(|| format!("{} bytes", body.len()), |by| by.name().to_owned());
            return Err(reply(format!("reply.status is {status}, which has no content, beside {beside}")));
        }
        let is_said = |what: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(what));
        let content_type = content_type.filter(|_| !is_said("content-type"));
        if streamed == Some(Streamed::Events) && !is_said("cache-control") {
            headers.push((Cow::Borrowed("cache-control"), Bytes::from_static(b"no-store")));
        }
        let record = self.record(record)?;
        Ok(validators.apply(Outcome { status, content_type, headers, body, streamed, record }, self.active))
    }

    fn body(&self, kinds: [(&str, Seen<'_>); 5]) -> Result<Content> {
        let mut given = kinds.into_iter().filter(|(_, value)| !matches!(value, Seen::Nil));
        let Some((name, value)) = given.next() else { return Ok(Content::default()) };
        if let Some((other, _)) = given.next() {
            return Err(reply(format!(
                "reply has both {name} and {other}: allowed is one of body, json, html, write, events"
            )));
        }
        let (body, content_type) = match name {
            "json" => (self.json("reply.json", value, Bytes::copy_from_slice)?, ContentType::Json),
            "html" => (self.text("reply.html", value)?, ContentType::Html),
            "write" => return streamed(value, Streamed::Write, ContentType::Text),
            "events" => return streamed(value, Streamed::Events, ContentType::Events),
            _ => (self.text("reply.body", value)?, ContentType::Text),
        };
        Ok(Content { body, content_type: Some(content_type), streamed: None })
    }

    fn text(&self, what: &str, value: Seen<'_>) -> Result<Bytes> {
        match value {
            Seen::Text(bytes) | Seen::Buffer(bytes) => self.content(what, bytes),
            other => Err(reply(format!("{what} is a {}: allowed are a string, a buffer", other.kind()))),
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

    fn json<R>(&self, what: &str, value: Seen<'_>, take: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.encode(value, take).map_err(|fault| reply(fault.in_words(what)))
    }

    fn encode<R>(&self, value: Seen<'_>, take: impl FnOnce(&[u8]) -> R) -> std::result::Result<R, Fault> {
        let mut scratch = self.scratch.borrow_mut();
        Encoder::new(&mut scratch, self.reply_bytes_max, self.marks, self.budget).encode(value).map(take)
    }

    fn record(&self, value: Seen<'_>) -> Result<Record> {
        let mut record =
            Record { values: vec![FieldValue::Nil; self.columns.len()], whole: None, unknown: Vec::new() };
        let table = match value {
            Seen::Table(table) => table,
            Seen::Nil => return Ok(record),
            other => return Err(reply(format!("reply.record is a {}: allowed is a table", other.kind()))),
        };
        if self.whole {
            record.whole = Some(self.json("reply.record", value, text_of)?);
        }
        if self.columns.len() > 0 || !self.whole {
            let mut left = self.reply_bytes_max;
            table.each(|key, value| {
                self.record_item(&mut record, key, value, &mut left);
                Ok(())
            })?;
        }
        record.unknown.sort_unstable();
        if !record.unknown.is_empty() {
            // For the reject; a record that is no JSON either is told by its unknown keys alone.
            record.whole = self.json("reply.record", value, text_of).ok();
        }
        Ok(record)
    }

    /// `left` is how many bytes the texts of this record may still have.
    fn record_item(&self, record: &mut Record, key: Seen<'_>, value: Seen<'_>, left: &mut usize) {
        let index = match key {
            Seen::Text(name) => self.columns.position(name),
            _ => None,
        };
        match index {
            Some(index) => record.values[index] = self.field_value(value, left),
            None if !self.whole && record.unknown.len() < UNKNOWN_MAX => {
                record.unknown.push(key_text(&key));
            }
            None => {}
        }
    }

    fn field_value(&self, value: Seen<'_>, left: &mut usize) -> FieldValue {
        match value {
            Seen::Nil | Seen::Null => FieldValue::Nil,
            Seen::Boolean(flag) => FieldValue::Bool(flag),
            Seen::Integer(number) => FieldValue::Int(number),
            Seen::Number(number) => FieldValue::Float(number),
            Seen::Text(bytes) | Seen::Buffer(bytes) => match self.take(bytes.len(), left) {
                Ok(()) => FieldValue::Text(bytes.to_vec()),
                Err(unfit) => unfit,
            },
            Seen::Table(_) => {
                match self.encode(value, |json| self.take(json.len(), left).map(|()| text_of(json))) {
                    Ok(Ok(json)) => FieldValue::Json(json),
                    Ok(Err(unfit)) => unfit,
                    Err(fault) => FieldValue::Unfit(fault.in_words("value")),
                }
            }
            Seen::Other(kind) => FieldValue::Unfit(format!("a {kind} cannot be recorded")),
        }
    }

    /// Takes the bytes of a text off what its record may still have. A script may name one long text for many columns.
    fn take(&self, bytes: usize, left: &mut usize) -> std::result::Result<(), FieldValue> {
        *left = left.checked_sub(bytes).ok_or_else(|| {
            FieldValue::Unfit(format!(
                "texts of the record exceed limit: {bytes} bytes more, limit {} bytes",
                self.reply_bytes_max
            ))
        })?;
        Ok(())
    }
}

/// What a reply says of its content.
#[derive(Default)]
struct Content {
    body: Bytes,
    content_type: Option<ContentType>,
    streamed: Option<Streamed>,
}

fn streamed(value: Seen<'_>, by: Streamed, content_type: ContentType) -> Result<Content> {
    match value {
        Seen::Other("function") => {
            Ok(Content { body: Bytes::new(), content_type: Some(content_type), streamed: Some(by) })
        }
        other => Err(reply(format!("reply.{} is a {}: allowed is a function", by.name(), other.kind()))),
    }
}

#[cold]
fn unknown_part(key: &Seen<'_>) -> CallError {
    let name = key_text(key);
    let hint = hint(&name, PARTS);
    reply(format!("reply has an unknown field \"{name}\"{hint}: allowed are {}", PARTS.join(", ")))
}

fn status(value: Seen<'_>) -> Result<u16> {
    let found = match value {
        Seen::Integer(number) => match u16::try_from(number) {
            Ok(status @ 200..=599) => return Ok(status),
            _ => number.to_string(),
        },
        Seen::Number(number) => number.to_string(),
        other => format!("a {}", other.kind()),
    };
    Err(reply(format!("reply.status is {found}: allowed is a whole number from 200 to 599")))
}

fn headers(value: Seen<'_>, budget: &Budget) -> Result<Vec<HeaderLine>> {
    let table = match value {
        Seen::Nil => return Ok(Vec::new()),
        Seen::Table(table) => table,
        other => return Err(reply(format!("reply.headers is a {}: allowed is a table", other.kind()))),
    };
    let mut lines = Vec::with_capacity(HEADERS_EXPECTED);
    table.each(|name, value| header(&mut lines, name, value, budget))?;
    // A table has no order, so that of the names; lines of one list keep theirs.
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(lines)
}

fn header(lines: &mut Vec<HeaderLine>, name: Seen<'_>, value: Seen<'_>, budget: &Budget) -> Result<()> {
    let Seen::Text(name) = name else {
        return Err(reply(format!("reply.headers has a key {}: allowed are field names", key_text(&name))));
    };
    let name = header_name(name)?;
    let Seen::Table(list) = value else { return push_line(lines, &name, value) };
    // A list of nothing but holes makes no line, and takes its time.
    if budget.is_exhausted() {
        return Err(reply("cpu budget of the call is used up"));
    }
    let mut count = 0;
    list.each(|_, _| {
        count += 1;
        Ok(())
    })?;
    if count != list.len() {
        return Err(reply(format!(
            "reply.headers[\"{name}\"] is a table: allowed are a string, a number, a list of them"
        )));
    }
    (1..=count).try_for_each(|index| list.with_index(index, |value| push_line(lines, &name, value)))
}

fn header_name(bytes: &[u8]) -> Result<String> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if is_field_name(bytes) => text,
        _ => return Err(reply(format!("reply.headers has \"{}\", which is no field name", shown(bytes)))),
    };
    if is_framing_field(text) || is_verdict(bytes) {
        return Err(reply(format!("reply.headers has \"{text}\", which the server decides by itself")));
    }
    Ok(text.to_owned())
}

/// Whether a field says how far a record is, which nobody but the server knows.
fn is_verdict(name: &[u8]) -> bool {
    name.get(..VERDICT_PREFIX.len()).is_some_and(|front| front.eq_ignore_ascii_case(VERDICT_PREFIX))
}

fn push_line(lines: &mut Vec<HeaderLine>, name: &str, value: Seen<'_>) -> Result<()> {
    if lines.len() == HEADERS_MAX {
        return Err(reply(format!("reply.headers exceeds limit: {HEADERS_MAX} lines")));
    }
    if is_single_field(name) && lines.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Err(reply(format!(
            "reply.headers has \"{name}\" twice: a reply has it once (RFC 9110 section 5.3)"
        )));
    }
    let line = match value {
        Seen::Text(text) => text.to_vec(),
        Seen::Integer(number) => number.to_string().into_bytes(),
        Seen::Number(number) => number.to_string().into_bytes(),
        other => {
            let found = other.kind();
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
    lines.push((Cow::Owned(name.to_owned()), Bytes::from(line)));
    Ok(())
}

fn key_text(key: &Seen<'_>) -> String {
    match key {
        Seen::Text(text) => shown(text),
        Seen::Integer(number) => format!("[{number}]"),
        Seen::Number(number) => format!("[{number}]"),
        other => format!("of type {}", other.kind()),
    }
}

fn text_of(json: &[u8]) -> String {
    std::str::from_utf8(json).unwrap_or_default().to_owned()
}

#[cold]
fn reply(text: impl Into<String>) -> CallError {
    CallError::Reply(text.into())
}

/// The fields of a reply table.
pub(crate) const PARTS: [&str; 10] =
    ["status", "headers", "body", "json", "html", "record", "etag", "last_modified", "write", "events"];
/// What a script says, and what a server adds.
const HEADERS_EXPECTED: usize = 4;
const HEADERS_MAX: usize = 256;
const VERDICT_PREFIX: &[u8] = b"tollgate-";
const UNKNOWN_MAX: usize = 32;

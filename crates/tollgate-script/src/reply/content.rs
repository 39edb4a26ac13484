//! The content of a reply. At most one field of the reply may give the content.

use bytes::Bytes;

use super::file::{ReplyFile, sent_file};
use super::reader::{Reader, Result, reply};
use crate::sys::raw::RawValue;
use crate::xml;

/// Default type of the content of a reply, determined by the field that gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// A returned text, or the field `body`.
    Text,
    /// The field `html`.
    Html,
    /// The field `json`.
    Json,
    /// The field `xml`.
    Xml,
    /// The field `events`.
    Events,
}

impl ContentType {
    /// Returns the field line for this type.
    pub const fn line(self) -> &'static str {
        match self {
            Self::Text => "content-type: text/plain; charset=utf-8\r\n",
            Self::Html => "content-type: text/html; charset=utf-8\r\n",
            Self::Json => "content-type: application/json\r\n",
            Self::Xml => "content-type: application/xml; charset=utf-8\r\n",
            Self::Events => "content-type: text/event-stream\r\n",
        }
    }
}

/// Function of the reply that writes its content, after the handler returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streamed {
    /// The field `write`.
    Write,
    /// The field `events`.
    Events,
}

impl Streamed {
    /// Returns the name of the field.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Events => "events",
        }
    }
}

/// The content of a reply, as its fields give it.
#[derive(Default)]
pub(super) struct Content {
    pub(super) body: Bytes,
    pub(super) content_type: Option<ContentType>,
    pub(super) streamed: Option<Streamed>,
    pub(super) file: Option<Box<ReplyFile>>,
}

impl Reader<'_> {
    pub(super) fn body(&self, values: &[RawValue<'_>; CONTENTS.len()]) -> Result<Content> {
        let mut given = CONTENTS.into_iter().zip(values).filter(|(_, value)| !matches!(value, RawValue::Nil));
        let Some((name, &value)) = given.next() else { return Ok(Content::default()) };
        if let Some((other, _)) = given.next() {
            return Err(reply(format!(
                "reply has both {name} and {other}: allowed is one of {}",
                CONTENTS.join(", ")
            )));
        }
        let (body, content_type) = match name {
            "json" => (self.json("reply.json", value, Bytes::copy_from_slice)?, ContentType::Json),
            "html" => (self.text("reply.html", value)?, ContentType::Html),
            "xml" => (self.xml(value)?, ContentType::Xml),
            "write" => return streamed(value, Streamed::Write, ContentType::Text),
            "events" => return streamed(value, Streamed::Events, ContentType::Events),
            "file" => {
                return Ok(Content { file: Some(Box::new(sent_file(value)?)), ..Content::default() });
            }
            _ => (self.text("reply.body", value)?, ContentType::Text),
        };
        Ok(Content { body, content_type: Some(content_type), ..Content::default() })
    }

    fn xml(&self, value: RawValue<'_>) -> Result<Bytes> {
        let document = xml::document(value, self.reply_bytes_max, self.budget);
        document.map(Bytes::from).map_err(|fault| reply(fault.in_words("reply.xml")))
    }

    fn text(&self, what: &str, value: RawValue<'_>) -> Result<Bytes> {
        match value {
            RawValue::Text(bytes) | RawValue::Buffer(bytes) => self.content(what, bytes),
            other => Err(reply(format!("{what} is a {}: allowed are a string, a buffer", other.kind()))),
        }
    }
}

fn streamed(value: RawValue<'_>, by: Streamed, content_type: ContentType) -> Result<Content> {
    match value {
        RawValue::Other("function") => {
            Ok(Content { content_type: Some(content_type), streamed: Some(by), ..Content::default() })
        }
        other => Err(reply(format!("reply.{} is a {}: allowed is a function", by.name(), other.kind()))),
    }
}

/// The fields that give content.
pub(super) const CONTENTS: [&str; 7] = ["body", "json", "html", "xml", "write", "events", "file"];

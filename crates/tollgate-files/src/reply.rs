//! A reply with a file, before it is sent. The caller writes its head and sends its content.

use std::borrow::Cow;

use bytes::Bytes;
use tollgate_http::StatusCode;

use crate::file_slice::FileSlice;

/// A reply with a file. Its content is `content`, followed by each of `parts`.
#[derive(Debug, Clone)]
pub struct FileReply {
    /// Status of the reply.
    pub status: StatusCode,
    /// Field lines as sent, each with its line end. Many replies share these bytes.
    pub lines: Bytes,
    /// Further fields, which only this reply has.
    pub fields: Vec<(Cow<'static, str>, Bytes)>,
    /// The bytes of the content before the first part.
    pub content: Bytes,
    /// The parts of the content after `content`.
    pub parts: Vec<FilePart>,
}

/// A part of the content that is in a file, and the bytes after it.
#[derive(Debug, Clone)]
pub struct FilePart {
    /// The bytes in the file.
    pub slice: FileSlice,
    /// The bytes after the slice.
    pub then: Bytes,
}

impl FileReply {
    /// Creates a reply with one line of text.
    pub(crate) fn text(status: StatusCode, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n").into())
    }

    pub(crate) fn new(status: StatusCode, content_type: &'static str, content: Bytes) -> Self {
        Self { content, ..Self::empty(status) }.with("Content-Type", content_type)
    }

    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, lines: Bytes::new(), fields: Vec::new(), content: Bytes::new(), parts: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Bytes>) -> Self {
        self.push(name, value);
        self
    }

    pub(crate) fn push(&mut self, name: &'static str, value: impl Into<Bytes>) {
        self.fields.push((Cow::Borrowed(name), value.into()));
    }

    /// Returns the length of the whole content in bytes.
    pub(crate) fn content_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.slice.len + part.then.len() as u64);
        self.content.len() as u64 + parts.sum::<u64>()
    }
}

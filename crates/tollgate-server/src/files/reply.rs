//! A reply about a file, as a value: the caller writes its head and sends its content.

use std::borrow::Cow;

use bytes::Bytes;
use tollgate_http::StatusCode;

use crate::file_slice::FileSlice;

/// A reply about a file. Its content is `content`, followed by each of `parts`.
#[derive(Debug, Clone)]
pub(crate) struct FileReply {
    /// The status.
    pub(crate) status: StatusCode,
    /// Field lines as they leave, each with its line end. Many replies share them.
    pub(crate) lines: Bytes,
    /// Further fields.
    pub(crate) fields: Vec<(Cow<'static, str>, Bytes)>,
    /// The bytes of the content before the first part.
    pub(crate) content: Bytes,
    /// The rest of the content.
    pub(crate) parts: Vec<FilePart>,
}

/// A part of the content that is in a file, and the bytes after it.
#[derive(Debug, Clone)]
pub(crate) struct FilePart {
    /// The bytes in the file.
    pub(crate) slice: FileSlice,
    /// The bytes after them.
    pub(crate) then: Bytes,
}

impl FileReply {
    /// Makes a reply that is one line of text.
    pub(super) fn text(status: StatusCode, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n").into())
    }

    pub(super) fn new(status: StatusCode, content_type: &'static str, content: Bytes) -> Self {
        Self { content, ..Self::empty(status) }.with("Content-Type", content_type)
    }

    pub(super) fn empty(status: StatusCode) -> Self {
        Self { status, lines: Bytes::new(), fields: Vec::new(), content: Bytes::new(), parts: Vec::new() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<Bytes>) -> Self {
        self.push(name, value);
        self
    }

    pub(super) fn push(&mut self, name: &'static str, value: impl Into<Bytes>) {
        self.fields.push((Cow::Borrowed(name), value.into()));
    }

    /// Returns the length of the whole content in bytes.
    pub(super) fn content_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.slice.len + part.then.len() as u64);
        self.content.len() as u64 + parts.sum::<u64>()
    }
}

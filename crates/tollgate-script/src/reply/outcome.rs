//! The outcome of a call: its reply, and the records that go with it.

use bytes::Bytes;

use super::content::{ContentType, Streamed};
use super::file::ReplyFile;
use super::headers::HeaderLine;
use crate::emitted::Emitted;
use crate::record::RecordValues;

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
    /// The file that is the content, where it is one.
    pub file: Option<Box<ReplyFile>>,
    /// The values for the log.
    pub record: RecordValues,
    /// Further records, for other streams.
    pub emitted: Vec<Emitted>,
}

impl Outcome {
    pub(super) fn empty(status: u16) -> Self {
        Self {
            status,
            content_type: None,
            headers: Vec::new(),
            body: Bytes::new(),
            streamed: None,
            file: None,
            record: RecordValues::default(),
            emitted: Vec::new(),
        }
    }
}

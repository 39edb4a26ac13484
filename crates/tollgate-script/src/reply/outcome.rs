//! The outcome of a call: its reply, and its records.

use bytes::Bytes;

use super::content::{ContentType, Streamed};
use super::file::ReplyFile;
use super::headers::HeaderLine;
use crate::emitted::Emitted;
use crate::record::RecordValues;

/// The decision of a handler: the reply, and the values to record.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The status, 200 to 599.
    pub status: u16,
    /// The type of the content. `None` without content, or if `headers` state the type.
    pub content_type: Option<ContentType>,
    /// The header fields, which are valid HTTP.
    pub headers: Vec<HeaderLine>,
    /// Whether the changes of an `after` script have one Set-Cookie, which replaces only its own cookie.
    pub sets_one_cookie: bool,
    /// The content, unless it is streamed.
    pub body: Bytes,
    /// The function that writes the content, if the content is streamed. The call then continues.
    pub streamed: Option<Streamed>,
    /// The file that is the content, if there is one.
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
            sets_one_cookie: false,
            body: Bytes::new(),
            streamed: None,
            file: None,
            record: RecordValues::default(),
            emitted: Vec::new(),
        }
    }
}

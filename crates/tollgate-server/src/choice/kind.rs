//! The kind of content that conditions read.

use tollgate_http::RequestHead;

use crate::options::{essence_of, is_xml};

/// The kind of content that conditions read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentKind {
    Json,
    Xml,
    Other,
}

impl ContentKind {
    /// Returns the kind of the content of a request. The content type decides. Without one, the first bytes
    /// decide.
    pub(super) fn of(head: &RequestHead, content: &[u8]) -> Self {
        match head.values_of("content-type").next() {
            Some(value) => Self::of_type(&essence_of(value).to_ascii_lowercase()),
            None => Self::of_content(content),
        }
    }

    fn of_type(essence: &[u8]) -> Self {
        if matches!(essence, b"application/json" | b"text/json") || essence.ends_with(b"+json") {
            Self::Json
        } else if is_xml(essence) {
            Self::Xml
        } else {
            Self::Other
        }
    }

    fn of_content(content: &[u8]) -> Self {
        // A document of XML may begin with the byte order mark of UTF-8 or UTF-16.
        let is_marked =
            [&b"\xef\xbb\xbf<"[..], b"\xfe\xff", b"\xff\xfe"].iter().any(|mark| content.starts_with(mark));
        match content.trim_ascii_start().first() {
            Some(b'{') => Self::Json,
            Some(b'<') => Self::Xml,
            _ if is_marked => Self::Xml,
            _ => Self::Other,
        }
    }
}

//! The options of a route that collects items.

use bytes::Bytes;

use super::media_types::MediaTypes;
use super::stream::FieldPath;

/// The options of a route that collects items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectSpec {
    /// The media types that the route accepts.
    pub types: MediaTypes,
    /// The path of the items in each document of a body. `None` means that each document is an item.
    pub items: Option<FieldPath>,
    /// The path of a base64 text in each item. The text contains the item itself.
    pub base64: Option<FieldPath>,
    /// The reply to a body that was recorded.
    pub reply: CollectReply,
}

/// The reply to a body that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectReply {
    /// Status of the reply, which is a success.
    pub status: u16,
    /// Content of the reply.
    pub content: CollectContent,
}

/// The content of a reply to a body that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectContent {
    /// The number of records, and the reasons of rejects, as JSON.
    Summary,
    /// No content.
    Empty,
    /// A transparent image of one pixel.
    Gif,
    /// Always the same content.
    Body {
        /// The content type.
        content_type: String,
        /// The content.
        body: Bytes,
    },
    /// A JSON object with these fields of the first document of the body.
    Echo(Vec<FieldPath>),
}

impl Default for CollectReply {
    fn default() -> Self {
        Self { status: 200, content: CollectContent::Summary }
    }
}

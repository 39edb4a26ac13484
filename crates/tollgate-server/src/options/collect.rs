//! The options of a route that collects items.

use bytes::Bytes;
use tollgate_xml::{PathSet, PrefixBinding};

use super::media_types::MediaTypes;
use super::stream::FieldPath;

/// The options of a route that collects items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectSpec {
    /// The media types that the route accepts.
    pub types: MediaTypes,
    /// The path of the items in each document of a body. `None` means that each document is an item.
    pub items: Option<FieldPath>,
    /// The items of an XML body. `None` means that a body is JSON.
    pub xml: Option<XmlItems>,
    /// The path of a base64 text in each item. The text contains the item itself.
    pub base64: Option<FieldPath>,
    /// The reply to a body that was recorded.
    pub reply: CollectReply,
}

/// The items of an XML body. Columns and keys name values in an item as `xml:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XmlItems {
    /// The path of the items.
    pub each: String,
    /// The prefixes of paths, and their namespaces.
    pub namespaces: Vec<(String, String)>,
}

impl XmlItems {
    /// Compiles the path of the items, and the paths of values in an item. The paths of values are the names
    /// of fields after `xml:`.
    ///
    /// # Errors
    /// The first path that is outside of the subset.
    pub fn compile<'f>(&self, values: impl IntoIterator<Item = &'f str>) -> Result<PathSet, String> {
        let within = |path: &str| match path {
            "." => self.each.clone(),
            path => format!("{}/{path}", self.each),
        };
        let paths: Vec<_> =
            std::iter::once(self.each.clone()).chain(values.into_iter().map(within)).collect();
        let prefixes = self.namespaces.iter().map(|(prefix, uri)| PrefixBinding { prefix, uri });
        let set = PathSet::new(paths.iter().map(String::as_str), &prefixes.collect::<Vec<_>>());
        let set = set.map_err(|error| format!("{:?}: {error}", paths[error.path]))?;
        if set.finds_elements(0) { Ok(set) } else { Err(format!("{:?} leads to no element", self.each)) }
    }
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

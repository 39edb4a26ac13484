//! The reply to a body whose items were recorded.

use bytes::Bytes;
use serde_json::value::RawValue;
use tollgate_http::StatusCode;

use crate::handler::fixed;
use crate::options::{CollectContent, CollectReply};
use crate::reply::Reply;
use crate::row::{FoundValues, PathTree};

/// Maximum bytes of a value that a reply repeats.
const ECHO_BYTES_MAX: usize = 4 << 10;

/// A GIF image of one transparent pixel (GIF89a): header, screen with a table of two colours, control
/// extension with colour 0 as transparent, image, one block of data, trailer.
const PIXEL: [u8; 43] = [
    b'G', b'I', b'F', b'8', b'9', b'a', //
    1, 0, 1, 0, 0x80, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, //
    0x21, 0xf9, 4, 1, 0, 0, 0, 0, //
    0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, //
    2, 2, 0x44, 1, 0, //
    0x3b,
];

/// The reply to a body whose items were recorded.
pub(in crate::handler) struct ReplyPlan {
    status: u16,
    content: Content,
}

enum Content {
    Summary,
    Fixed(Box<Reply>),
    Echo(PathTree, Vec<String>),
}

impl ReplyPlan {
    pub(super) fn new(spec: &CollectReply) -> Self {
        let content = match &spec.content {
            CollectContent::Summary => Content::Summary,
            CollectContent::Empty => fixed_content(spec.status, "", &Bytes::new()),
            CollectContent::Gif => fixed_content(spec.status, "image/gif", &Bytes::from_static(&PIXEL)),
            CollectContent::Body { content_type, body } => fixed_content(spec.status, content_type, body),
            CollectContent::Echo(paths) => {
                let names = paths.iter().map(|path| path.last().to_owned());
                Content::Echo(PathTree::of(paths), names.collect())
            }
        };
        Self { status: spec.status, content }
    }

    /// Returns whether the reply repeats values of a document.
    pub(super) fn repeats_document(&self) -> bool {
        matches!(self.content, Content::Echo(..))
    }

    /// Returns the status of the reply.
    pub(in crate::handler) fn status(&self) -> u16 {
        self.status
    }

    /// Returns the reply. `summary` creates the summary of the records. `document` returns the document from
    /// which the reply repeats values.
    pub(in crate::handler) fn reply<'v>(
        &self,
        summary: impl FnOnce() -> Bytes,
        document: impl FnOnce() -> Option<&'v RawValue>,
    ) -> Reply {
        let content = match &self.content {
            Content::Fixed(reply) => return (**reply).clone(),
            Content::Summary => summary(),
            Content::Echo(tree, names) => echo(tree, names, document()),
        };
        let status = StatusCode::new(self.status).unwrap_or(StatusCode::OK);
        Reply::new(status, "application/json", content)
    }
}

fn fixed_content(status: u16, content_type: &str, body: &Bytes) -> Content {
    Content::Fixed(Box::new(fixed::reply(status, content_type, body)))
}

/// Returns a JSON object with values of a document. A value that is absent or too long is left out.
fn echo(tree: &PathTree, names: &[String], document: Option<&RawValue>) -> Bytes {
    let mut found = FoundValues::new(names.len(), false);
    // A document with a repeated field has no value to repeat.
    let is_found = document.is_some_and(|document| tree.find(document, &mut found).is_ok());
    let values = names.iter().zip(found.values).filter(|_| is_found);
    let fields = values.filter_map(|(name, value)| {
        let json = value?.get();
        (json.len() <= ECHO_BYTES_MAX).then(|| format!("{}:{json}", serde_json::Value::from(name.as_str())))
    });
    format!("{{{}}}\n", fields.collect::<Vec<_>>().join(",")).into()
}

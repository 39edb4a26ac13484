//! The plan of a route that collects items, in one worker.

use std::borrow::Cow;
use std::rc::Rc;

use tollgate_xml::Doctype;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::batch::{Batch, DocumentPlan};
use super::reply::ReplyPlan;
use super::text::utf8;
use super::xml::XmlPlan;
use crate::handler::items::{Item, SplitError};
use crate::options::{CollectSpec, MediaTypes};
use crate::row::{FoundValues, PathTree, StreamPlan};

/// The plan of a route that collects items.
pub(in crate::handler) struct CollectPlan {
    pub(in crate::handler) stream: Rc<StreamPlan>,
    pub(in crate::handler) types: MediaTypes,
    pub(in crate::handler) reply: ReplyPlan,
    /// The items of an XML body.
    xml: Option<XmlPlan>,
    documents: Option<DocumentPlan>,
    /// The path of the base64 text that contains an item.
    base64: Option<PathTree>,
}

impl CollectPlan {
    pub(in crate::handler) fn new(spec: &CollectSpec, stream: &Rc<StreamPlan>, doctype: Doctype) -> Self {
        Self {
            stream: stream.clone(),
            types: spec.types.clone(),
            reply: ReplyPlan::new(&spec.reply),
            xml: spec.xml.as_ref().and_then(|items| XmlPlan::new(items, &stream.fields.names, doctype)),
            documents: spec.items.as_ref().map(|items| DocumentPlan::new(items, &stream.envelope)),
            base64: spec.base64.as_ref().map(|path| PathTree::of([path])),
        }
    }

    /// Returns the JSON of a body. The items of an XML body become JSON.
    ///
    /// # Errors
    /// The body is not XML, or it has no item.
    pub(in crate::handler) fn json<'a>(&self, body: &'a [u8]) -> Result<Cow<'a, [u8]>, SplitError> {
        match &self.xml {
            None => Ok(Cow::Borrowed(body)),
            Some(xml) => xml.items(body).map(Cow::Owned).map_err(SplitError::Malformed),
        }
    }

    /// Splits a body of which each document is an item. The items may have bytes that are not UTF-8. Returns
    /// `None` if a path leads to the items, if the reply repeats parts of a document, or if the body cannot
    /// be split so.
    pub(super) fn split_unchecked<'a>(&self, body: &'a [u8]) -> Option<Batch<'a>> {
        let needs_text = self.documents.is_some() || self.reply.repeats_document();
        if needs_text { None } else { Batch::of_items(body).ok() }
    }

    /// Splits a body of UTF-8 into items.
    ///
    /// # Errors
    /// The body has no item, or too many.
    pub(in crate::handler) fn split<'a>(&self, body: &'a [u8]) -> Result<Batch<'a>, SplitError> {
        match &self.documents {
            None => Batch::of_items(body),
            Some(documents) => documents.split(body),
        }
    }

    /// Returns the part of an item that a reject keeps. `text` is the text of the item after decoding.
    pub(in crate::handler) fn kept<'t>(&self, item: Item<'_>, text: &'t [u8]) -> Cow<'t, [u8]> {
        match item {
            Item::Document(..) => self.stream.kept_of_document(text),
            Item::Json(_) | Item::Part(_) => self.stream.kept_of(text),
        }
    }

    /// Returns the item that the base64 text of an item contains, and stores it in `buffer`. Without such a
    /// text in the configuration, returns the item itself.
    ///
    /// # Errors
    /// The reason why the item has no such text.
    pub(in crate::handler) fn contained<'b>(
        &self,
        item: Item<'b>,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Item<'b>, String> {
        let Some(path) = &self.base64 else { return Ok(item) };
        let mut found = FoundValues::new(1, false);
        path.find(item.value()?, &mut found)?;
        let text = found.values[0].and_then(|value| serde_json::from_str::<String>(value.get()).ok());
        let text = text.ok_or("item has no text at the path of base64")?;
        buffer.clear();
        let decoded = STANDARD.decode_vec(text, buffer);
        decoded.map_err(|error| format!("item has a text that is not base64 ({error})"))?;
        if let Cow::Owned(text) = utf8(buffer) {
            *buffer = text;
        }
        Ok(Item::Part(buffer))
    }
}

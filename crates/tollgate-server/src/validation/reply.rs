//! The content of a reply, before it leaves.

use std::rc::Rc;

use tollgate_http::{Method, StatusCode};
use tollgate_validate::{Document, DocumentFault};

use super::plan::Validation;
use super::request::is_xml_type;
use super::slice;
use crate::observe::{Judged, MessageSide, OwnCells};
use crate::reply::{Extent, Reply};

/// What the validation does with a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyRule {
    /// The reply has no document that a schema describes.
    Pass,
    /// The content has to be a valid document.
    Judge,
    /// The content cannot be read as a document, for this reason.
    Unread(&'static str),
}

/// The reasons why a reply cannot be read as a document.
pub(crate) mod unread {
    pub(crate) const MEDIA_TYPE: &str = "its content type is no XML";
    pub(crate) const CODING: &str = "its content has a coding: send it without one";
    pub(crate) const PART: &str = "its content is a part of a document (206)";
    pub(crate) const FILE: &str = "its content is a file, which is not validated: return its text";
    pub(crate) const TOO_LONG: &str =
        "its content is longer than the limit of 1048576 bytes: use mode \"stream\"";
}

impl ReplyRule {
    /// Decides what to do with a reply. Only a success has a document: errors have another form.
    pub(crate) fn of(method: Method, reply: &Reply) -> Self {
        let is_success = reply.status.as_u16() / 100 == 2;
        if method == Method::Head || !is_success || !reply.status.may_have_content() {
            return Self::Pass;
        }
        let fields = reply.all_fields();
        let field = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let content_type = field("content-type");
        let is_empty = reply.extent == Extent::Whole && reply.content_bytes() == 0;
        if is_empty && content_type.is_none() {
            return Self::Pass;
        }
        if !content_type.is_some_and(|value| is_xml_type(value)) {
            return Self::Unread(unread::MEDIA_TYPE);
        }
        if field("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
            return Self::Unread(unread::CODING);
        }
        if reply.status == StatusCode::PARTIAL_CONTENT {
            return Self::Unread(unread::PART);
        }
        if !reply.parts.is_empty() {
            return Self::Unread(unread::FILE);
        }
        Self::Judge
    }
}

/// Judges the content of one reply.
pub(crate) struct ReplyJudge {
    validation: Rc<Validation>,
    cells: Rc<OwnCells>,
    /// `None` after a fault.
    document: Option<Box<Document>>,
}

/// The content is not valid, so that it must not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotValid;

impl ReplyJudge {
    /// Begins to judge a reply. Returns `None` if the route does not validate replies.
    pub(crate) fn begin(validation: &Rc<Validation>, cells: &Rc<OwnCells>) -> Option<Self> {
        let document = Some(Document::new(validation.reply.as_ref()?).into());
        Some(Self { validation: validation.clone(), cells: cells.clone(), document })
    }

    /// Validates the next bytes for a slice. Returns the number of bytes that may leave.
    ///
    /// # Errors
    /// The content has a fault, and the route refuses it.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<usize, NotValid> {
        let Some(document) = &mut self.document else { return Ok(bytes.len()) };
        slice::feed(document, bytes).or_else(|fault| self.refuse(&fault).map(|()| bytes.len()))
    }

    /// Validates bytes that are few, in one call.
    ///
    /// # Errors
    /// The content has a fault, and the route refuses it.
    pub(crate) fn all_of(&mut self, mut bytes: &[u8]) -> Result<(), NotValid> {
        while !bytes.is_empty() {
            bytes = &bytes[self.feed(bytes)?..];
        }
        Ok(())
    }

    /// Validates a complete content in one call.
    ///
    /// # Errors
    /// The content has a fault, and the route refuses it.
    pub(crate) fn whole(&mut self, content: &[u8]) -> Result<(), NotValid> {
        self.all_of(content).and_then(|()| self.finish())
    }

    /// Ends the complete content.
    ///
    /// # Errors
    /// The content has a fault, and the route refuses it.
    pub(crate) fn finish(&mut self) -> Result<(), NotValid> {
        let Some(document) = &mut self.document else { return Ok(()) };
        match document.finish() {
            Ok(()) => {
                self.cells.count_judged(MessageSide::Reply, Judged::Valid);
                self.document = None;
                Ok(())
            }
            Err(fault) => self.refuse(&fault),
        }
    }

    /// Notes a reply that cannot be read as a document.
    ///
    /// # Errors
    /// The route refuses the reply.
    pub(crate) fn note_unread(&mut self, reason: &str) -> Result<(), NotValid> {
        self.document = None;
        self.validation.note_unread(&self.cells, MessageSide::Reply, reason);
        self.verdict()
    }

    /// Returns the memory that the validation holds, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.document.as_ref().map_or(0, |document| document.held_bytes())
    }

    #[cold]
    fn refuse(&mut self, fault: &DocumentFault) -> Result<(), NotValid> {
        self.document = None;
        self.validation.note_fault(&self.cells, MessageSide::Reply, fault);
        self.verdict()
    }

    fn verdict(&self) -> Result<(), NotValid> {
        if self.validation.refuses() { Err(NotValid) } else { Ok(()) }
    }
}

//! The content of a request, while it arrives.

use std::rc::Rc;

use tollgate_http::{Method, RequestHead};
use tollgate_validate::{Document, DocumentFault};

use super::plan::Validation;
use super::problem::ProblemForm;
use super::slice;
use crate::observe::{Judged, MessageSide, OwnCells};
use crate::options::{essence_of, is_xml};
use crate::reply::Reply;

/// The validation of one request, from its head to the end of its content.
pub(crate) struct RequestValidation {
    validation: Rc<Validation>,
    cells: Rc<OwnCells>,
    form: ProblemForm,
    state: State,
}

enum State {
    /// All bytes so far are valid.
    Judging(Box<Document>),
    /// The content has a fault, which is counted.
    Faulty(Box<DocumentFault>),
}

impl Validation {
    /// Returns the refusal of a request whose content is no XML, if the route refuses requests.
    pub(crate) fn refuse_media_type(&self, head: &RequestHead) -> Option<Reply> {
        let is_refused = self.request.is_some() && self.refuses() && head.framing().has_content();
        (is_refused && !is_xml_message(head)).then(|| ProblemForm::of(head).of_media_type())
    }

    /// Begins the validation of a request, if the route validates requests. A request without content needs
    /// a document only if its method suggests content (RFC 9110 section 9.3).
    pub(crate) fn begin_request(
        self: &Rc<Self>,
        head: &RequestHead,
        cells: &Rc<OwnCells>,
    ) -> Option<RequestValidation> {
        let schema = self.request.as_ref()?;
        let means_content = matches!(head.method(), Method::Post | Method::Put | Method::Patch);
        if !head.framing().has_content() && !means_content {
            return None;
        }
        let is_coded =
            head.values_of("content-encoding").any(|coding| !coding.eq_ignore_ascii_case(b"identity"));
        if head.framing().has_content() && !self.refuses() && (!is_xml_message(head) || is_coded) {
            self.note_unread(cells, MessageSide::Request, "its content is no XML, or has a coding");
            return None;
        }
        Some(RequestValidation {
            validation: self.clone(),
            cells: cells.clone(),
            form: ProblemForm::of(head),
            state: State::Judging(Document::new(schema).into()),
        })
    }
}

impl RequestValidation {
    /// Validates the next bytes of the content for a slice. Returns the number of bytes that need no further
    /// look.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> usize {
        let State::Judging(document) = &mut self.state else { return bytes.len() };
        match slice::feed(document, bytes) {
            Ok(fed) => fed,
            Err(fault) => {
                self.note(fault);
                bytes.len()
            }
        }
    }

    /// Ends the validation of the complete content.
    pub(crate) fn finish(&mut self) {
        let State::Judging(document) = &mut self.state else { return };
        match document.finish() {
            Ok(()) => self.cells.count_judged(MessageSide::Request, Judged::Valid),
            Err(fault) => self.note(fault),
        }
    }

    /// Returns the refusal of content with a fault, if the route refuses requests.
    pub(crate) fn refusal(&self) -> Option<Reply> {
        match &self.state {
            State::Faulty(fault) if self.validation.refuses() => Some(self.form.of_fault(fault)),
            State::Faulty(_) | State::Judging(_) => None,
        }
    }

    /// Returns the memory that the validation holds, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.state {
            State::Judging(document) => document.held_bytes(),
            State::Faulty(_) => 0,
        }
    }

    #[cold]
    fn note(&mut self, fault: Box<DocumentFault>) {
        self.validation.note_fault(&self.cells, MessageSide::Request, &fault);
        self.state = State::Faulty(fault);
    }
}

/// Returns whether the one content type of a message is XML.
fn is_xml_message(head: &RequestHead) -> bool {
    let mut types = head.values_of("content-type");
    // Two readers of several fields may use different ones.
    types.next().is_some_and(is_xml_type) && types.next().is_none()
}

/// Returns whether a content type is XML.
pub(super) fn is_xml_type(content_type: &[u8]) -> bool {
    is_xml(&essence_of(content_type).to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_xml_are_the_two_names_and_those_with_the_suffix() {
        for xml in ["application/xml", "TEXT/XML; charset=utf-8", "application/soap+xml", " text/xml "] {
            assert!(is_xml_type(xml.as_bytes()), "{xml}");
        }
        for other in ["", "application/json", "text/plain", "application/xmlx", "xml", "application/xml-dtd"]
        {
            assert!(!is_xml_type(other.as_bytes()), "{other}");
        }
    }
}

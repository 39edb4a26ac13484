//! Turns the text of a document into events.

use crate::attributes::{AttributeList, Attributes, namespace_of};
use crate::characters::NameSpan;
use crate::elements::OpenElements;
use crate::error::XmlErrorKind::{Malformed, Namespace, Stopped};
use crate::error::{AtFault, Fault, Result};
use crate::events::{Events, Stop};
use crate::limits::Limits;
use crate::markup::{self, Section};
use crate::name::{Name, Parts};
use crate::position::Width;
use crate::reference::reference;
use crate::scope::{NamespaceId, Scope};
use crate::tag::{StartTag, end_tag, start_tag};

/// The state of a document between two texts.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) limits: Limits,
    pub(super) open: OpenElements,
    pub(super) scope: Scope,
    attributes: AttributeList,
    pub(super) phase: Phase,
    pub(super) state: State,
    /// Whether the last text ended with a carriage return, which a line feed may follow.
    pub(super) after_carriage_return: bool,
    /// Number of open elements up to one whose content is not reported. 0: all content is reported.
    pub(super) skipped_depth: usize,
}

/// The part of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing was read. An XML declaration is allowed here only.
    Start,
    BeforeDoctype,
    BeforeRoot,
    InRoot,
    AfterRoot,
}

/// What the next character belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Text or the beginning of markup. `brackets` counts the `]` at the end of the text so far, up to two.
    Content { brackets: u8 },
    /// `dashes` counts the `-` before the next character, up to two.
    Comment { dashes: u8 },
    /// `brackets` counts the `]` that were read and not reported, up to two.
    CData { brackets: u8 },
    /// `is_question` says that a `?` precedes the next character.
    Instruction { is_question: bool },
}

pub(super) const CONTENT: State = State::Content { brackets: 0 };

impl Core {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: OpenElements::default(),
            scope: Scope::new(),
            attributes: AttributeList::default(),
            phase: Phase::Start,
            state: CONTENT,
            after_carriage_return: false,
            skipped_depth: 0,
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn depth(&self) -> usize {
        self.open.depth()
    }

    pub(super) fn path(&self) -> String {
        self.open.path()
    }

    /// Reads a text up to its end, or up to markup that it cuts. Returns that place.
    pub(super) fn read<E: Events + ?Sized>(
        &mut self,
        text: &str,
        width: Width,
        events: &mut E,
    ) -> Result<usize> {
        let mut at = 0;
        while at < text.len() {
            match self.state {
                State::Content { brackets } => {
                    if self.skipped_depth > 0 && brackets == 0 {
                        at = self.skip(text, at);
                        if at == text.len() {
                            break;
                        }
                    }
                    let from = at;
                    if text.as_bytes()[at] == b'<' && !self.after_carriage_return {
                        self.state = CONTENT;
                    } else {
                        at = self.content(text, from, brackets, events)?;
                        if at > from && self.phase == Phase::Start {
                            self.phase = Phase::BeforeDoctype;
                        }
                        if at == text.len() {
                            break;
                        }
                    }
                    match self.markup(text, at, width, events)? {
                        Some(next) => at = next,
                        None => return Ok(at),
                    }
                }
                State::Comment { dashes } => at = self.comment(text, at, dashes)?,
                State::CData { brackets } => at = self.cdata(text, at, brackets, events)?,
                State::Instruction { is_question } => at = self.instruction(text, at, is_question)?,
            }
        }
        Ok(at)
    }

    /// Checks that the document may end here. `is_cut` says that markup is incomplete.
    pub(super) fn finish(&self, is_cut: bool) -> Result<()> {
        let within = match self.state {
            _ if is_cut => "markup",
            State::Comment { .. } => "a comment",
            State::CData { .. } => "a CDATA section",
            State::Instruction { .. } => "a processing instruction",
            State::Content { .. } => match self.phase {
                Phase::AfterRoot => return Ok(()),
                Phase::InRoot => "an element",
                _ => return Err(Fault::new(Malformed, 0, "text has no root element", AtFault::InReason, "")),
            },
        };
        Err(Fault::new(Malformed, 0, format!("text ends inside {within}"), AtFault::InReason, ""))
    }

    /// Returns the fault of markup that is too long.
    pub(super) fn too_long(&self, at: usize) -> Box<Fault> {
        Fault::limit(at, format!("a tag longer than {} bytes", self.limits.tag_bytes_max))
    }

    /// Reads the markup at `at`. `None` if the text ends within it.
    #[inline]
    fn markup<E: Events + ?Sized>(
        &mut self,
        text: &str,
        at: usize,
        width: Width,
        events: &mut E,
    ) -> Result<Option<usize>> {
        let end = at.saturating_add(self.limits.tag_bytes_max);
        let (text, is_bounded) =
            if end < text.len() { (&text[..text.floor_char_boundary(end)], true) } else { (text, false) };
        let read = match (text.as_bytes()[at], text.as_bytes().get(at + 1)) {
            (_, None) => None,
            (b'&', _) => self.reference(text, at, events)?,
            (_, Some(b'/')) => self.end(text, at, events)?,
            (_, Some(b'!')) => self.section(text, at)?,
            (_, Some(b'?')) => self.question(text, at, width)?,
            _ => self.start(text, at, events)?,
        };
        match read {
            None if is_bounded => Err(self.too_long(at)),
            Some(_) if self.phase == Phase::Start => {
                self.phase = Phase::BeforeDoctype;
                Ok(read)
            }
            _ => Ok(read),
        }
    }

    #[inline]
    fn start<E: Events + ?Sized>(&mut self, text: &str, at: usize, events: &mut E) -> Result<Option<usize>> {
        let Some(tag) = start_tag(text, at, &mut self.attributes, &self.limits)? else { return Ok(None) };
        let StartTag { name: span, is_empty, end } = tag;
        if self.phase == Phase::AfterRoot {
            return Err(Fault::new(Malformed, at, "a second root element", AtFault::InReason, ""));
        }
        if self.open.depth() >= self.limits.depth_max {
            let reason = format!("elements are nested deeper than {}", self.limits.depth_max);
            return Err(Fault::limit(at, reason));
        }
        let outer_scope = self.scope.len();
        self.attributes.resolve(text, &mut self.scope, &self.limits)?;
        let is_as_outside = self.scope.len() == outer_scope;
        let same = if is_as_outside { self.open.namespace_of_same_prefix(text, span) } else { None };
        let namespace = match same {
            Some(namespace) => namespace,
            None => namespace_of_element(text, span, &self.scope, &self.limits)?,
        };
        let name = name(text, span, self.scope.uri(namespace));
        let attributes = Attributes::new(&self.attributes, text, &self.scope, outer_scope);
        let is_reported = self.skipped_depth == 0;
        if is_reported {
            events.start(name, &attributes).map_err(|stop| stopped(at, stop))?;
        }
        self.phase = Phase::InRoot;
        if is_empty {
            if is_reported {
                events.end(name).map_err(|stop| stopped(at, stop))?;
            }
            self.scope.truncate(outer_scope);
            self.phase = if self.open.depth() == 0 { Phase::AfterRoot } else { Phase::InRoot };
        } else {
            self.open.push(text, span, namespace, outer_scope);
            if is_reported && events.skips_content() {
                self.skipped_depth = self.open.depth();
            }
        }
        Ok(Some(end))
    }

    #[inline]
    fn end<E: Events + ?Sized>(&mut self, text: &str, at: usize, events: &mut E) -> Result<Option<usize>> {
        let Some(end) = self.end_of_end_tag(text, at)? else { return Ok(None) };
        // The tag has the name of the innermost element.
        let Some((element, open)) = self.open.last() else { return Ok(Some(end)) };
        if self.skipped_depth == self.open.depth() {
            self.skipped_depth = 0;
        }
        if self.skipped_depth == 0 {
            let Parts { prefix, local } = element.parts(open);
            let name = Name { uri: self.scope.uri(element.namespace), local, prefix };
            events.end(name).map_err(|stop| stopped(at, stop))?;
        }
        self.scope.truncate(element.outer_scope);
        self.open.pop();
        if self.open.depth() == 0 {
            self.phase = Phase::AfterRoot;
        }
        Ok(Some(end))
    }

    /// Checks that the end tag at `at` ends the innermost element. Returns the first place after the tag.
    #[inline]
    fn end_of_end_tag(&self, text: &str, at: usize) -> Result<Option<usize>> {
        let Some((_, open)) = self.open.last() else { return self.refuse_end_tag(text, at) };
        // Most end tags are the name and `>`. The name is known to be valid.
        let rest = text.as_bytes()[at + 2..].strip_prefix(open.as_bytes());
        match rest.and_then(<[u8]>::first) {
            Some(b'>') => Ok(Some(at + 3 + open.len())),
            _ => self.end_of_other_end_tag(text, at, open),
        }
    }

    fn end_of_other_end_tag(&self, text: &str, at: usize, open: &str) -> Result<Option<usize>> {
        let Some(tag) = end_tag(text, at, &self.limits)? else { return Ok(None) };
        let found = tag.name.whole(text);
        if found == open {
            return Ok(Some(tag.end));
        }
        let (reason, found) = ("an end tag of another element", AtFault::Text(found.to_owned()));
        Err(Fault::new(Malformed, at, reason, found, format!("</{open}>")))
    }

    #[cold]
    fn refuse_end_tag(&self, text: &str, at: usize) -> Result<Option<usize>> {
        let Some(tag) = end_tag(text, at, &self.limits)? else { return Ok(None) };
        let (reason, found) = ("an end tag without a start tag", tag.name.whole(text).to_owned());
        Err(Fault::new(Malformed, at, reason, AtFault::Text(found), ""))
    }

    fn reference<E: Events + ?Sized>(
        &mut self,
        text: &str,
        at: usize,
        events: &mut E,
    ) -> Result<Option<usize>> {
        if self.phase != Phase::InRoot {
            return Err(outside(at));
        }
        let Some(found) = reference(text, at, self.limits.name_bytes_max)? else { return Ok(None) };
        self.text(found.character.encode_utf8(&mut [0; 4]), at, events)?;
        Ok(Some(at + found.length))
    }

    /// Reports a part of a text within the root element.
    #[inline(always)]
    pub(super) fn text<E: Events + ?Sized>(&self, text: &str, at: usize, events: &mut E) -> Result<()> {
        if self.skipped_depth > 0 {
            return Ok(());
        }
        events.text(text).map_err(|stop| stopped(at, stop))
    }

    fn section(&mut self, text: &str, at: usize) -> Result<Option<usize>> {
        let Some(section) = markup::section(text, at)? else { return Ok(None) };
        match section {
            Section::Comment => self.state = State::Comment { dashes: 0 },
            Section::CData if self.phase != Phase::InRoot => return Err(outside(at)),
            Section::CData => self.state = State::CData { brackets: 0 },
            Section::Doctype => return self.doctype(text, at),
        }
        Ok(Some(at + section.begin_bytes()))
    }

    fn doctype(&mut self, text: &str, at: usize) -> Result<Option<usize>> {
        let misplaced = match self.phase {
            Phase::Start | Phase::BeforeDoctype => None,
            Phase::BeforeRoot => Some("a second DOCTYPE"),
            Phase::InRoot | Phase::AfterRoot => Some("a DOCTYPE after the start of the root element"),
        };
        if let Some(reason) = misplaced {
            return Err(Fault::new(Malformed, at, reason, AtFault::InReason, ""));
        }
        let end = markup::doctype(text, at, &self.limits)?;
        if end.is_some() {
            self.phase = Phase::BeforeRoot;
        }
        Ok(end)
    }

    /// Reads the XML declaration, or the beginning of a processing instruction.
    fn question(&mut self, text: &str, at: usize, width: Width) -> Result<Option<usize>> {
        if self.phase == Phase::Start && at == 0 {
            match markup::begins_declaration(text.as_bytes()) {
                None => return Ok(None),
                Some(true) => return self.declaration(text, width),
                Some(false) => {}
            }
        }
        let end = markup::instruction(text, at, &self.limits)?;
        if end.is_some() {
            self.state = State::Instruction { is_question: false };
        }
        Ok(end)
    }

    fn declaration(&mut self, text: &str, width: Width) -> Result<Option<usize>> {
        let Some(declaration) = markup::declaration(text)? else { return Ok(None) };
        declaration.check_encoding(width)?;
        Ok(Some(declaration.end))
    }
}

/// Returns the namespace of an element. A prefix must be declared, and `xmlns` is none.
#[inline]
fn namespace_of_element(text: &str, span: NameSpan, scope: &Scope, limits: &Limits) -> Result<NamespaceId> {
    if span.colon == span.start {
        return Ok(scope.default_namespace());
    }
    if span.parts(text).prefix == "xmlns" {
        let reason = "an element with the prefix xmlns";
        return Err(Fault::new(Namespace, span.start, reason, AtFault::InReason, ""));
    }
    namespace_of(text, span, scope, limits)
}

#[inline]
fn name<'a>(text: &'a str, span: NameSpan, uri: &'a str) -> Name<'a> {
    let Parts { prefix, local } = span.parts(text);
    Name { uri, local, prefix }
}

#[cold]
pub(super) fn stopped(at: usize, _: Stop) -> Box<Fault> {
    Fault::new(Stopped, at, "reading was stopped", AtFault::InReason, "")
}

#[cold]
pub(super) fn outside(at: usize) -> Box<Fault> {
    Fault::new(Malformed, at, "text outside the root element", AtFault::InReason, "")
}

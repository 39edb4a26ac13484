//! Turns the text of a document into events.

use crate::attributes::{AttributeList, Attributes, namespace_of};
use crate::characters::{NameSpan, allowed_character, end_of_plain_text, is_space, refused_character};
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
    limits: Limits,
    open: OpenElements,
    scope: Scope,
    attributes: AttributeList,
    phase: Phase,
    state: State,
    /// Whether the last text ended with a carriage return, which a line feed may follow.
    after_carriage_return: bool,
}

/// The part of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was read. An XML declaration is allowed here only.
    Start,
    BeforeDoctype,
    BeforeRoot,
    InRoot,
    AfterRoot,
}

/// What the next character belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Text or the beginning of markup. `brackets` counts the `]` at the end of the text so far, up to two.
    Content { brackets: u8 },
    /// `dashes` counts the `-` before the next character, up to two.
    Comment { dashes: u8 },
    /// `brackets` counts the `]` that were read and not reported, up to two.
    CData { brackets: u8 },
    /// `is_question` says that a `?` precedes the next character.
    Instruction { is_question: bool },
}

const CONTENT: State = State::Content { brackets: 0 };

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
                    let from = at;
                    at = self.content(text, from, brackets, events)?;
                    if at > from && self.phase == Phase::Start {
                        self.phase = Phase::BeforeDoctype;
                    }
                    if at == text.len() {
                        break;
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

    /// Reads text up to the next `<` or `&`.
    #[inline]
    fn content<E: Events + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        brackets: u8,
        events: &mut E,
    ) -> Result<usize> {
        let bytes = text.as_bytes();
        let mut at = self.after_line_feed(bytes, from);
        let mut plain = at;
        loop {
            at = end_of_plain_text(bytes, at);
            let Some(&byte) = bytes.get(at) else {
                self.report(text, plain, at, events)?;
                let all = brackets_before(bytes, from, at, brackets);
                self.state = State::Content { brackets: all };
                return Ok(at);
            };
            match byte {
                b'<' | b'&' => {
                    self.report(text, plain, at, events)?;
                    self.state = CONTENT;
                    return Ok(at);
                }
                b'\r' => {
                    self.report(text, plain, at, events)?;
                    at = self.line_end(bytes, at, events)?;
                    plain = at;
                }
                b'>' if brackets_before(bytes, from, at, brackets) == 2 => {
                    self.report(text, plain, at, events)?;
                    return Err(Fault::malformed(text, at, "]]> in a text", "&gt;"));
                }
                b'>' => at += 1,
                _ => match allowed_character(text, at) {
                    Some(length) => at += length,
                    None => {
                        self.report(text, plain, at, events)?;
                        return Err(Fault::character(text, at));
                    }
                },
            }
        }
    }

    /// Reports a part of a text. Outside of the root element only white space is allowed.
    #[inline]
    fn report<E: Events + ?Sized>(&self, text: &str, start: usize, end: usize, events: &mut E) -> Result<()> {
        if start == end {
            return Ok(());
        }
        if self.phase == Phase::InRoot {
            return events.text(&text[start..end]).map_err(|stop| stopped(start, stop));
        }
        let bytes = &text.as_bytes()[start..end];
        match bytes.iter().position(|&byte| !is_space(byte)) {
            None => Ok(()),
            Some(found) => Err(outside(start + found)),
        }
    }

    /// Skips the line feed after a carriage return that ended the last text.
    #[inline]
    fn after_line_feed(&mut self, bytes: &[u8], at: usize) -> usize {
        let skips = self.after_carriage_return && bytes.get(at) == Some(&b'\n');
        self.after_carriage_return = false;
        if skips { at + 1 } else { at }
    }

    /// Reports a line end that begins with a carriage return (section 2.11), and returns the first place
    /// after it.
    fn line_end<E: Events + ?Sized>(&mut self, bytes: &[u8], at: usize, events: &mut E) -> Result<usize> {
        if self.phase == Phase::InRoot {
            events.text("\n").map_err(|stop| stopped(at, stop))?;
        }
        self.after_carriage_return = at + 1 == bytes.len();
        Ok(if bytes.get(at + 1) == Some(&b'\n') { at + 2 } else { at + 1 })
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
        let namespace = namespace_of_element(text, span, &self.scope, &self.limits)?;
        let name = name(text, span, self.scope.uri(namespace));
        let attributes = Attributes::new(&self.attributes, text, &self.scope, outer_scope);
        events.start(name, &attributes).map_err(|stop| stopped(at, stop))?;
        self.phase = Phase::InRoot;
        if is_empty {
            events.end(name).map_err(|stop| stopped(at, stop))?;
            self.scope.truncate(outer_scope);
            self.phase = if self.open.depth() == 0 { Phase::AfterRoot } else { Phase::InRoot };
        } else {
            self.open.push(span.whole(text), namespace, outer_scope);
        }
        Ok(Some(end))
    }

    #[inline]
    fn end<E: Events + ?Sized>(&mut self, text: &str, at: usize, events: &mut E) -> Result<Option<usize>> {
        let Some(tag) = end_tag(text, at, &self.limits)? else { return Ok(None) };
        let found = tag.name.whole(text);
        let outer_scope = match self.open.last() {
            Some((element, open)) if open == found => {
                let name = name(text, tag.name, self.scope.uri(element.namespace));
                events.end(name).map_err(|stop| stopped(at, stop))?;
                element.outer_scope
            }
            Some((_, open)) => {
                let (reason, found) = ("an end tag of another element", AtFault::Text(found.to_owned()));
                return Err(Fault::new(Malformed, at, reason, found, format!("</{open}>")));
            }
            None => {
                let (reason, found) = ("an end tag without a start tag", AtFault::Text(found.to_owned()));
                return Err(Fault::new(Malformed, at, reason, found, ""));
            }
        };
        self.scope.truncate(outer_scope);
        self.open.pop();
        if self.open.depth() == 0 {
            self.phase = Phase::AfterRoot;
        }
        Ok(Some(tag.end))
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
        events.text(found.character.encode_utf8(&mut [0; 4])).map_err(|stop| stopped(at, stop))?;
        Ok(Some(at + found.length))
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

    /// Reads a comment after its beginning (production 15).
    fn comment(&mut self, text: &str, from: usize, mut dashes: u8) -> Result<usize> {
        let bytes = text.as_bytes();
        let mut at = from;
        while at < bytes.len() {
            match (dashes, bytes[at]) {
                (2, b'>') => {
                    self.state = CONTENT;
                    return Ok(at + 1);
                }
                (2, _) => return Err(Fault::malformed(text, at, "a comment with -- in it", "-->")),
                (_, b'-') => {
                    dashes += 1;
                    at += 1;
                }
                _ => {
                    dashes = 0;
                    let next = memchr::memchr(b'-', &bytes[at..]).map_or(bytes.len(), |found| at + found);
                    check_characters(text, at, next)?;
                    at = next;
                }
            }
        }
        self.state = State::Comment { dashes };
        Ok(at)
    }

    /// Reads a processing instruction after its target (production 16).
    fn instruction(&mut self, text: &str, from: usize, is_question: bool) -> Result<usize> {
        let bytes = text.as_bytes();
        if is_question && bytes[from] == b'>' {
            self.state = CONTENT;
            return Ok(from + 1);
        }
        let question = memchr::memchr(b'?', &bytes[from..]).map_or(bytes.len(), |found| from + found);
        check_characters(text, from, question)?;
        let is_question = question < bytes.len();
        self.state = State::Instruction { is_question };
        Ok(if is_question { question + 1 } else { question })
    }

    /// Reads a CDATA section after its beginning (productions 18 to 21).
    fn cdata<E: Events + ?Sized>(
        &mut self,
        text: &str,
        from: usize,
        mut brackets: u8,
        events: &mut E,
    ) -> Result<usize> {
        let bytes = text.as_bytes();
        let mut at = self.after_line_feed(bytes, from);
        while at < bytes.len() {
            match (brackets, bytes[at]) {
                (2, b'>') => {
                    self.state = CONTENT;
                    return Ok(at + 1);
                }
                (2, b']') => {
                    events.text("]").map_err(|stop| stopped(at, stop))?;
                    at += 1;
                }
                (_, b']') => {
                    brackets += 1;
                    at += 1;
                }
                _ => {
                    if brackets > 0 {
                        events.text(&"]]"[..usize::from(brackets)]).map_err(|stop| stopped(at, stop))?;
                        brackets = 0;
                    }
                    at = self.cdata_text(text, at, events)?;
                }
            }
        }
        self.state = State::CData { brackets };
        Ok(at)
    }

    /// Reports text of a CDATA section up to the next `]`.
    fn cdata_text<E: Events + ?Sized>(&mut self, text: &str, at: usize, events: &mut E) -> Result<usize> {
        let bytes = text.as_bytes();
        if bytes[at] == b'\r' {
            return self.line_end(bytes, at, events);
        }
        let end = memchr::memchr2(b']', b'\r', &bytes[at..]).map_or(bytes.len(), |found| at + found);
        let refused = refused_character(text, at, end);
        self.report(text, at, refused.unwrap_or(end), events)?;
        match refused {
            None => Ok(end),
            Some(at) => Err(Fault::character(text, at)),
        }
    }
}

fn check_characters(text: &str, from: usize, end: usize) -> Result<()> {
    match refused_character(text, from, end) {
        None => Ok(()),
        Some(at) => Err(Fault::character(text, at)),
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

/// Counts the `]` before `at`, up to two. `before` of them precede `from`.
fn brackets_before(bytes: &[u8], from: usize, at: usize, before: u8) -> u8 {
    match &bytes[from..at] {
        [.., b']', b']'] => 2,
        [b']'] => (1 + before).min(2),
        [.., b']'] => 1,
        [] => before,
        _ => 0,
    }
}

#[cold]
fn stopped(at: usize, _: Stop) -> Box<Fault> {
    Fault::new(Stopped, at, "reading was stopped", AtFault::InReason, "")
}

#[cold]
fn outside(at: usize) -> Box<Fault> {
    Fault::new(Malformed, at, "text outside the root element", AtFault::InReason, "")
}

//! The elements of an XML body at a path, one after another, in constant memory.
//!
//! [`ElementReader`] reads the body from memory or from a file. It keeps each element as an [`ElementTape`],
//! which threads can make, because it has no values of Luau.

use std::collections::VecDeque;

use tollgate_xml::{
    Attributes, Doctype, Events, Found, Limits, Name, PathMatcher, PathSet, PrefixBinding, Prefixes, Reader,
    Stop, XmlError, XmlErrorKind,
};

use crate::body::Body;
use crate::conversion::DEPTH_MAX;
use crate::stretch::{Blocks, BodyReadError, STRETCH_BYTES, WorkStep};

/// An element with everything in it.
#[derive(Debug, Default)]
pub(crate) struct ElementTape {
    /// All names, values and texts, one after another.
    text: String,
    marks: Vec<Mark>,
    /// Length of the element in bytes, see [`ElementReader::new`].
    bytes: usize,
}

/// What stands at a place of an element. The numbers are lengths in bytes.
#[derive(Debug, Clone, Copy)]
enum Mark {
    Start { name: u32, attributes: u32 },
    Attribute { name: u32, value: u32 },
    Text(u32),
    End,
}

/// A part of an element. Names are as the document has them, with their prefixes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// An element begins, with this number of attributes.
    Start(&'a str, usize),
    /// An attribute of the element that began last.
    Attribute(&'a str, &'a str),
    Text(&'a str),
    End,
}

impl ElementTape {
    /// Lists the parts of the element, in the order of the document. No text follows another one.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let mut rest = self.text.as_str();
        let mut take = move |bytes: u32| {
            let (taken, after) = rest.split_at(bytes as usize);
            rest = after;
            taken
        };
        self.marks.iter().map(move |mark| match *mark {
            Mark::Start { name, attributes } => Part::Start(take(name), attributes as usize),
            Mark::Attribute { name, value } => Part::Attribute(take(name), take(value)),
            Mark::Text(bytes) => Part::Text(take(bytes)),
            Mark::End => Part::End,
        })
    }

    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) {
        let bytes = self.push_name(name.prefix, name.local);
        let count = attributes.declarations().count() + attributes.len();
        self.marks.push(Mark::Start { name: bytes, attributes: length(count) });
        // `<name>` and `</name>`.
        self.bytes += 2 * bytes as usize + 5;
        for declared in attributes.declarations() {
            match declared.prefix {
                "" => self.attribute("", "xmlns", declared.uri),
                prefix => self.attribute("xmlns", prefix, declared.uri),
            }
        }
        for attribute in attributes.iter() {
            self.attribute(attribute.name.prefix, attribute.name.local, attribute.value);
        }
    }

    fn attribute(&mut self, prefix: &str, local: &str, value: &str) {
        let name = self.push_name(prefix, local);
        self.text.push_str(value);
        self.marks.push(Mark::Attribute { name, value: length(value.len()) });
        // ` name="value"`.
        self.bytes += name as usize + value.len() + 4;
    }

    fn text(&mut self, text: &str) {
        self.text.push_str(text);
        self.bytes += text.len();
        match self.marks.last_mut() {
            Some(Mark::Text(bytes)) => *bytes += length(text.len()),
            _ => self.marks.push(Mark::Text(length(text.len()))),
        }
    }

    fn push_name(&mut self, prefix: &str, local: &str) -> u32 {
        let before = self.text.len();
        if !prefix.is_empty() {
            self.text.push_str(prefix);
            self.text.push(':');
        }
        self.text.push_str(local);
        length(self.text.len() - before)
    }
}

/// Converts a length. [`BYTES_MAX`] bounds elements, so each length fits.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A body whose elements are being read.
pub(crate) struct ElementReader {
    blocks: Blocks,
    reader: Reader,
    finder: Finder,
    state: State,
}

enum State {
    Reading,
    /// The document is complete.
    Ended,
    /// The status and the reason of the fault.
    Failed(u16, String),
}

impl ElementReader {
    /// Begins a body.
    ///
    /// `bytes_max` is the greatest length of an element, at most [`BYTES_MAX`]. The length counts tags,
    /// attributes and text after references are replaced, without the white space in tags.
    ///
    /// # Errors
    /// `Err` of the inner result says why the path is not accepted. `Disk` if the file of the body cannot be
    /// opened again.
    pub(crate) fn new(
        body: &Body,
        path: &str,
        namespaces: &[(String, String)],
        bytes_max: usize,
        doctype: Doctype,
    ) -> Result<Result<Self, String>, BodyReadError> {
        let bindings: Vec<_> = namespaces.iter().map(|(prefix, uri)| PrefixBinding { prefix, uri }).collect();
        let set = match PathSet::new([path], &bindings) {
            Ok(set) if set.finds_elements(0) => set,
            Ok(_) => return Ok(Err("the path does not lead to elements".to_owned())),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let limits = Limits {
            depth_max: DEPTH_MAX,
            tag_bytes_max: bytes_max.max(Limits::default().tag_bytes_max),
            doctype,
            prefixes: Prefixes::Any,
            ..Limits::default()
        };
        let matcher = PathMatcher::new(&set);
        let finder =
            Finder { set, matcher, bytes_max, open: None, is_too_long: false, found: VecDeque::new() };
        let blocks = Blocks::new(body)?;
        Ok(Ok(Self { blocks, reader: Reader::new(limits), finder, state: State::Reading }))
    }

    /// Returns whether [`next`](Self::next) needs no disk: the body is in memory, or the element was read.
    pub(crate) fn is_ready(&self) -> bool {
        self.blocks.is_in_memory() || !self.finder.found.is_empty()
    }

    /// Returns the next element. `None` is the end of the document.
    ///
    /// The elements before a fault come first. The fault itself comes again at each call.
    pub(crate) fn next(&mut self) -> WorkStep<Result<Option<ElementTape>, BodyReadError>> {
        let until = self.blocks.at().saturating_add(STRETCH_BYTES);
        loop {
            if let Some(found) = self.finder.found.pop_front() {
                return WorkStep::Done(Ok(Some(found)));
            }
            match &self.state {
                State::Ended => return WorkStep::Done(Ok(None)),
                State::Failed(status, reason) => {
                    return WorkStep::Done(Err(BodyReadError::Client(*status, reason.clone())));
                }
                State::Reading if self.blocks.at() >= until => return WorkStep::More,
                State::Reading => {}
            }
            if let Err(error) = self.read_block() {
                return WorkStep::Done(Err(error.into()));
            }
        }
    }

    fn read_block(&mut self) -> std::io::Result<()> {
        let block = self.blocks.next(BLOCK_BYTES)?;
        let read = if block.is_empty() {
            self.reader.finish(&mut self.finder).map(|()| self.state = State::Ended)
        } else {
            self.reader.feed(&block, &mut self.finder)
        };
        if let Err(error) = read {
            let (status, reason) = self.finder.fault(&error);
            self.state = State::Failed(status, reason);
        }
        Ok(())
    }
}

/// Finds elements in the events of a document.
struct Finder {
    set: PathSet,
    matcher: PathMatcher,
    bytes_max: usize,
    open: Option<OpenElement>,
    is_too_long: bool,
    /// Elements that are complete, of one block.
    found: VecDeque<ElementTape>,
}

/// The outermost element that the path leads to, while it is open.
struct OpenElement {
    depth: usize,
    tape: ElementTape,
}

impl Events for Finder {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        let mut is_found = false;
        self.matcher.start(&self.set, name, attributes, |_, found| is_found |= found == Found::Element);
        if is_found && self.open.is_none() {
            self.open = Some(OpenElement { depth: self.matcher.depth(), tape: ElementTape::default() });
        }
        self.add(|tape| tape.start(name, attributes))
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.matcher.text(&self.set, text);
        self.add(|tape| tape.text(text))
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
        self.add(|tape| tape.marks.push(Mark::End))?;
        let depth = self.matcher.depth();
        self.matcher.end(&self.set, |_, _| {});
        self.found.extend(self.open.take_if(|open| open.depth == depth).map(|open| open.tape));
        Ok(())
    }
}

impl Finder {
    /// Adds something to the open element, if there is one.
    fn add(&mut self, add: impl FnOnce(&mut ElementTape)) -> Result<(), Stop> {
        let Some(OpenElement { tape, .. }) = &mut self.open else { return Ok(()) };
        add(tape);
        self.is_too_long = tape.bytes > self.bytes_max;
        if self.is_too_long { Err(Stop) } else { Ok(()) }
    }

    fn fault(&self, error: &XmlError) -> (u16, String) {
        if self.is_too_long {
            let (limit, place) = (self.bytes_max, error.position().byte);
            let reason = format!("an element at byte {place} exceeds limit: limit {limit} bytes");
            return (413, reason);
        }
        let status = if error.kind() == XmlErrorKind::Limit { 413 } else { 400 };
        (status, format!("the body is not XML: {error}"))
    }
}

/// Greatest allowed length of an element in bytes.
pub(crate) const BYTES_MAX: usize = 1 << 30;
/// Bytes that are read at once. The elements that end within one block are kept together.
const BLOCK_BYTES: usize = 32 << 10;

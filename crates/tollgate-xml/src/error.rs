//! Faults of a document.

use std::borrow::Cow;
use std::fmt;

use crate::position::Position;

/// A fault of a document, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlError(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    fault: Fault,
    position: Position,
    path: String,
}

/// What kind of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlErrorKind {
    /// The document is not well-formed.
    Malformed,
    /// The document breaks a rule of Namespaces in XML.
    Namespace,
    /// The document exceeds a limit.
    Limit,
    /// The bytes are not in an encoding that the reader knows.
    Encoding,
    /// The document has a document type declaration.
    Doctype,
    /// The receiver of the events stopped the reader.
    Stopped,
}

/// A fault in the text that a function reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: XmlErrorKind,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) found: AtFault,
    pub(crate) allowed: Cow<'static, str>,
    /// Place in the text.
    pub(crate) at: usize,
}

/// What stands at the place of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AtFault {
    /// The reason says what was found.
    InReason,
    Character(char),
    Text(String),
    End,
}

pub(crate) type Result<T> = std::result::Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    pub(crate) fn new(
        kind: XmlErrorKind,
        at: usize,
        reason: impl Into<Cow<'static, str>>,
        found: AtFault,
        allowed: impl Into<Cow<'static, str>>,
    ) -> Box<Self> {
        Box::new(Self { kind, reason: reason.into(), found, allowed: allowed.into(), at })
    }

    /// Returns a fault of well-formedness at a character.
    #[cold]
    pub(crate) fn malformed(
        text: &str,
        at: usize,
        reason: impl Into<Cow<'static, str>>,
        allowed: &'static str,
    ) -> Box<Self> {
        let found = text[at..].chars().next().map_or(AtFault::End, AtFault::Character);
        Self::new(XmlErrorKind::Malformed, at, reason, found, allowed)
    }

    /// Returns the fault of a character that XML does not allow.
    #[cold]
    pub(crate) fn character(text: &str, at: usize) -> Box<Self> {
        let code = text[at..].chars().next().map_or(0, u32::from);
        let reason = format!("U+{code:04X}, a character that XML does not allow,");
        Self::new(XmlErrorKind::Malformed, at, reason, AtFault::InReason, "")
    }

    /// Returns the fault of a bound.
    #[cold]
    pub(crate) fn limit(at: usize, reason: impl Into<Cow<'static, str>>) -> Box<Self> {
        Self::new(XmlErrorKind::Limit, at, reason, AtFault::InReason, "")
    }
}

impl XmlError {
    pub(crate) fn new(fault: Fault, position: Position, path: String) -> Self {
        // The place in a piece would differ between two ways to cut the same document.
        Self(Box::new(Details { fault: Fault { at: 0, ..fault }, position, path }))
    }

    /// The kind of the fault.
    pub fn kind(&self) -> XmlErrorKind {
        self.0.fault.kind
    }

    /// What is wrong, without the place.
    pub fn reason(&self) -> &str {
        &self.0.fault.reason
    }

    /// What stands at the place of the fault. Empty if the reason says it.
    pub fn found(&self) -> String {
        match &self.0.fault.found {
            AtFault::InReason => String::new(),
            AtFault::Character(character) => format!("{character:?}"),
            AtFault::Text(text) => format!("{text:?}"),
            AtFault::End => "the end of the text".to_owned(),
        }
    }

    /// What may stand at the place of the fault. Empty if there is no short list.
    pub fn allowed(&self) -> &str {
        &self.0.fault.allowed
    }

    /// The place of the fault.
    pub fn position(&self) -> Position {
        self.0.position
    }

    /// The names of the open elements, such as `/orders/order`. `/` outside of the root element.
    pub fn path(&self) -> &str {
        &self.0.path
    }
}

impl fmt::Display for XmlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason())?;
        let (found, allowed) = (self.found(), self.allowed());
        if !found.is_empty() {
            write!(formatter, ": found {found}")?;
        }
        if !allowed.is_empty() {
            write!(formatter, ", allowed is {allowed}")?;
        }
        let Position { byte, line, column } = self.0.position;
        write!(formatter, " at byte {byte} (line {line}, column {column}) in {}", self.path())
    }
}

impl std::error::Error for XmlError {}

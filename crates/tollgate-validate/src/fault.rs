//! The first fault of a document.

use std::fmt;

use tollgate_relaxng::{Fault, Invalid};
use tollgate_xml::{Position, XmlError, XmlErrorKind};

/// The first fault of a document. Its texts are safe for the client: of the document they have names, and one
/// character at most. Their length is bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// What was found, and what is allowed instead.
    pub message: String,
    /// The path of the element with the fault, such as `/order/item[2]`. `/` stands for the document.
    pub path: String,
    /// The line of the fault, counted from 1.
    pub line: u64,
    /// The column in characters, counted from 1.
    pub column: u64,
    /// The byte, counted from 1.
    pub byte: u64,
}

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The bytes are no well-formed document.
    Malformed,
    /// The document is well-formed and not valid.
    Invalid,
    /// The document exceeds a limit.
    Limit,
}

impl FaultKind {
    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Invalid => "invalid",
            Self::Limit => "limit",
        }
    }
}

impl DocumentFault {
    /// Returns the fault of a document that is not valid.
    pub(crate) fn of_invalid(invalid: &Invalid, position: Position) -> Self {
        let kind = if invalid.fault == Fault::Limit { FaultKind::Limit } else { FaultKind::Invalid };
        Self::at(position, kind, invalid.to_string(), invalid.path.clone())
    }

    /// Returns the fault of a document that is not well-formed.
    pub(crate) fn of_xml(error: &XmlError) -> Self {
        let kind = match error.kind() {
            XmlErrorKind::Limit => FaultKind::Limit,
            _ => FaultKind::Malformed,
        };
        let mut message = error.reason().to_owned();
        for (before, part) in [(": found ", error.found().as_str()), (", allowed is ", error.allowed())] {
            if !part.is_empty() {
                message.push_str(before);
                message.push_str(part);
            }
        }
        Self::at(error.position(), kind, message, error.path().to_owned())
    }

    fn at(position: Position, kind: FaultKind, message: String, path: String) -> Self {
        let Position { byte, line, column } = position;
        Self { kind, message, path, line, column, byte }
    }
}

impl fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, path, line, column, byte, .. } = self;
        write!(f, "{message} at byte {byte} (line {line}, column {column}) in {path}")
    }
}

impl std::error::Error for DocumentFault {}

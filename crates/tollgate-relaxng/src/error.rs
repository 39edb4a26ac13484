//! Faults of schemas and of documents. A fault of a schema is the operator's, and a fault of a document is
//! the client's.

use std::fmt;

/// A fault of a schema, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {fault}")]
pub struct SchemaError {
    /// The path of the file, as the loader got it.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// What is wrong, and the limit or the remedy.
    pub fault: String,
}

/// The kind of a fault of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The element is not allowed at this place.
    Element,
    /// The attribute is not allowed, or its value is not.
    Attribute,
    /// The element lacks an attribute.
    MissingAttribute,
    /// Text is not allowed, or the text of the element is not a value of its type.
    Text,
    /// The element ends before its content is complete.
    Incomplete,
    /// The document exceeds a limit of [`crate::ValidationLimits`].
    Limit,
}

/// The first fault of a document. Its text is safe for the client: all parts have a bounded length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The kind of the fault.
    pub fault: Fault,
    /// The path of the element that contains the fault: `/order/item[2]`. `/` stands for the document.
    pub path: String,
    /// The byte that the caller gave with the event.
    pub byte: u64,
    /// What was found, with its path.
    pub found: String,
    /// What is allowed instead, at most [`Invalid::EXPECTED_MAX`] entries.
    pub expected: Vec<String>,
}

impl Invalid {
    /// The largest number of entries in `expected`. The last entry says that more are left out.
    pub const EXPECTED_MAX: usize = 9;
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)?;
        let Some((last, others)) = self.expected.split_last() else { return Ok(()) };
        f.write_str("; expected ")?;
        for (index, entry) in others.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{entry}")?;
        }
        if !others.is_empty() {
            f.write_str(" or ")?;
        }
        f.write_str(last)
    }
}

impl std::error::Error for Invalid {}

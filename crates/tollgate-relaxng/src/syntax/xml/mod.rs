//! The XML syntax (section 3 of the specification).

mod attributes;
mod element;
mod grammar;
mod name_class;
mod pattern;
mod scope;
mod tree;

use super::{Fault, File, Part};

/// Reads a schema in the XML syntax.
pub(super) fn read(file: File<'_>) -> Result<Part, Fault> {
    let root = tree::read(file)?;
    let reader = scope::Reader { file };
    reader.pattern(&root, &reader.outer())
}

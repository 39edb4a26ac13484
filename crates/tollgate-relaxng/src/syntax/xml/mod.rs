//! The XML syntax (section 3 of the specification).

mod attributes;
mod element;
mod grammar;
mod name_class;
mod pattern;
mod scope;
mod tree;

use super::{File, Part, SchemaFault};

/// Reads a schema in the XML syntax.
pub(super) fn read(file: File<'_>) -> Result<Part, SchemaFault> {
    let root = tree::read(file)?;
    let reader = scope::Reader { file };
    reader.pattern(&root, &reader.outer())
}

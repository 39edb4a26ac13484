//! The compact syntax (ISO/IEC 19757-2:2003/Amd 1). Annotations are skipped.

mod lexer;
mod name_class;
mod parser;
mod pattern;
mod prefixes;
mod token;

use super::{File, Part, SchemaFault};

/// Reads a schema in the compact syntax.
pub(super) fn read(file: File<'_>) -> Result<Part, SchemaFault> {
    let tokens = lexer::tokens(file.text, file.index)?;
    parser::Parser::new(tokens, file)?.schema()
}

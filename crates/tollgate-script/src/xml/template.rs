//! Templates: XML with places for values, compiled when a script is loaded.
//!
//! `{name}` is the place of a value. `{order.name}` is the place of a nested value. `{each lines}` and
//! `{end}` surround the part that is written for each item of a list. Within it, paths begin at the item,
//! `{.}` is the item itself, and `{$.name}` begins at the value of the whole template. `?` after a path
//! allows nil. `{{` is a brace.
//!
//! A place is within a text or an attribute value, which decides the characters to escape. A template is
//! well-formed for each value: it is checked when it is compiled, and a repeated part ends at the depth at
//! which it began.

mod parse;
mod piece;
mod render;

pub(crate) use parse::compile;
pub(crate) use render::render;

//! XML 1.0 in both directions, straight between bytes and Luau values.
//!
//! An element is a table, as in the object model of LuaExpat:
//! `{ tag = "line", attr = { id = "7" }, "text", { tag = "b" } }`.
//!
//! - Encoding escapes by construction: texts and values of attributes cannot become markup. A bad name is an
//!   error with its path. A table without `tag` is a list, whose items take its place. Attributes leave in
//!   the order of their names.
//! - Decoding is strict: one element, names and characters of XML alone, UTF-8 alone. There is no DTD:
//!   `<!DOCTYPE` is refused. Nothing outside of the text is therefore read, and only the five predefined
//!   entities are known. Names stay as they are written, with their prefix.
//! - White space between elements is dropped where an element has no other text.
//! - Depth is bounded (128), and output by `reply_bytes_max`. Both directions watch the CPU budget. Decoding
//!   also watches the memory limit.

mod characters;
mod decode;
mod encode;

pub(crate) use decode::answer;
pub(crate) use encode::{document, element, escaped};

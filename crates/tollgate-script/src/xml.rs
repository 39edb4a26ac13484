//! XML 1.0 in both directions, directly between bytes and Luau values.
//!
//! An element is a table, as in the object model of LuaExpat:
//! `{ tag = "line", attr = { id = "7" }, "text", { tag = "b" } }`.
//!
//! - Encoding always escapes: texts and attribute values cannot become markup. A bad name is an error with
//!   its path. A table without `tag` is a list, whose items take its place. Attributes are written in the
//!   order of their names.
//! - Decoding is strict. It accepts one element, only names and characters of XML, and only UTF-8. There is
//!   no DTD: `<!DOCTYPE` is refused. Nothing outside the text is therefore read, and only the five predefined
//!   entities are known. Names stay as written, with their prefix.
//! - White space between elements is dropped if an element has no other text.
//! - Depth is bounded (128), and output by `reply_bytes_max`. Both directions check the CPU budget. Decoding
//!   also checks the memory limit.

mod characters;
mod decode;
mod encode;

pub(crate) use decode::answer;
pub(crate) use encode::{document, element, escaped};

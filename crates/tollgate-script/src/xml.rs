//! Converts Luau values to XML 1.0 text and back, without an intermediate form.
//!
//! An element is a table, as in the object model of LuaExpat. For example: `{ tag = "line", attr = { id = "7"
//! }, "text", { tag = "b" } }`.
//!
//! - Encoding always escapes, so texts and attribute values cannot become markup. An invalid name is an error
//!   that states its path. A table without `tag` is a list: its items become children of the surrounding
//!   element. Attributes are written in the order of their names.
//! - Decoding is strict: it accepts one element, only names and characters of XML. The text is UTF-8, UTF-16
//!   or ISO-8859-1. A DTD (`<!DOCTYPE`) is refused. Nothing outside the text is therefore read, and only the
//!   five predefined entities are known. Names stay as written, with their namespace prefix.
//! - If an element has child elements and no text except white space, the white space is dropped.
//! - The depth is at most 128, and the output has at most `reply_bytes_max` bytes. Both directions check the
//!   CPU budget. Decoding also checks the memory limit.

mod decode;
mod encode;
mod schema;
mod template;
mod tree;
mod values;

pub(crate) use decode::answer;
pub(crate) use encode::{begun, document, element, escaped};
pub(crate) use schema::{SchemaValue, fault, fault_table, schema_of};
pub(crate) use template::{compile, render};
pub(crate) use tree::table_of;
pub(crate) use values::Values;

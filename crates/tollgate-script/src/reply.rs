//! Reads the value that a handler returned, checks it, and makes an [`Outcome`] of it.
//!
//! The server adds framing, `Date` and similar fields, and drops the content of a reply to HEAD.
//!
//! A number is a status without content. A text is 200 with `text/plain; charset=utf-8`. A table has the
//! fields of [`PARTS`], and any other field is an error. All reading is raw: no metamethod of the script runs
//! here.

mod content;
mod decision;
mod file;
mod headers;
mod outcome;
mod reader;
mod record;
mod replied;
mod validators;

pub use content::{ContentType, Streamed};
pub(crate) use decision::PARTS;
pub use file::ReplyFile;
pub use headers::HeaderLine;
pub use outcome::Outcome;
pub(crate) use reader::Reader;
pub use replied::Replied;

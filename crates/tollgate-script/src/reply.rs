//! Reads the value that a handler returned, checks it, and creates an [`Outcome`].
//!
//! The server adds framing, `Date` and similar fields, and drops the content of a reply to HEAD.
//!
//! A number is a status, and the reply has no content. A text is the content of a reply with status 200 and
//! `text/plain; charset=utf-8`. A table has the fields of [`PARTS`], and any other field is an error. All
//! values are read raw: no metamethod of the script runs here.

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

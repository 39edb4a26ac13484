//! Answers for what a script finds in its globals: `tollgate`, `print`, and a standard library without the doors.

mod app;
mod cookie;
mod crypto;
mod emit;
mod encodings;
mod env;
mod event;
pub(crate) mod fetch;
mod globals;
mod json;
mod log;
mod os;
mod out;
mod redirect;
mod shared;
mod sleep;
mod sql;
mod time;
mod url;
mod uuid;
mod xml;

pub(crate) use emit::{Emissions, EmitParts, Streams};
pub use emit::{EmitStream, Emitted};
pub(crate) use globals::install;
pub(crate) use out::Outs;
pub use sql::{Database, SqlAnswer, SqlReply, SqlResult, SqlRow, SqlValue};

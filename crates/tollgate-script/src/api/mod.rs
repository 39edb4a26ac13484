//! The API of scripts: `tollgate`, `print`, `req`, `out`, and a standard library without files, processes and
//! the debugger.

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
pub(crate) mod req;
mod shared;
mod sleep;
mod soap;
mod sql;
mod time;
mod url;
mod uuid;
mod xml;

pub(crate) use emit::EmitParts;
pub(crate) use globals::install;
pub(crate) use out::OutMetatables;

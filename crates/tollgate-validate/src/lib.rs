//! Reads a document of XML and validates it by RELAX NG, piece by piece while it arrives.
//!
//! A [`Document`] gets the bytes of one message. Its first fault has a path, a line, a column and a byte.
//! Memory does not grow with the document. Work is bounded in proportion to the bytes, see [`work`].
//! [`compile`] reads a schema from a [`Folder`], or from another loader.
//!
//! Absent here: sockets, HTTP, clocks. The caller decides how many bytes it feeds at once.

mod document;
mod fault;
mod folder;
mod judge;
mod scopes;
pub mod work;

pub use document::Document;
pub use fault::{DocumentFault, FaultKind};
pub use folder::{Folder, compile};
pub use tollgate_relaxng::{CompiledSchema, Loader, Schema, SchemaError};
pub use work::limits;

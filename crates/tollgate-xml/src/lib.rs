//! Reads and writes XML 1.0 (fifth edition) with namespaces.
//!
//! [`Reader`] takes a document piece by piece and reports [`Events`]. The events do not depend on where the
//! pieces end. The reader makes every check of well-formedness, and every check of Namespaces in XML 1.0.
//! Memory is bounded by [`Limits`], and does not grow with the document.
//!
//! Absent here: files, sockets, clocks, and document type definitions.

mod attributes;
mod characters;
mod decoder;
mod elements;
mod error;
mod escape;
mod events;
mod limits;
mod markup;
mod name;
mod path;
mod position;
mod reader;
mod reference;
mod scope;
mod tag;
mod writer;

pub use attributes::{Attribute, Attributes, Declaration};
pub use characters::{is_character, is_name, is_ncname, is_space};
pub use error::{XmlError, XmlErrorKind};
pub use escape::{Place, escape};
pub use events::{Events, Stop};
pub use limits::{Doctype, Limits, Prefixes};
pub use name::Name;
pub use path::{Found, PathError, PathMatcher, PathSet, PathValues, PrefixBinding, ValuesError};
pub use position::Position;
pub use reader::Reader;
pub use scope::XML_NAMESPACE;
pub use writer::{WriteError, Writer, WriterLimits};

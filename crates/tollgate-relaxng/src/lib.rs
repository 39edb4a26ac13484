//! RELAX NG (ISO/IEC 19757-2): schemas in the XML syntax and in the compact syntax, and a validator that
//! judges a document event by event, in memory that is bounded.
//!
//! [`Schema::compile`] reads a schema, simplifies it (section 4 of the specification) and checks the
//! restrictions of section 7. A [`Validator`] then takes the events of one document: start tags with all
//! their attributes, text, end tags. It computes derivatives of patterns, as James Clark described them. The
//! results are kept as the transitions of an automaton, which all documents of one thread share.
//!
//! Absent here: a tokenizer for documents, files, clocks, threads. The caller passes the text of a schema,
//! and loads the files that the schema names. The compatibility annotations ID, IDREF and default values are
//! absent too: the types `ID` and `IDREF` check the form of a value only.

mod automaton;
mod compile;
mod datatype;
mod error;
mod limits;
mod name;
mod pattern;
mod schema;
mod source;
mod syntax;
mod validate;

pub use datatype::Namespaces;
pub use error::{Fault, Invalid, SchemaError};
pub use limits::{SchemaLimits, ValidationLimits};
pub use schema::{CompiledSchema, Schema};
pub use source::{Loader, Source};
pub use validate::{Attribute, Start, Validator};

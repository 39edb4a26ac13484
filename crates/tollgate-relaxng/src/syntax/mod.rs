//! Reads the files of a schema in either syntax.

mod compact;
mod library;
mod model;
mod path;
mod xml;

pub(crate) use model::{
    At, Combine, Component, Data, Define, Fault, Grammar, NameClass, Node, Part, Pattern, Reference, Type,
    Value,
};

use crate::SchemaLimits;

/// A file that is being read: what its reader needs to know about the schema around it.
#[derive(Clone, Copy)]
pub(crate) struct File<'a> {
    /// The path, from which the paths in the file are resolved.
    pub(crate) path: &'a str,
    /// The index of the file in the list of the schema.
    pub(crate) index: u16,
    pub(crate) text: &'a str,
    /// The namespace of names without a prefix, if the file declares none (section 4.8).
    pub(crate) namespace: &'a str,
    pub(crate) limits: &'a SchemaLimits,
}

/// Reads one file. The XML syntax begins with `<`, which the compact syntax never does.
pub(crate) fn read(file: File<'_>) -> Result<Part, Fault> {
    let text = file.text.strip_prefix('\u{FEFF}').unwrap_or(file.text);
    let file = File { text, ..file };
    if text.trim_start().starts_with('<') { xml::read(file) } else { compact::read(file) }
}

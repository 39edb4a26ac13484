//! Reads the files of a schema in either syntax.

mod compact;
mod library;
mod model;
mod path;
mod xml;

pub(crate) use model::{
    At, Combine, Component, Data, Define, File, NameClass, Node, Part, Reference, SchemaFault, Type,
    WrittenGrammar, WrittenPattern, WrittenValue,
};

/// Reads one file. The XML syntax begins with `<`, which the compact syntax never does.
pub(crate) fn read(file: File<'_>) -> Result<Part, SchemaFault> {
    let text = file.text.strip_prefix('\u{FEFF}').unwrap_or(file.text);
    let file = File { text, ..file };
    if text.trim_start().starts_with('<') { xml::read(file) } else { compact::read(file) }
}

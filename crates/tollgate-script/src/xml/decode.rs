//! Decodes XML text as Luau values, from the events of the reader.

use mlua::{Lua, Table, Value};
use tollgate_xml::{Attributes, Doctype, Events, Limits, Name, Prefixes, Reader, Stop};

use super::tree::Tree;
use crate::budget::Budget;
use crate::conversion::{self, DEPTH_MAX, DecodeError};

/// Decodes a text for a script, and returns the element, or nil and the reason.
///
/// # Errors
/// A budget of the call is used up. A malformed text is a result, not an error.
pub(crate) fn answer(
    lua: &Lua,
    text: &[u8],
    doctype: Doctype,
    budget: &Budget,
    memory_max: usize,
) -> mlua::Result<(Value, Value)> {
    conversion::answer(lua, decode(lua, text, doctype, budget, memory_max).map(Value::Table))
}

/// Decodes the whole of `text`. Call this without a memory limit, because it checks growth against
/// `memory_max`.
///
/// # Errors
/// `Text` names the place of the fault, counted from 1.
fn decode(
    lua: &Lua,
    text: &[u8],
    doctype: Doctype,
    budget: &Budget,
    memory_max: usize,
) -> Result<Table, DecodeError> {
    let mut decoder = Decoder { tree: Tree::new(lua, budget, memory_max)?, name: String::new(), error: None };
    let mut reader = Reader::new(limits(doctype));
    let read = reader.feed(text, &mut decoder).and_then(|()| reader.finish(&mut decoder));
    match (decoder.error, read, decoder.tree.finish()) {
        (Some(error), ..) => Err(DecodeError::Lua(error)),
        (None, Err(error), _) => Err(DecodeError::Text(error.to_string())),
        (None, Ok(()), Some(root)) => Ok(root),
        (None, Ok(()), None) => Err(DecodeError::Text("text has no root element".to_owned())),
    }
}

/// The limits of a text that is in memory already. Scripts see names as written, so each prefix is allowed.
pub(super) fn limits(doctype: Doctype) -> Limits {
    let prefixes = Prefixes::Any;
    Limits { depth_max: DEPTH_MAX, tag_bytes_max: usize::MAX, doctype, prefixes, ..Limits::default() }
}

struct Decoder<'a> {
    tree: Tree<'a>,
    /// A name with its prefix.
    name: String,
    /// Why the reading was stopped.
    error: Option<mlua::Error>,
}

impl Events for Decoder<'_> {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        let begun = self.begin(name, attributes);
        self.or_stop(begun)
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        let added = self.tree.text(text);
        self.or_stop(added)
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
        let ended = self.tree.end();
        self.or_stop(ended)
    }
}

impl Decoder<'_> {
    fn or_stop(&mut self, result: mlua::Result<()>) -> Result<(), Stop> {
        result.map_err(|error| {
            self.error = Some(error);
            Stop
        })
    }

    fn begin(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> mlua::Result<()> {
        let attr = self.tree.attributes(attributes.len())?;
        for declared in attributes.declarations() {
            let (prefix, local) =
                if declared.prefix.is_empty() { ("", "xmlns") } else { ("xmlns", declared.prefix) };
            attr.raw_set(written(&mut self.name, prefix, local), declared.uri)?;
        }
        for attribute in attributes.iter() {
            let Name { prefix, local, .. } = attribute.name;
            attr.raw_set(written(&mut self.name, prefix, local), attribute.value)?;
        }
        self.tree.begin(written(&mut self.name, name.prefix, name.local), attr)
    }
}

/// Returns a name as the document has it.
fn written<'a>(buffer: &'a mut String, prefix: &str, local: &'a str) -> &'a str {
    if prefix.is_empty() {
        return local;
    }
    buffer.clear();
    buffer.push_str(prefix);
    buffer.push(':');
    buffer.push_str(local);
    buffer
}

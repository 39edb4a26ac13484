//! Decodes XML text as Luau values, from the events of the reader.

use mlua::{Lua, LuaString, Table, Value};
use tollgate_xml::{Attributes, Events, Limits, Name, Prefixes, Reader, Stop, is_space};

use crate::budget::Budget;
use crate::conversion::{self, DEPTH_MAX, DecodeError};
use crate::memory::check_memory;

/// Decodes a text for a script, and returns the element, or nil and the reason.
///
/// # Errors
/// A budget of the call is used up. A malformed text is a result, not an error.
pub(crate) fn answer(
    lua: &Lua,
    text: &[u8],
    budget: &Budget,
    memory_max: usize,
) -> mlua::Result<(Value, Value)> {
    conversion::answer(lua, decode(lua, text, budget, memory_max).map(Value::Table))
}

/// Decodes the whole of `text`. Call this without a memory limit, because it checks growth against
/// `memory_max`.
///
/// # Errors
/// `Text` names the place of the fault, counted from 1.
fn decode(lua: &Lua, text: &[u8], budget: &Budget, memory_max: usize) -> Result<Table, DecodeError> {
    let mut decoder = Decoder {
        lua,
        budget,
        memory_max,
        tag: lua.create_string("tag")?,
        attr: lua.create_string("attr")?,
        open: Vec::new(),
        root: None,
        text: String::new(),
        name: String::new(),
        events: 0,
        error: None,
    };
    let mut reader = Reader::new(limits());
    let read = reader.feed(text, &mut decoder).and_then(|()| reader.finish(&mut decoder));
    match (decoder.error, read, decoder.root) {
        (Some(error), ..) => Err(DecodeError::Lua(error)),
        (None, Err(error), _) => Err(DecodeError::Text(error.to_string())),
        (None, Ok(()), Some(root)) => Ok(root),
        (None, Ok(()), None) => Err(DecodeError::Text("text has no root element".to_owned())),
    }
}

/// The limits of a text that is in memory already. Scripts see names as written, so each prefix is allowed.
pub(super) fn limits() -> Limits {
    Limits { depth_max: DEPTH_MAX, tag_bytes_max: usize::MAX, prefixes: Prefixes::Any, ..Limits::default() }
}

struct Decoder<'a> {
    lua: &'a Lua,
    budget: &'a Budget,
    memory_max: usize,
    /// The keys of each element.
    tag: LuaString,
    attr: LuaString,
    /// Open elements, the innermost last.
    open: Vec<Open>,
    /// The root element, after its end tag.
    root: Option<Table>,
    /// Text since the last tag.
    text: String,
    /// A name with its prefix.
    name: String,
    events: usize,
    /// Why the reading was stopped.
    error: Option<mlua::Error>,
}

/// An open element.
struct Open {
    table: Table,
    count: usize,
    /// Number of children that are elements.
    elements: usize,
    /// Whether a text of the element has characters other than white space.
    has_text: bool,
}

impl Events for Decoder<'_> {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        let begun = self.begin(name, attributes);
        self.or_stop(begun)
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.text.push_str(text);
        let checked = self.check_budgets();
        self.or_stop(checked)
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
        let closed = self.close();
        self.or_stop(closed)
    }
}

impl Decoder<'_> {
    fn or_stop(&mut self, result: mlua::Result<()>) -> Result<(), Stop> {
        result.map_err(|error| {
            self.error = Some(error);
            Stop
        })
    }

    /// Checks the budget and the memory only once for several events, because a check for each event costs
    /// too much.
    fn check_budgets(&mut self) -> mlua::Result<()> {
        let is_turn = self.events.is_multiple_of(EVENTS_PER_CHECK);
        self.events += 1;
        if !is_turn {
            return Ok(());
        }
        check_memory(self.lua, self.text.len(), self.memory_max)?;
        if self.budget.is_exhausted() {
            return Err(mlua::Error::runtime("cpu budget of the call is used up"));
        }
        Ok(())
    }

    fn begin(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> mlua::Result<()> {
        self.check_budgets()?;
        self.end_text()?;
        let attr = self.lua.create_table_with_capacity(0, attributes.len())?;
        for declared in attributes.declarations() {
            let (prefix, local) =
                if declared.prefix.is_empty() { ("", "xmlns") } else { ("xmlns", declared.prefix) };
            attr.raw_set(written(&mut self.name, prefix, local), declared.uri)?;
        }
        for attribute in attributes.iter() {
            let Name { prefix, local, .. } = attribute.name;
            attr.raw_set(written(&mut self.name, prefix, local), attribute.value)?;
        }
        let table = self.lua.create_table_with_capacity(0, 2)?;
        table.raw_set(&self.tag, written(&mut self.name, name.prefix, name.local))?;
        table.raw_set(&self.attr, attr)?;
        self.open.push(Open { table, count: 0, elements: 0, has_text: false });
        Ok(())
    }

    fn close(&mut self) -> mlua::Result<()> {
        self.check_budgets()?;
        self.end_text()?;
        let Some(done) = self.open.pop() else { return Ok(()) };
        if done.elements > 0 && !done.has_text && done.count > done.elements {
            drop_texts(&done)?;
        }
        match self.open.last_mut() {
            Some(parent) => {
                parent.count += 1;
                parent.elements += 1;
                parent.table.raw_set(parent.count, done.table)?;
            }
            None => self.root = Some(done.table),
        }
        Ok(())
    }

    /// Appends the text since the last tag to the children of the innermost element.
    fn end_text(&mut self) -> mlua::Result<()> {
        let Some(parent) = self.open.last_mut().filter(|_| !self.text.is_empty()) else { return Ok(()) };
        check_memory(self.lua, self.text.len(), self.memory_max)?;
        parent.count += 1;
        parent.has_text |= !self.text.bytes().all(is_space);
        parent.table.raw_set(parent.count, self.lua.create_string(&self.text)?)?;
        self.text.clear();
        Ok(())
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

/// Removes the texts of an element, and keeps its child elements in their order.
fn drop_texts(open: &Open) -> mlua::Result<()> {
    let mut kept = 0;
    for index in 1..=open.count {
        let child: Value = open.table.raw_get(index)?;
        if child.is_table() {
            kept += 1;
            open.table.raw_set(kept, child)?;
        }
    }
    (kept + 1..=open.count).try_for_each(|index| open.table.raw_set(index, Value::Nil))
}

const EVENTS_PER_CHECK: usize = 64;

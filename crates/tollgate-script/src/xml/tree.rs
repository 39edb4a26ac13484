//! Builds the table of an element, part by part.

use mlua::{Lua, LuaString, Table, Value};
use tollgate_xml::is_space;

use crate::budget::Budget;
use crate::memory::check_memory;
use crate::xml_elements::{ElementTape, Part};

/// The tables of an element and of the elements in it.
pub(super) struct Tree<'a> {
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
    events: usize,
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

impl<'a> Tree<'a> {
    /// Begins a tree. Call this without a memory limit, because it checks growth against `memory_max`.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn new(lua: &'a Lua, budget: &'a Budget, memory_max: usize) -> mlua::Result<Self> {
        Ok(Self {
            lua,
            budget,
            memory_max,
            tag: lua.create_string("tag")?,
            attr: lua.create_string("attr")?,
            open: Vec::new(),
            root: None,
            text: String::new(),
            events: 0,
        })
    }

    /// Begins an element: returns the table of its attributes, to be filled and given to
    /// [`begin`](Self::begin).
    pub(super) fn attributes(&mut self, count: usize) -> mlua::Result<Table> {
        self.check_budgets()?;
        self.end_text()?;
        self.lua.create_table_with_capacity(0, count)
    }

    pub(super) fn begin(&mut self, tag: &str, attr: Table) -> mlua::Result<()> {
        let table = self.lua.create_table_with_capacity(0, 2)?;
        table.raw_set(&self.tag, tag)?;
        table.raw_set(&self.attr, attr)?;
        self.open.push(Open { table, count: 0, elements: 0, has_text: false });
        Ok(())
    }

    pub(super) fn text(&mut self, text: &str) -> mlua::Result<()> {
        self.text.push_str(text);
        self.check_budgets()
    }

    pub(super) fn end(&mut self) -> mlua::Result<()> {
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

    /// Returns the outermost element, if it has ended.
    pub(super) fn finish(self) -> Option<Table> {
        self.root
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

/// Makes the table of an element. Call this without a memory limit, because it checks growth against
/// `memory_max`.
///
/// # Errors
/// A budget of the call is used up.
pub(crate) fn table_of(
    lua: &Lua,
    tape: &ElementTape,
    budget: &Budget,
    memory_max: usize,
) -> mlua::Result<Option<Table>> {
    let mut tree = Tree::new(lua, budget, memory_max)?;
    let mut parts = tape.parts();
    while let Some(part) = parts.next() {
        match part {
            Part::Start(name, count) => {
                let attr = tree.attributes(count)?;
                for part in parts.by_ref().take(count) {
                    if let Part::Attribute(name, value) = part {
                        attr.raw_set(name, value)?;
                    }
                }
                tree.begin(name, attr)?;
            }
            Part::Attribute(..) => {}
            Part::Text(text) => tree.text(text)?,
            Part::End => tree.end()?,
        }
    }
    Ok(tree.finish())
}

const EVENTS_PER_CHECK: usize = 64;

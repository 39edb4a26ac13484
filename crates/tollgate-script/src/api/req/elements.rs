//! `req:xml_each(path)`: an iterator over the elements of an XML body. The iterator may wait for a file.

use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};
use tollgate_xml::Doctype;

use crate::active::{ActiveCell, OpenElements, raised, with_active};
use crate::arguments::{options, text, unfit, whole_number};
use crate::budget::Budget;
use crate::memory::watched;
use crate::options::HostOptions;
use crate::stretch::{BodyReadError, WorkStep, by_threads};
use crate::sys::operation;
use crate::waits::{ReturnValues, Waits};
use crate::xml;
use crate::xml_elements::{BYTES_MAX, ElementReader, ElementTape};

/// Creates `req:xml_each`.
pub(super) fn install(
    lua: &Lua,
    active: &Rc<ActiveCell>,
    waits: &Rc<Waits>,
    budget: &Rc<Budget>,
    options: &HostOptions,
) -> mlua::Result<Function> {
    let HostOptions { memory_bytes_max, doctype, .. } = *options;
    let functions =
        ElementFunctions { active: Rc::clone(active), waits: Rc::clone(waits), budget: Rc::clone(budget) };
    let own = functions.clone();
    let next = lua.create_function(move |lua, _: MultiValue| own.next(lua))?;
    let next = operation::function(lua, waits, c"req:xml_each", &next)?;
    lua.create_function(move |_, (req, path, given): (Table, Value, Value)| {
        functions.begin(&req, &path, &given, (memory_bytes_max, doctype))?;
        Ok(next.clone())
    })
}

/// State of a VM that the functions need.
#[derive(Clone)]
struct ElementFunctions {
    active: Rc<ActiveCell>,
    waits: Rc<Waits>,
    budget: Rc<Budget>,
}

impl ElementFunctions {
    fn begin(
        &self,
        req: &Table,
        path: &Value,
        given: &Value,
        (memory_bytes_max, doctype): (usize, Doctype),
    ) -> mlua::Result<()> {
        let path = text("the path of req:xml_each", path)?;
        let path = String::from_utf8_lossy(&path);
        let [bytes_max, namespaces] = options("req:xml_each", given, ["bytes_max", "namespaces"])?;
        let largest = memory_bytes_max.min(BYTES_MAX);
        let bytes_max = match bytes_max {
            Value::Nil => ELEMENT_BYTES_MAX.min(largest),
            value => {
                let allowed = 1..=i64::try_from(largest).unwrap_or(i64::MAX);
                let number = whole_number("bytes_max of req:xml_each", &value, allowed)?;
                usize::try_from(number).unwrap_or(largest)
            }
        };
        let namespaces = bindings(&namespaces)?;
        let reader = with_active(&self.active, req, |active| {
            if active.elements.is_some() {
                return Err(mlua::Error::runtime("req:xml_each was called before: a body is read once"));
            }
            Ok(ElementReader::new(&active.request.body, &path, &namespaces, bytes_max, doctype))
        })?;
        let reader = reader.map_err(|fault| raised(&self.active, fault))?;
        let reader =
            reader.map_err(|reason| mlua::Error::runtime(format!("the path of req:xml_each: {reason}")))?;
        with_active(&self.active, req, |active| {
            active.elements = Some(OpenElements { reader: Some(Box::new(reader)) });
            Ok(())
        })
    }

    /// Returns the next element. If its bytes are in a file, threads read them.
    fn next(&self, lua: &Lua) -> mlua::Result<MultiValue> {
        let mut reader = self.take()?;
        if !reader.is_ready() {
            self.wait(reader);
            return Ok(MultiValue::new());
        }
        let found = loop {
            if let WorkStep::Done(found) = reader.next() {
                break found;
            }
        };
        self.give_back(reader);
        self.convert(lua, found)
    }

    fn wait(&self, reader: Box<ElementReader>) {
        let (own, places) = (self.clone(), self.waits.places().clone());
        self.waits.begin(async move {
            let done = by_threads(places, reader, ElementReader::next).await;
            let answer: ReturnValues = Box::new(move |lua: &Lua| {
                let Some((reader, found)) = done else {
                    return Err(mlua::Error::runtime("the server stops"));
                };
                own.give_back(reader);
                own.convert(lua, found)
            });
            answer
        });
    }

    fn convert(
        &self,
        lua: &Lua,
        found: Result<Option<ElementTape>, BodyReadError>,
    ) -> mlua::Result<MultiValue> {
        let found = found.map_err(|fault| raised(&self.active, fault))?;
        let table = match found {
            None => None,
            Some(tape) => watched(lua, |memory_max| xml::table_of(lua, &tape, &self.budget, memory_max))?,
        };
        Ok(MultiValue::from_iter([table.map_or(Value::Nil, Value::Table)]))
    }

    fn take(&self) -> mlua::Result<Box<ElementReader>> {
        let mut active = self.active.borrow_mut();
        let elements = active.as_mut().and_then(|active| active.elements.as_mut());
        let Some(elements) = elements else {
            return Err(mlua::Error::runtime("these elements belong to another call"));
        };
        elements.reader.take().ok_or_else(|| mlua::Error::runtime("another function reads the body already"))
    }

    fn give_back(&self, reader: Box<ElementReader>) {
        if let Some(active) = self.active.borrow_mut().as_mut()
            && let Some(elements) = &mut active.elements
        {
            elements.reader = Some(reader);
        }
    }
}

/// Reads the namespaces of prefixes.
fn bindings(value: &Value) -> mlua::Result<Vec<(String, String)>> {
    const ALLOWED: &str = "a table of namespaces by prefixes";
    let table = match value {
        Value::Nil => return Ok(Vec::new()),
        Value::Table(table) => table,
        other => return Err(unfit("namespaces of req:xml_each", other, ALLOWED)),
    };
    let pairs = table.pairs::<Value, Value>().map(|pair| match pair? {
        (Value::String(prefix), Value::String(uri)) => Ok((prefix.to_string_lossy(), uri.to_string_lossy())),
        (Value::String(_), other) | (other, _) => {
            Err(unfit("a part of namespaces of req:xml_each", &other, ALLOWED))
        }
    });
    pairs.collect()
}

/// Default length of an element in bytes.
const ELEMENT_BYTES_MAX: usize = 64 << 10;

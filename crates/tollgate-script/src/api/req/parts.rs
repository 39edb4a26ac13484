//! `req:parts()`: an iterator over the parts of a form. The iterator may wait for a file.

use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};
use tollgate_http::FormPartHead;

use crate::active::{ActiveCell, OpenForm, raised, with_active};
use crate::arguments::{flag, kind, options, text, unfit, whole_number};
use crate::error::shown;
use crate::form_parts::{PartLimits, PartReader};
use crate::memory::unlimited;
use crate::nearest::hint;
use crate::stretch::{BodyReadError, WorkStep, by_threads};
use crate::sys::operation;
use crate::text::utf8;
use crate::uploads::{Save, SaveOptions, Saved};
use crate::waits::Waits;

/// Creates `req:parts`.
pub(super) fn install(
    lua: &Lua,
    active: &Rc<ActiveCell>,
    waits: &Rc<Waits>,
    memory_bytes_max: usize,
) -> mlua::Result<Function> {
    let functions = FormFunctions { active: Rc::clone(active), waits: Rc::clone(waits) };
    let metatable = metatable(lua, &functions, memory_bytes_max)?;
    let own = functions.clone();
    let next = lua.create_function(move |lua, (): ()| {
        let metatable = metatable.clone();
        own.work(lua, None, PartReader::next_part, move |lua, own, head| match own.checked(head)? {
            Some(head) => own.stand_at(lua, &head, &metatable).map(|part| values([Value::Table(part)])),
            None => Ok(values([Value::Nil])),
        })
    })?;
    let next = operation::function(lua, waits, c"req:parts", &next)?;
    lua.create_function(move |_, (req, given): (Table, Value)| {
        functions.begin(&req, &given)?;
        Ok(next.clone())
    })
}

/// Creates the metatable of parts. A missing optional field is nil. Reading any other missing field is an
/// error.
fn metatable(lua: &Lua, functions: &FormFunctions, memory_bytes_max: usize) -> mlua::Result<Table> {
    let methods = lua.create_table()?;
    methods.raw_set("read", read(lua, functions)?)?;
    methods.raw_set("text", whole_text(lua, functions, memory_bytes_max)?)?;
    methods.raw_set("save", save(lua, functions)?)?;
    let index = lua.create_function(move |_, (_, key): (Value, Value)| {
        let Value::String(name) = &key else {
            return Err(mlua::Error::runtime(format!("a part has no field of type {}", kind(&key))));
        };
        let known: Value = methods.raw_get(name)?;
        let name = shown(&name.as_bytes());
        if !known.is_nil() || OPTIONAL.contains(&name.as_str()) {
            return Ok(known);
        }
        let hint = hint(&name, FIELDS);
        Err(mlua::Error::runtime(format!("a part has no field \"{name}\"{hint}")))
    })?;
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", index)?;
    metatable.raw_set("__metatable", "part")?;
    metatable.raw_set("__type", "part")?;
    metatable.set_readonly(true);
    Ok(metatable)
}

fn read(lua: &Lua, functions: &FormFunctions) -> mlua::Result<Function> {
    let own = functions.clone();
    let begin = lua.create_function(move |lua, part: Value| {
        let work = |reader: &mut PartReader| WorkStep::Done(reader.chunk());
        own.work(lua, Some((&part, "part:read()")), work, |lua, own, chunk| match own.checked(chunk)? {
            Some(chunk) => text_value(lua, &chunk),
            None => Ok(values([Value::Nil])),
        })
    })?;
    operation::function(lua, &functions.waits, c"part:read", &begin)
}

fn whole_text(lua: &Lua, functions: &FormFunctions, memory_bytes_max: usize) -> mlua::Result<Function> {
    let own = functions.clone();
    let begin = lua.create_function(move |lua, (part, max): (Value, Value)| {
        let bytes_max = match max {
            Value::Nil => TEXT_BYTES_MAX.min(memory_bytes_max),
            max => {
                let allowed = 0..=i64::try_from(memory_bytes_max).unwrap_or(i64::MAX);
                usize::try_from(whole_number("the limit of part:text", &max, allowed)?).unwrap_or_default()
            }
        };
        let mut text = Vec::new();
        let work = move |reader: &mut PartReader| match take_text(reader, &mut text, bytes_max) {
            Ok(()) => WorkStep::Done(Ok(std::mem::take(&mut text))),
            Err(fault) => WorkStep::Done(Err(fault)),
        };
        own.work(lua, Some((&part, "part:text()")), work, |lua, own, text| {
            text_value(lua, &utf8(&own.checked(text)?))
        })
    })?;
    operation::function(lua, &functions.waits, c"part:text", &begin)
}

fn take_text(reader: &mut PartReader, text: &mut Vec<u8>, bytes_max: usize) -> Result<(), BodyReadError> {
    while let Some(chunk) = reader.chunk()? {
        if text.len() + chunk.len() > bytes_max {
            let reason = format!("a part of the form exceeds limit: limit {bytes_max} bytes");
            return Err(BodyReadError::Client(413, reason));
        }
        text.extend_from_slice(&chunk);
    }
    Ok(())
}

fn save(lua: &Lua, functions: &FormFunctions) -> mlua::Result<Function> {
    let own = functions.clone();
    let begin = lua.create_function(move |_, (part, name, given): (Value, Value, Value)| {
        let name = text("the name of part:save", &name)?.to_vec();
        let [overwrite, sync] = options("part:save", &given, ["overwrite", "sync"])?;
        let saving = SaveOptions {
            overwrites: flag("overwrite of part:save", &overwrite)?,
            syncs: match sync {
                Value::Nil => true,
                sync => flag("sync of part:save", &sync)?,
            },
        };
        let uploads = own.active.borrow().as_ref().and_then(|active| active.reach.uploads.clone());
        let Some(uploads) = uploads else {
            let text = "part:save: the route has no folder of uploads: set upload_dir";
            return Err(mlua::Error::runtime(text));
        };
        let mut save = Save::new(&uploads, name, saving);
        let work = move |reader: &mut PartReader| save.go_on(reader);
        own.write(&part, work, |lua, own, saved: Result<Saved, BodyReadError>| match own.checked(saved)? {
            Ok(bytes) => Ok(values([Value::Number(bytes as f64)])),
            Err(reason) => Ok(MultiValue::from_iter([Value::Nil, Value::String(lua.create_string(reason)?)])),
        })
    })?;
    operation::function(lua, &functions.waits, c"part:save", &begin)
}

/// State of a VM that the form functions need.
#[derive(Clone)]
struct FormFunctions {
    active: Rc<ActiveCell>,
    waits: Rc<Waits>,
}

impl FormFunctions {
    fn begin(&self, req: &Table, given: &Value) -> mlua::Result<()> {
        let [count, part_bytes] = options("req:parts", given, ["count_max", "part_bytes_max"])?;
        let limit = |what, value: &Value, default: u64| match value {
            Value::Nil => Ok(default),
            value => whole_number(what, value, 0..=1 << 50).map(i64::cast_unsigned),
        };
        let limits = PartLimits {
            count_max: limit("count_max of req:parts", &count, COUNT_MAX)?,
            part_bytes_max: limit("part_bytes_max of req:parts", &part_bytes, u64::MAX)?,
        };
        let reader = with_active(&self.active, req, |active| {
            if active.parts.is_some() {
                return Err(mlua::Error::runtime("req:parts was called before: a body is read once"));
            }
            let content_type = active.request.head.field_bytes("content-type").unwrap_or_default();
            Ok(PartReader::new(&content_type, &active.request.body, limits))
        })?;
        let reader = self.checked(reader)?;
        with_active(&self.active, req, |active| {
            active.parts = Some(Box::new(OpenForm { reader: Some(Box::new(reader)), current: None }));
            Ok(())
        })
    }

    /// Runs `work` on the form. If the form is in a file, threads run `work`.
    ///
    /// `of` has the part that must be the current one, and the correct call for error texts.
    fn work<R: Send + 'static>(
        &self,
        lua: &Lua,
        of: Option<(&Value, &str)>,
        mut work: impl FnMut(&mut PartReader) -> WorkStep<R> + Send + 'static,
        convert: impl FnOnce(&Lua, &Self, R) -> mlua::Result<MultiValue> + 'static,
    ) -> mlua::Result<MultiValue> {
        let mut reader = self.take(of)?;
        if !reader.is_in_memory() {
            self.wait(reader, work, convert);
            return Ok(MultiValue::new());
        }
        let result = loop {
            if let WorkStep::Done(result) = work(&mut reader) {
                break result;
            }
        };
        self.give_back(reader);
        unlimited(lua, || convert(lua, self, result))
    }

    /// Runs `work` on the form like the function `work`, but always on threads.
    fn write<R: Send + 'static>(
        &self,
        part: &Value,
        work: impl FnMut(&mut PartReader) -> WorkStep<R> + Send + 'static,
        convert: impl FnOnce(&Lua, &Self, R) -> mlua::Result<MultiValue> + 'static,
    ) -> mlua::Result<MultiValue> {
        let reader = self.take(Some((part, "part:save(name)")))?;
        self.wait(reader, work, convert);
        Ok(MultiValue::new())
    }

    fn wait<R: Send + 'static>(
        &self,
        reader: Box<PartReader>,
        work: impl FnMut(&mut PartReader) -> WorkStep<R> + Send + 'static,
        convert: impl FnOnce(&Lua, &Self, R) -> mlua::Result<MultiValue> + 'static,
    ) {
        let (own, places) = (self.clone(), self.waits.places().clone());
        self.waits.begin(async move {
            let done = by_threads(places, reader, work).await;
            let answer: crate::waits::ReturnValues = Box::new(move |lua: &Lua| {
                let Some((reader, result)) = done else {
                    return Err(mlua::Error::runtime("the server stops"));
                };
                own.give_back(reader);
                unlimited(lua, || convert(lua, &own, result))
            });
            answer
        });
    }

    fn take(&self, of: Option<(&Value, &str)>) -> mlua::Result<Box<PartReader>> {
        let mut active = self.active.borrow_mut();
        let parts = active.as_mut().and_then(|active| active.parts.as_mut());
        let Some(parts) = parts else {
            return Err(mlua::Error::runtime("this part belongs to another call"));
        };
        match of {
            None => parts.current = None,
            Some((Value::Table(part), _)) if parts.current.as_ref().is_some_and(|own| own == part) => {}
            Some((Value::Table(_), _)) => {
                return Err(mlua::Error::runtime("this part has ended: the form is at the next part"));
            }
            Some((other, usage)) => return Err(unfit("part", other, &format!("a part: call {usage}"))),
        }
        parts.reader.take().ok_or_else(|| mlua::Error::runtime("another function reads the form already"))
    }

    fn give_back(&self, reader: Box<PartReader>) {
        if let Some(active) = self.active.borrow_mut().as_mut()
            && let Some(parts) = &mut active.parts
        {
            parts.reader = Some(reader);
        }
    }

    fn checked<T>(&self, result: Result<T, BodyReadError>) -> mlua::Result<T> {
        result.map_err(|fault| raised(&self.active, fault))
    }

    fn stand_at(&self, lua: &Lua, head: &FormPartHead, metatable: &Table) -> mlua::Result<Table> {
        let part = lua.create_table_with_capacity(0, 4)?;
        part.raw_set("name", lua.create_string(utf8(&head.name))?)?;
        // The name of a file keeps its bytes. Two names must not become the same name.
        if let Some(filename) = &head.filename {
            part.raw_set("filename", lua.create_string(filename)?)?;
        }
        if let Some(content_type) = &head.content_type {
            part.raw_set("content_type", lua.create_string(utf8(content_type))?)?;
        }
        let headers = lua.create_table()?;
        for (name, value) in &head.fields {
            headers
                .raw_set(lua.create_string(name.to_ascii_lowercase())?, lua.create_string(utf8(value))?)?;
        }
        headers.set_readonly(true);
        part.raw_set("headers", headers)?;
        part.set_metatable(Some(metatable.clone()))?;
        part.set_readonly(true);
        if let Some(active) = self.active.borrow_mut().as_mut()
            && let Some(parts) = &mut active.parts
        {
            parts.current = Some(part.clone());
        }
        Ok(part)
    }
}

fn values<const N: usize>(values: [Value; N]) -> MultiValue {
    MultiValue::from_iter(values)
}

fn text_value(lua: &Lua, text: &[u8]) -> mlua::Result<MultiValue> {
    Ok(values([Value::String(lua.create_string(text)?)]))
}

const FIELDS: [&str; 7] = ["name", "filename", "content_type", "headers", "read", "text", "save"];
const OPTIONAL: [&str; 2] = ["filename", "content_type"];
const COUNT_MAX: u64 = 1000;
const TEXT_BYTES_MAX: usize = 1 << 20;

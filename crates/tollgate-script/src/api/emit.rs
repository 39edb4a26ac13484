//! Answers for `tollgate.emit`: further records of a call, read as `record` of a reply is. They are held until the handler returns,
//! and go with it if it fails.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use mlua::{Function, Lua, Value};

use crate::arguments::{text, unfit};
use crate::budget::Budget;
use crate::error::{CallError, shown};
use crate::interned::Interned;
use crate::json::Scratch;
use crate::marks::Marks;
use crate::memory::unlimited;
use crate::nearest::hint;
use crate::reply::{FieldValue, Reader, Record, RecordFields};
use crate::request::ActiveCell;
use crate::sys::seen::{Seen, look};

/// A stream that scripts may emit records to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmitStream {
    /// Its name.
    pub name: String,
    /// What it keeps of a record.
    pub fields: RecordFields,
    /// Whether fields that it does not keep are left out; else they are an error.
    pub ignores_unknown: bool,
    /// The database that its replies wait for, if they do.
    pub awaits: Option<usize>,
}

/// A record that a call emitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Emitted {
    /// The stream, by its place among those of the host.
    pub stream: usize,
    /// What it got.
    pub record: Record,
}

/// The streams of a host, once they are known.
#[derive(Default)]
pub(crate) struct Streams(OnceCell<Vec<(EmitStream, Interned)>>);

/// What a call emitted so far, while it may.
#[derive(Default)]
pub(crate) struct Emissions {
    pub(crate) records: Vec<Emitted>,
    bytes: usize,
}

impl Streams {
    pub(crate) fn set(&self, lua: &Lua, streams: &[EmitStream]) -> mlua::Result<()> {
        let interned = |stream: &EmitStream| {
            let columns = Interned::new(lua, stream.fields.names.iter().map(String::as_str))?;
            Ok((stream.clone(), columns))
        };
        let streams = streams.iter().map(interned).collect::<mlua::Result<_>>()?;
        self.0.set(streams).map_err(|_| mlua::Error::runtime("streams are known already"))
    }

    fn all(&self) -> &[(EmitStream, Interned)] {
        self.0.get().map_or(&[], Vec::as_slice)
    }

    fn find(&self, name: &[u8]) -> mlua::Result<usize> {
        let found = self.all().iter().position(|(stream, _)| stream.name.as_bytes() == name);
        found.ok_or_else(|| {
            let name = shown(name);
            let hint = hint(&name, self.all().iter().map(|(stream, _)| stream.name.as_str()));
            mlua::Error::runtime(format!("tollgate.emit: unknown stream \"{name}\"{hint}"))
        })
    }
}

/// What the function has to know.
pub(crate) struct EmitParts {
    pub(crate) streams: Rc<Streams>,
    pub(crate) scratch: Rc<RefCell<Scratch>>,
}

/// Makes the function.
pub(super) fn install(
    lua: &Lua,
    parts: &EmitParts,
    active: &Rc<ActiveCell>,
    marks: &Rc<Marks>,
    budget: &Rc<Budget>,
    reply_bytes_max: usize,
) -> mlua::Result<Function> {
    let (streams, scratch) = (Rc::clone(&parts.streams), Rc::clone(&parts.scratch));
    let (active, marks, budget) = (Rc::clone(active), Rc::clone(marks), Rc::clone(budget));
    let nothing = Interned::default();
    lua.create_function(move |lua, (stream, fields): (Value, Value)| {
        let place = streams.find(&text("the stream of tollgate.emit", &stream)?)?;
        let (stream, columns) = &streams.all()[place];
        if !matches!(fields, Value::Table(_)) {
            return Err(unfit("the record of tollgate.emit", &fields, "a table"));
        }
        let reader = Reader {
            marks: &marks,
            budget: &budget,
            scratch: &scratch,
            active: &active,
            reply_bytes_max,
            parts: &nothing,
            columns,
            whole: stream.fields.whole,
        };
        let record = unlimited(lua, || look(lua, &fields, |seen: Seen<'_>| reader.record(seen)))?;
        let record = record.map_err(|error| {
            let text = match error {
                CallError::Reply(text) => text.replacen("reply.record", "record", 1),
                error => error.to_string(),
            };
            mlua::Error::runtime(format!("tollgate.emit: {text}"))
        })?;
        check(stream, &record)?;
        keep(&active, &streams, Emitted { stream: place, record })
    })
}

fn check(stream: &EmitStream, record: &Record) -> mlua::Result<()> {
    let name = &stream.name;
    if let Some(unknown) = record.unknown.first().filter(|_| !stream.ignores_unknown) {
        let hint = hint(unknown, stream.fields.names.iter().map(String::as_str));
        return Err(mlua::Error::runtime(format!(
            "tollgate.emit: stream \"{name}\" has no column from record.{unknown}{hint}"
        )));
    }
    for (field, value) in stream.fields.names.iter().zip(&record.values) {
        if let FieldValue::Unfit(reason) = value {
            return Err(mlua::Error::runtime(format!("tollgate.emit: stream \"{name}\", {field}: {reason}")));
        }
    }
    Ok(())
}

fn keep(active: &ActiveCell, streams: &Streams, emitted: Emitted) -> mlua::Result<()> {
    let mut active = active.borrow_mut();
    let Some(active) = active.as_mut() else {
        return Err(mlua::Error::runtime("tollgate.emit while a script is loaded: call it in a handler"));
    };
    let own = active.reach.awaits;
    let Some(emissions) = &mut active.emissions else {
        return Err(mlua::Error::runtime(
            "tollgate.emit behind the head of the reply: call it in the handler",
        ));
    };
    let awaits = |record: &Emitted| streams.all()[record.stream].0.awaits;
    let others = emissions.records.iter().filter_map(awaits).chain(own);
    if awaits(&emitted).is_some_and(|wanted| others.into_iter().any(|known| known != wanted)) {
        let name = &streams.all()[emitted.stream].0.name;
        return Err(mlua::Error::runtime(format!(
            "tollgate.emit: stream \"{name}\" waits for another database than the records before it: a reply waits for one"
        )));
    }
    let bytes = emissions.bytes + emitted.record.memory_bytes();
    if emissions.records.len() == RECORDS_MAX || bytes > BYTES_MAX {
        return Err(mlua::Error::runtime(format!(
            "records of the call exceed limit: {RECORDS_MAX} records, {BYTES_MAX} bytes"
        )));
    }
    emissions.bytes = bytes;
    emissions.records.push(emitted);
    Ok(())
}

const RECORDS_MAX: usize = 1000;
const BYTES_MAX: usize = 4 << 20;

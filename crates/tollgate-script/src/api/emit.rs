//! `tollgate.emit`: further records of a call. These records are read like `record` of a reply.
//!
//! The call holds the records until the handler returns. If the handler fails, they are dropped.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, Lua, Value};

use crate::active::ActiveCell;
use crate::arguments::{text, unfit};
use crate::budget::Budget;
use crate::emitted::{EmitStream, Emitted, Streams};
use crate::error::CallError;
use crate::interned::Interned;
use crate::json::Scratch;
use crate::marks::Marks;
use crate::memory::unlimited;
use crate::nearest::hint;
use crate::options::HostOptions;
use crate::record::{FieldValue, RecordValues};
use crate::reply::Reader;
use crate::sys::raw;

/// Values that the function needs.
pub(crate) struct EmitParts {
    pub(crate) streams: Rc<Streams>,
    pub(crate) scratch: Rc<RefCell<Scratch>>,
}

/// Creates the function.
pub(super) fn install(
    lua: &Lua,
    parts: &EmitParts,
    active: &Rc<ActiveCell>,
    marks: &Rc<Marks>,
    budget: &Rc<Budget>,
    options: &HostOptions,
) -> mlua::Result<Function> {
    let HostOptions { reply_bytes_max, emit_records_max, .. } = *options;
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
        let record = unlimited(lua, || raw::read(lua, &fields, |fields| reader.record(fields)))?;
        let record = record.map_err(|error| {
            let text = match error {
                CallError::Reply(text) => text.replacen("reply.record", "record", 1),
                error => error.to_string(),
            };
            mlua::Error::runtime(format!("tollgate.emit: {text}"))
        })?;
        check(stream, &record)?;
        keep(&active, &streams, Emitted { stream: place, record }, emit_records_max)
    })
}

fn check(stream: &EmitStream, record: &RecordValues) -> mlua::Result<()> {
    let name = &stream.name;
    if let Some(unknown) = record.unknown.first().filter(|_| !stream.ignores_unknown) {
        let hint = hint(unknown, stream.fields.names.iter().map(String::as_str));
        return Err(mlua::Error::runtime(format!(
            "tollgate.emit: stream \"{name}\" has no column with the source record.{unknown}{hint}"
        )));
    }
    for (field, value) in stream.fields.names.iter().zip(&record.values) {
        if let FieldValue::Unfit(reason) = value {
            return Err(mlua::Error::runtime(format!("tollgate.emit: stream \"{name}\", {field}: {reason}")));
        }
    }
    Ok(())
}

fn keep(active: &ActiveCell, streams: &Streams, emitted: Emitted, records_max: usize) -> mlua::Result<()> {
    let mut active = active.borrow_mut();
    let Some(active) = active.as_mut() else {
        return Err(mlua::Error::runtime(
            "tollgate.emit was called while a script is loaded: call it in a handler",
        ));
    };
    let own = active.reach.awaits;
    let Some(emissions) = &mut active.emissions else {
        return Err(mlua::Error::runtime(
            "tollgate.emit was called after the head of the reply: call it before the handler returns",
        ));
    };
    let awaits = |record: &Emitted| streams.all()[record.stream].0.awaits;
    let others = emissions.records.iter().filter_map(awaits).chain(own);
    if awaits(&emitted).is_some_and(|wanted| others.into_iter().any(|known| known != wanted)) {
        let name = &streams.all()[emitted.stream].0.name;
        return Err(mlua::Error::runtime(format!(
            "tollgate.emit: stream \"{name}\" waits for another sink than earlier records: \
             allowed is one for each reply"
        )));
    }
    emissions.add(emitted, records_max)
}

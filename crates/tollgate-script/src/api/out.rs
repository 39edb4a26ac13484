//! `out`, the argument of the functions `write` and `events` of a reply.

mod elements;

use std::rc::Rc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::event;
use crate::arguments::kind;
use crate::budget::Budget;
use crate::pipe::Pipe;
use crate::reply::Streamed;
use crate::sys::operation;
use crate::waits::{ReturnValues, Waits};

/// The metatables of `out`.
pub(crate) struct OutMetatables {
    write: Table,
    events: Table,
}

impl OutMetatables {
    /// Creates the metatables. `bytes_max` is the maximum size of an event, and of an XML element.
    pub(crate) fn new(
        lua: &Lua,
        waits: &Rc<Waits>,
        budget: &Rc<Budget>,
        bytes_max: usize,
    ) -> mlua::Result<Self> {
        let own = Rc::clone(waits);
        let write = lua.create_function(move |_, (out, data): (Value, Value)| {
            let pipe = stream_pipe(&own, &out, "out:write(text)")?;
            let data = match data {
                Value::String(text) => Data::Text(text),
                Value::Buffer(buffer) => Data::Copy(buffer.to_vec()),
                other => {
                    let found = kind(&other);
                    return Err(mlua::Error::runtime(format!(
                        "argument of out:write is a {found}: allowed are a string, a buffer"
                    )));
                }
            };
            Ok(send_data(&own, pipe, data))
        })?;
        let own = Rc::clone(waits);
        let send = lua.create_function(move |_, (out, event): (Value, Value)| {
            let pipe = stream_pipe(&own, &out, "out:send{ data = text }")?;
            pipe.push_whole(&event::in_bytes(&event, bytes_max)?);
            Ok(is_open_for_more(&own, pipe))
        })?;
        let write = operation::function(lua, waits, c"out:write", &write)?;
        let send = operation::function(lua, waits, c"out:send", &send)?;
        let (writing, sending) = (lua.create_table()?, lua.create_table()?);
        writing.raw_set("write", write)?;
        elements::install(lua, &writing, waits, budget, bytes_max)?;
        sending.raw_set("send", send)?;
        Ok(Self { write: metatable(lua, &writing)?, events: metatable(lua, &sending)? })
    }

    /// Creates the `out` of one reply.
    pub(crate) fn make(&self, lua: &Lua, streamed: Streamed) -> mlua::Result<Table> {
        let out = lua.create_table()?;
        out.set_metatable(Some(match streamed {
            Streamed::Write => self.write.clone(),
            Streamed::Events => self.events.clone(),
        }))?;
        out.set_readonly(true);
        Ok(out)
    }
}

fn metatable(lua: &Lua, methods: &Table) -> mlua::Result<Table> {
    methods.set_readonly(true);
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", methods)?;
    metatable.raw_set("__metatable", "out")?;
    metatable.raw_set("__type", "out")?;
    metatable.set_readonly(true);
    Ok(metatable)
}

/// Returns the pipe of an `out`. `usage` shows the correct call in the error text.
fn stream_pipe(waits: &Waits, out: &Value, usage: &str) -> mlua::Result<Rc<Pipe>> {
    let Value::Table(out) = out else {
        return Err(mlua::Error::runtime(format!("out is a {}: call {usage}", kind(out))));
    };
    waits.pipe(out.to_pointer()).ok_or_else(|| {
        mlua::Error::runtime("this out belongs to another reply: use it only while its reply is written")
    })
}

/// Data of one write.
enum Data {
    /// A text in the VM. The VM already counts its memory.
    Text(LuaString),
    /// A copy of a buffer, because the script may change the buffer while the write waits.
    Copy(Vec<u8>),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.as_bytes().len(),
            Self::Copy(bytes) => bytes.len(),
        }
    }

    fn copied_bytes(&self) -> usize {
        match self {
            Self::Text(_) => 0,
            Self::Copy(bytes) => bytes.len(),
        }
    }

    /// Adds as many bytes to a pipe as fit, starting at `from`, and returns the number of added bytes.
    fn push(&self, pipe: &Pipe, from: usize) -> usize {
        match self {
            Self::Text(text) => pipe.push(&text.as_bytes()[from..]),
            Self::Copy(bytes) => pipe.push(&bytes[from..]),
        }
    }
}

/// Writes data. If it does not fit, the call gets its result only when the pipe has space again.
fn send_data(waits: &Waits, pipe: Rc<Pipe>, data: Data) -> bool {
    let pushed = data.push(&pipe, 0);
    if pushed < data.len() {
        waits.begin(async move { answer(pour(pipe, data, pushed).await) });
        return true;
    }
    is_open_for_more(waits, pipe)
}

/// Writes the bytes of `data` after the first `pushed` bytes, whenever the pipe has space. After the last
/// byte, waits until the pipe has space again.
///
/// Returns false if the reply is no longer sent.
async fn pour(pipe: Rc<Pipe>, data: Data, mut pushed: usize) -> bool {
    pipe.hold_copied(data.copied_bytes());
    while pushed < data.len() && Rc::clone(&pipe).room().await {
        pushed += data.push(&pipe, pushed);
    }
    pipe.hold_copied(0);
    drop(data);
    pipe.room().await
}

/// Returns the result of a write. If the pipe is full, the call gets its result only when the pipe has space
/// again.
fn is_open_for_more(waits: &Waits, pipe: Rc<Pipe>) -> bool {
    let is_open = pipe.is_open();
    if pipe.is_full() {
        waits.begin(async move { answer(pipe.room().await) });
    }
    is_open
}

fn answer(is_open: bool) -> ReturnValues {
    Box::new(move |_| Ok(MultiValue::from_iter([Value::Boolean(is_open)])))
}

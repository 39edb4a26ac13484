//! Sends data into the pipe of a streamed reply, and waits while the pipe is full.

use std::rc::Rc;

use mlua::{LuaString, MultiValue, Value};

use crate::arguments::kind;
use crate::pipe::Pipe;
use crate::waits::{ReturnValues, Waits};

/// Returns the pipe of an `out`. `usage` shows the correct call in the error text.
pub(super) fn stream_pipe(waits: &Waits, out: &Value, usage: &str) -> mlua::Result<Rc<Pipe>> {
    let Value::Table(out) = out else {
        return Err(mlua::Error::runtime(format!("out is a {}: call {usage}", kind(out))));
    };
    waits.pipe(out.to_pointer()).ok_or_else(|| {
        mlua::Error::runtime("this out belongs to another reply: use it only while its reply is written")
    })
}

/// Data of one write.
pub(super) enum Data {
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
pub(super) fn send_data(waits: &Waits, pipe: Rc<Pipe>, data: Data) -> bool {
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
pub(super) fn is_open_for_more(waits: &Waits, pipe: Rc<Pipe>) -> bool {
    let is_open = pipe.is_open();
    if pipe.is_full() {
        waits.begin(async move { answer(pipe.room().await) });
    }
    is_open
}

fn answer(is_open: bool) -> ReturnValues {
    Box::new(move |_| Ok(MultiValue::from_iter([Value::Boolean(is_open)])))
}

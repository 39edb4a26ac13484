//! The reader of replies: its limits, and the checks that several fields share.

use std::cell::RefCell;

use bytes::Bytes;

use crate::active::ActiveCell;
use crate::budget::Budget;
use crate::conversion::EncodeError;
use crate::error::{CallError, shown};
use crate::interned::Interned;
use crate::json::{Encoder, Scratch};
use crate::marks::Marks;
use crate::sys::raw::RawValue;

/// Converts returned values of scripts to outcomes, within the limits of one `Host`.
pub(crate) struct Reader<'a> {
    pub(crate) marks: &'a Marks,
    pub(crate) budget: &'a Budget,
    pub(crate) scratch: &'a RefCell<Scratch>,
    /// The request of the call that returned.
    pub(crate) active: &'a ActiveCell,
    pub(crate) reply_bytes_max: usize,
    /// The names in [`PARTS`](super::PARTS).
    pub(crate) parts: &'a Interned,
    /// The names of the columns that are read from `record`.
    pub(crate) columns: &'a Interned,
    /// Whether the route keeps the whole `record`.
    pub(crate) whole: bool,
}

pub(super) type Result<T> = std::result::Result<T, CallError>;

impl Reader<'_> {
    pub(super) fn content(&self, what: &str, bytes: &[u8]) -> Result<Bytes> {
        self.check_size(what, bytes.len())?;
        Ok(Bytes::copy_from_slice(bytes))
    }

    fn check_size(&self, what: &str, bytes: usize) -> Result<()> {
        if bytes > self.reply_bytes_max {
            return Err(reply(format!(
                "{what} exceeds limit: {bytes} bytes, limit {} bytes",
                self.reply_bytes_max
            )));
        }
        Ok(())
    }

    pub(super) fn json<R>(
        &self,
        what: &str,
        value: RawValue<'_>,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        self.encode(value, take).map_err(|fault| reply(fault.in_words(what)))
    }

    pub(super) fn encode<R>(
        &self,
        value: RawValue<'_>,
        take: impl FnOnce(&[u8]) -> R,
    ) -> std::result::Result<R, EncodeError> {
        let mut scratch = self.scratch.borrow_mut();
        Encoder::new(&mut scratch, self.reply_bytes_max, self.marks, self.budget).encode(value).map(take)
    }
}

pub(super) fn key_text(key: &RawValue<'_>) -> String {
    match key {
        RawValue::Text(text) => shown(text),
        RawValue::Integer(number) => format!("[{number}]"),
        RawValue::Number(number) => format!("[{number}]"),
        other => format!("of type {}", other.kind()),
    }
}

#[cold]
pub(super) fn reply(text: impl Into<String>) -> CallError {
    CallError::Reply(text.into())
}

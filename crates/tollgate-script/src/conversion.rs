//! Shared by the conversions of JSON and XML: the bound on depth, and the errors of both directions.

use mlua::{Lua, Value};

/// How deep values may be nested.
pub(crate) const DEPTH_MAX: usize = 128;

/// Why a value cannot be encoded, and where in it.
#[derive(Debug)]
pub(crate) struct EncodeError {
    path: String,
    reason: String,
}

impl EncodeError {
    #[cold]
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { path: String::new(), reason: reason.into() }
    }

    #[cold]
    pub(crate) fn below(mut self, step: &str) -> Self {
        if self.path.len() < PATH_BYTES_MAX {
            self.path.insert_str(0, step);
        }
        self
    }

    /// Names `what`, the path in it and the reason.
    pub(crate) fn in_words(&self, what: &str) -> String {
        format!("{what}{}: {}", self.path, self.reason)
    }
}

/// Why a text gave no value.
pub(crate) enum DecodeError {
    /// The text is malformed, or holds a value that Luau cannot hold: the reason, with the byte.
    Text(String),
    /// A budget of the call, or the VM.
    Lua(mlua::Error),
}

impl From<mlua::Error> for DecodeError {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

/// Returns to a script what decoding gave: the value, or nil and the reason.
///
/// # Errors
/// A budget of the call. A malformed text is an answer, not an error.
pub(crate) fn answer(lua: &Lua, decoded: Result<Value, DecodeError>) -> mlua::Result<(Value, Value)> {
    match decoded {
        Ok(value) => Ok((value, Value::Nil)),
        Err(DecodeError::Text(reason)) => Ok((Value::Nil, Value::String(lua.create_string(reason)?))),
        Err(DecodeError::Lua(error)) => Err(error),
    }
}

const PATH_BYTES_MAX: usize = 200;

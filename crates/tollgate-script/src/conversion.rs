//! Shared parts of the JSON and XML conversions: the depth limit, and the errors of both directions.

use mlua::{Lua, Value};

/// Maximum depth of nested values.
pub(crate) const DEPTH_MAX: usize = 128;

/// Reason why a value cannot be encoded, and the path of the faulty part.
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

    /// Returns a text with `what`, the path below it, and the reason.
    pub(crate) fn in_words(&self, what: &str) -> String {
        format!("{what}{}: {}", self.path, self.reason)
    }
}

/// Reason why a text cannot be decoded.
pub(crate) enum DecodeError {
    /// The text is malformed, or holds a value that Luau cannot represent. The reason names the position of
    /// the byte.
    Text(String),
    /// An error of a budget of the call, or of the VM.
    Lua(mlua::Error),
}

impl From<mlua::Error> for DecodeError {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

/// Returns the result of decoding to a script: the value, or nil and the reason.
///
/// # Errors
/// A budget of the call is used up. A malformed text is a result, not an error.
pub(crate) fn answer(lua: &Lua, decoded: Result<Value, DecodeError>) -> mlua::Result<(Value, Value)> {
    match decoded {
        Ok(value) => Ok((value, Value::Nil)),
        Err(DecodeError::Text(reason)) => Ok((Value::Nil, Value::String(lua.create_string(reason)?))),
        Err(DecodeError::Lua(error)) => Err(error),
    }
}

const PATH_BYTES_MAX: usize = 200;

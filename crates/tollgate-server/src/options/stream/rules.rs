//! What is done to the value of a column between its source and the log.

use std::fmt;
use std::net::IpAddr;

use tollgate_log::Value;

/// What is done to the values of a column. By default nothing is, at no cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnRules {
    /// What becomes of a value that is not there.
    pub absent: Absent,
    /// How long a value may be; as long as its transaction if none.
    pub bytes_max: Option<BytesMax>,
    /// What hides a value before it is in the log.
    pub redaction: Option<Redaction>,
}

/// What becomes of a value that is not there.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Absent {
    /// It is null.
    #[default]
    Null,
    /// The record is a reject.
    Reject,
    /// This one takes its place.
    Default(DefaultValue),
}

/// How long a text, bytes or JSON may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesMax {
    /// Bytes.
    pub bytes: usize,
    /// What becomes of longer ones.
    pub overlong: Overlong,
}

/// What becomes of values that are too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlong {
    /// The record is a reject: nothing is kept that was not sent.
    #[default]
    Reject,
    /// The end is cut off, never within a character.
    Truncate,
}

/// What hides a value before it is in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redaction {
    /// Null.
    Drop,
    /// HMAC-SHA-256 (RFC 2104) of the text, in 64 hexadecimal digits.
    Hash(HashKey),
    /// Of an address its network: 24 bits of IPv4, 48 of IPv6.
    Truncate,
}

/// The key of a hash, and the variable of the environment that holds it. Only the name is ever shown.
#[derive(Clone, PartialEq, Eq)]
pub struct HashKey {
    /// The variable.
    pub variable: String,
    /// What it holds.
    pub secret: Vec<u8>,
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashKey({})", self.variable)
    }
}

impl ColumnRules {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A value that fits its column, as it is written in a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct DefaultValue {
    pub(crate) json: String,
    pub(crate) value: Owned,
}

impl DefaultValue {
    /// The value in JSON.
    pub fn json(&self) -> &str {
        &self.json
    }

    pub(crate) fn value(&self) -> Value<'_> {
        self.value.value()
    }
}

/// A value that lives by itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Owned {
    Plain(Plain),
    Text(String),
    Json(String),
    Bytes(Vec<u8>),
}

/// A value without bytes elsewhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Plain {
    Bool(bool),
    Int(i64),
    Float(f64),
    Timestamp(i64),
    Uuid([u8; 16]),
    Inet(IpAddr),
}

impl Owned {
    pub(crate) fn of(value: Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(value) => Self::Plain(Plain::Bool(value)),
            Value::Int(value) => Self::Plain(Plain::Int(value)),
            Value::Float(value) => Self::Plain(Plain::Float(value)),
            Value::Timestamp(value) => Self::Plain(Plain::Timestamp(value)),
            Value::Uuid(value) => Self::Plain(Plain::Uuid(value)),
            Value::Inet(value) => Self::Plain(Plain::Inet(value)),
            Value::Text(value) => Self::Text(value.to_owned()),
            Value::Json(value) => Self::Json(value.to_owned()),
            Value::Bytes(value) => Self::Bytes(value.to_owned()),
        })
    }

    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Self::Text(value) => Value::Text(value),
            Self::Json(value) => Value::Json(value),
            Self::Bytes(value) => Value::Bytes(value),
            Self::Plain(plain) => match *plain {
                Plain::Bool(value) => Value::Bool(value),
                Plain::Int(value) => Value::Int(value),
                Plain::Float(value) => Value::Float(value),
                Plain::Timestamp(value) => Value::Timestamp(value),
                Plain::Uuid(value) => Value::Uuid(value),
                Plain::Inet(value) => Value::Inet(value),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let key = HashKey { variable: "KEY".to_owned(), secret: b"very secret".to_vec() };
        assert_eq!(format!("{key:?}"), "HashKey(KEY)");
    }
}

//! Rules that change the value of a column between its source and the log.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tollgate_log::{OwnedArray, Value};
use tollgate_value::{Date, Decimal, TimeOfDay};

/// The rules for the values of a column. By default a column has no rules, which costs no time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnRules {
    /// Treatment of a missing value.
    pub absent: Absent,
    /// Maximum size of a value. `None` means that only the size of a transaction bounds the value.
    pub bytes_max: Option<BytesMax>,
    /// Method that hides a value before it reaches the log.
    pub redaction: Option<Redaction>,
}

/// Treatment of a missing value.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Absent {
    /// The value is null.
    #[default]
    Null,
    /// The record becomes a reject.
    Reject,
    /// This default replaces the value.
    Default(DefaultValue),
}

/// Maximum size of text, bytes or JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesMax {
    /// The limit in bytes.
    pub bytes: usize,
    /// Treatment of longer values.
    pub overlong: Overlong,
}

/// Treatment of values that are too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlong {
    /// The record becomes a reject, so that no value is stored that was not sent.
    #[default]
    Reject,
    /// The end is cut off, but never inside a character.
    Truncate,
}

/// Method that hides a value before it reaches the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redaction {
    /// The value becomes null.
    Drop,
    /// The value becomes the HMAC-SHA-256 (RFC 2104) of the text, in 64 hexadecimal digits.
    Hash(HashKey),
    /// An address becomes its network: 24 bits of IPv4, 48 bits of IPv6.
    Truncate,
}

/// Returns the first 24 bits of an IPv4 address, or the first 48 bits of an IPv6 address. An address that is
/// mapped into IPv6 counts as IPv4.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & !0xff).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 80 << 80).into(),
    }
}

/// The key of a hash, and the environment variable that holds it. Only the name of the variable is ever
/// shown.
#[derive(Clone, PartialEq, Eq)]
pub struct HashKey {
    /// Name of the environment variable.
    pub variable: String,
    /// The value of the variable.
    pub secret: Vec<u8>,
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashKey({})", self.variable)
    }
}

impl ColumnRules {
    /// Returns whether there are no rules.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A value that fits its column, as written in a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct DefaultValue {
    pub(crate) json: String,
    pub(crate) value: Owned,
}

impl DefaultValue {
    /// Returns the value as JSON.
    pub fn json(&self) -> &str {
        &self.json
    }

    pub(crate) fn value(&self) -> Value<'_> {
        self.value.value()
    }
}

/// A value that owns its data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Owned {
    Plain(Plain),
    Text(String),
    Json(String),
    Bytes(Vec<u8>),
    Array(OwnedArray),
}

/// A value without heap data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Plain {
    Bool(bool),
    Int(i64),
    Float(f64),
    Timestamp(i64),
    Uuid([u8; 16]),
    Inet(IpAddr),
    Decimal(Decimal),
    Date(Date),
    Time(TimeOfDay),
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
            Value::Decimal(value) => Self::Plain(Plain::Decimal(value)),
            Value::Date(value) => Self::Plain(Plain::Date(value)),
            Value::Time(value) => Self::Plain(Plain::Time(value)),
            Value::Array(value) => Self::Array(value.into()),
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
            Self::Array(value) => value.value(),
            Self::Plain(plain) => match *plain {
                Plain::Bool(value) => Value::Bool(value),
                Plain::Int(value) => Value::Int(value),
                Plain::Float(value) => Value::Float(value),
                Plain::Timestamp(value) => Value::Timestamp(value),
                Plain::Uuid(value) => Value::Uuid(value),
                Plain::Inet(value) => Value::Inet(value),
                Plain::Decimal(value) => Value::Decimal(value),
                Plain::Date(value) => Value::Date(value),
                Plain::Time(value) => Value::Time(value),
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

//! The values of columns, and their bytes in a row.

use std::net::IpAddr;

use crate::column_type::ColumnType;
use crate::error::FormatError;
use crate::reader::{Reader, utf8};

/// The value of one column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// No value (SQL NULL).
    Null,
    /// True or false.
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    /// An IEEE 754 double.
    Float(f64),
    /// UTF-8 text without U+0000.
    Text(&'a str),
    /// Any bytes.
    Bytes(&'a [u8]),
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// JSON text.
    Json(&'a str),
    /// The 16 bytes of a UUID.
    Uuid([u8; 16]),
    /// An IPv4 or IPv6 address.
    Inet(IpAddr),
}

impl Value<'_> {
    /// Returns the type of a column that accepts the value. Returns `None` for null, because every column
    /// accepts null.
    pub const fn column_type(&self) -> Option<ColumnType> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(_) => ColumnType::Bool,
            Self::Int(_) => ColumnType::Int,
            Self::Float(_) => ColumnType::Float,
            Self::Text(_) => ColumnType::Text,
            Self::Bytes(_) => ColumnType::Bytes,
            Self::Timestamp(_) => ColumnType::Timestamp,
            Self::Json(_) => ColumnType::Json,
            Self::Uuid(_) => ColumnType::Uuid,
            Self::Inet(_) => ColumnType::Inet,
        })
    }
}

pub(crate) fn encode_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Appends the bytes of a value. Null has none.
pub(crate) fn encode_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push(u8::from(value)),
        Value::Int(value) | Value::Timestamp(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Text(value) | Value::Json(value) => encode_sized(out, value.as_bytes()),
        Value::Bytes(value) => encode_sized(out, value),
        Value::Uuid(value) => out.extend_from_slice(&value),
        Value::Inet(IpAddr::V4(value)) => {
            out.push(4);
            out.extend_from_slice(&value.octets());
        }
        Value::Inet(IpAddr::V6(value)) => {
            out.push(16);
            out.extend_from_slice(&value.octets());
        }
    }
}

/// Decodes a value of a type.
pub(crate) fn decode_value<'a>(reader: &mut Reader<'a>, kind: ColumnType) -> Result<Value<'a>, FormatError> {
    Ok(match kind {
        ColumnType::Bool => match reader.array()? {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            [found] => {
                return Err(FormatError::Value { what: "bool", found: found.into(), allowed: "0 or 1" });
            }
        },
        ColumnType::Int => Value::Int(i64::from_le_bytes(reader.array()?)),
        ColumnType::Float => Value::Float(f64::from_le_bytes(reader.array()?)),
        ColumnType::Text => Value::Text(utf8("text value", reader.sized()?)?),
        ColumnType::Bytes => Value::Bytes(reader.sized()?),
        ColumnType::Timestamp => Value::Timestamp(i64::from_le_bytes(reader.array()?)),
        ColumnType::Json => Value::Json(utf8("json value", reader.sized()?)?),
        ColumnType::Uuid => Value::Uuid(reader.array()?),
        ColumnType::Inet => Value::Inet(match reader.array()? {
            [4] => IpAddr::from(reader.array::<4>()?),
            [16] => IpAddr::from(reader.array::<16>()?),
            [found] => {
                return Err(FormatError::Value {
                    what: "address bytes",
                    found: found.into(),
                    allowed: "4 or 16",
                });
            }
        }),
    })
}

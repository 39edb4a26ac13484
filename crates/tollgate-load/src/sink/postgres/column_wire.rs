//! The binary form of the values of a column: one value, or an array of values.
//!
//! An array column is made with the type of its elements and `[]`. A table may have an array of any type that
//! the elements fit, such as `varchar(20)[]` for `text[]`. PostgreSQL checks the element type of the data, so
//! the form has the number (OID) of that type.
//!
//! Source: `array_recv` and `array_send` of PostgreSQL 15.

use bytes::{BufMut, BytesMut};
use tollgate_log::{Array, ArrayBuffer, ColumnType, OwnedArray, Value};

use super::wire::{ServerType, Wire, put_sized};

/// Number of dimensions, whether an element is null, and the element type.
const HEAD_BYTES: usize = 12;
/// Number of elements of a dimension, and its lower bound.
const DIMENSION_BYTES: usize = 8;
/// PostgreSQL counts elements from 1.
const LOWER_BOUND: i32 = 1;

/// Binary form of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnWire {
    Scalar(Wire),
    Array {
        element: Wire,
        /// Number of the element type in the database.
        oid: u32,
    },
}

/// The type of a column in the database, with domains resolved.
pub(super) struct ServerColumnType<'a> {
    pub(super) own: ServerType<'a>,
    /// The number and the type of the elements, if the column is an array.
    pub(super) element: Option<(u32, ServerType<'a>)>,
}

/// A value that was decoded from the form of its column.
pub(super) enum Decoded<'a> {
    Value(Value<'a>),
    Array(OwnedArray),
}

impl Decoded<'_> {
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Value(value) => *value,
            Self::Array(array) => array.value(),
        }
    }
}

impl ColumnWire {
    /// Returns the type of a column that the sink creates.
    pub(super) fn made(kind: ColumnType) -> String {
        match kind {
            ColumnType::Array(element) => Self::made(element.column_type()) + "[]",
            ColumnType::Decimal(Some(size)) => format!("numeric({size})"),
            scalar => Wire::made(scalar).to_owned(),
        }
    }

    /// Returns the form in which values of a stream's column are encoded for a table's column. Returns `None`
    /// if the types do not fit.
    pub(super) fn between(kind: ColumnType, server: &ServerColumnType<'_>) -> Option<Self> {
        match (kind, &server.element) {
            (ColumnType::Array(element), Some((oid, server))) => {
                let element = Wire::between(element.column_type(), server)?;
                Some(Self::Array { element, oid: *oid })
            }
            _ => Wire::between(kind, &server.own).map(Self::Scalar),
        }
    }

    /// Appends the length and the bytes of a value.
    ///
    /// # Errors
    /// The column cannot store the value. The caller has to remove the appended bytes.
    pub(super) fn encode(self, value: &Value<'_>, out: &mut BytesMut) -> Result<(), String> {
        match (self, value) {
            (Self::Scalar(wire), value) => wire.encode(value, out),
            (Self::Array { element, oid }, Value::Array(array)) => {
                put_sized(out, |out| put_array(element, oid, *array, out))
            }
            (Self::Array { element, .. }, value) => element.encode(value, out),
        }
    }

    /// Decodes a value that [`Self::encode`] wrote, without its length. Returns `None` for other bytes.
    pub(super) fn decode<'a>(self, kind: ColumnType, bytes: &'a [u8]) -> Option<Decoded<'a>> {
        match (self, kind) {
            (Self::Scalar(wire), kind) => wire.decode(kind, bytes).map(Decoded::Value),
            (Self::Array { element: wire, .. }, ColumnType::Array(element)) => {
                let mut buffer = ArrayBuffer::new(element);
                let mut rest = bytes.get(HEAD_BYTES..)?;
                if !rest.is_empty() {
                    rest = rest.get(DIMENSION_BYTES..)?;
                }
                while !rest.is_empty() {
                    let value = match split_value(&mut rest)? {
                        None => Value::Null,
                        Some(bytes) => wire.decode(element.column_type(), bytes)?,
                    };
                    buffer.push(value).ok()?;
                }
                Some(Decoded::Array(buffer.finish()))
            }
            (Self::Array { .. }, _) => None,
        }
    }
}

/// Appends an array with one dimension. An array without elements has no dimension.
fn put_array(element: Wire, oid: u32, array: Array<'_>, out: &mut BytesMut) -> Result<(), String> {
    // An array has at most 10,000 elements.
    let count = array.elements().len() as i32;
    out.put_i32(i32::from(count > 0));
    out.put_i32(i32::from(array.elements().any(|value| matches!(value, Value::Null))));
    out.put_u32(oid);
    if count > 0 {
        out.put_i32(count);
        out.put_i32(LOWER_BOUND);
    }
    array.elements().zip(1..).try_for_each(|(value, place)| {
        element.encode(&value, out).map_err(|reason| format!("element {place}: {reason}"))
    })
}

/// Splits an encoded value from the front. Returns `Some(None)` for null, and `None` for bytes that are cut
/// off.
pub(super) fn split_value<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let bytes = usize::try_from(i32::from_be_bytes(*length)).ok();
    let (value, behind) = behind.split_at_checked(bytes.unwrap_or(0))?;
    *rest = behind;
    Some(bytes.is_some().then_some(value))
}

#[cfg(test)]
mod tests;

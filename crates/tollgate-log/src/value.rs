//! The values of columns, and their bytes in a row.

use std::fmt;
use std::net::IpAddr;

use tollgate_value::{Date, Decimal, DecimalSize, TimeOfDay};

use crate::column_type::{ColumnType, ElementType};
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
    /// An exact decimal number.
    Decimal(Decimal),
    /// A date.
    Date(Date),
    /// A time of a day.
    Time(TimeOfDay),
    /// A list of values of one type.
    Array(Array<'a>),
}

/// Workers and loaders copy values, so a value must stay small.
const _: () = assert!(size_of::<Value<'_>>() <= 24);

impl Value<'_> {
    /// Returns the type of the value. Decimals have no size. Returns `None` for null, because every column
    /// accepts null.
    pub fn column_type(&self) -> Option<ColumnType> {
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
            Self::Decimal(_) => ColumnType::Decimal(None),
            Self::Date(_) => ColumnType::Date,
            Self::Time(_) => ColumnType::Time,
            Self::Array(array) => ColumnType::Array(array.element_type()),
        })
    }
}

/// Returns the place of the first U+0000 of a text.
#[inline]
fn nul_at(text: &str) -> Option<usize> {
    // `contains` of bytes compares a word at a time.
    if text.as_bytes().contains(&0) { text.find('\0') } else { None }
}

pub(crate) fn encode_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Why a column does not store a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnfitValue {
    /// The value has another type, or another size.
    Type,
    /// The text has U+0000 at this byte.
    Nul(usize),
}

/// Appends the bytes of a value for a column of type `kind`. Null has no bytes. One match checks the type and
/// encodes the value, because each request with a record needs this for each column.
///
/// # Errors
/// The column does not store the value. Nothing is appended.
#[inline(always)]
pub(crate) fn encode_value(out: &mut Vec<u8>, value: Value<'_>, kind: ColumnType) -> Result<(), UnfitValue> {
    match (value, kind) {
        (Value::Null, _) => {}
        (Value::Bool(value), ColumnType::Bool) => out.push(u8::from(value)),
        (Value::Int(value), ColumnType::Int) | (Value::Timestamp(value), ColumnType::Timestamp) => {
            out.extend_from_slice(&value.to_le_bytes());
        }
        (Value::Float(value), ColumnType::Float) => out.extend_from_slice(&value.to_le_bytes()),
        (Value::Text(text), ColumnType::Text) | (Value::Json(text), ColumnType::Json) => {
            if let Some(at) = nul_at(text) {
                return Err(UnfitValue::Nul(at));
            }
            encode_sized(out, text.as_bytes());
        }
        (Value::Bytes(value), ColumnType::Bytes) => encode_sized(out, value),
        (Value::Uuid(value), ColumnType::Uuid) => out.extend_from_slice(&value),
        (Value::Inet(IpAddr::V4(value)), ColumnType::Inet) => {
            let [a, b, c, d] = value.octets();
            out.extend_from_slice(&[4, a, b, c, d]);
        }
        (Value::Inet(IpAddr::V6(value)), ColumnType::Inet) => {
            out.push(16);
            out.extend_from_slice(&value.octets());
        }
        (Value::Decimal(value), ColumnType::Decimal(size))
            if size.is_none_or(|size| has_size(value, size)) =>
        {
            out.push(value.scale());
            out.extend_from_slice(&value.coefficient().to_le_bytes());
        }
        (Value::Date(value), ColumnType::Date) => out.extend_from_slice(&value.days().to_le_bytes()),
        (Value::Time(value), ColumnType::Time) => out.extend_from_slice(&value.microseconds().to_le_bytes()),
        (Value::Array(array), ColumnType::Array(_)) if has_elements_of(array, kind) => {
            encode_sized(out, array.bytes());
        }
        _ => return Err(UnfitValue::Type),
    }
    Ok(())
}

#[cold]
fn has_size(value: Decimal, size: DecimalSize) -> bool {
    value.scale() == size.scale() && value.with_size(size).is_some()
}

#[cold]
fn has_elements_of(array: Array<'_>, kind: ColumnType) -> bool {
    ColumnType::Array(array.element_type()) == kind.without_size()
}

/// Decodes a value of a column of this kind, and passes it to `take`.
///
/// A returned value would be copied in pieces that do not match the writes of its parts. The processor waits
/// for these writes to end before it reads such a piece.
#[inline]
pub(crate) fn decode_value<'a, T>(
    reader: &mut Reader<'a>,
    kind: ColumnType,
    take: impl FnOnce(Value<'a>) -> T,
) -> Result<T, FormatError> {
    Ok(match kind {
        ColumnType::Bool => match reader.array()? {
            [0] => take(Value::Bool(false)),
            [1] => take(Value::Bool(true)),
            [found] => {
                return Err(FormatError::Value { what: "bool", found: found.into(), allowed: "0 or 1" });
            }
        },
        ColumnType::Int => take(Value::Int(i64::from_le_bytes(reader.array()?))),
        ColumnType::Float => take(Value::Float(f64::from_le_bytes(reader.array()?))),
        ColumnType::Text => take(Value::Text(utf8("text value", reader.sized()?)?)),
        ColumnType::Bytes => take(Value::Bytes(reader.sized()?)),
        ColumnType::Timestamp => take(Value::Timestamp(i64::from_le_bytes(reader.array()?))),
        ColumnType::Json => take(Value::Json(utf8("json value", reader.sized()?)?)),
        ColumnType::Uuid => take(Value::Uuid(reader.array()?)),
        ColumnType::Inet => take(Value::Inet(match reader.array()? {
            [4] => IpAddr::from(reader.array::<4>()?),
            [16] => IpAddr::from(reader.array::<16>()?),
            [found] => {
                return Err(FormatError::Value {
                    what: "address bytes",
                    found: found.into(),
                    allowed: "4 or 16",
                });
            }
        })),
        ColumnType::Decimal(_) => take(Value::Decimal(decode_decimal(reader)?)),
        ColumnType::Date => {
            let days = i32::from_le_bytes(reader.array()?);
            take(Value::Date(Date::from_days(days).ok_or(FormatError::Value {
                what: "days of a date",
                found: i64::from(days).cast_unsigned(),
                allowed: "the years 0001 to 9999",
            })?))
        }
        ColumnType::Time => {
            let us = i64::from_le_bytes(reader.array()?);
            take(Value::Time(TimeOfDay::from_microseconds(us).ok_or(FormatError::Value {
                what: "microseconds of a time",
                found: us.cast_unsigned(),
                allowed: "0 to 86399999999",
            })?))
        }
        ColumnType::Array(element) => take(Value::Array(Array::decode(element, reader.sized()?)?)),
    })
}

fn decode_decimal(reader: &mut Reader<'_>) -> Result<Decimal, FormatError> {
    let [scale] = reader.array()?;
    Decimal::new(i128::from_le_bytes(reader.array()?), scale).ok_or(FormatError::Value {
        what: "scale of a decimal",
        found: scale.into(),
        allowed: "0 to 38, with an integer of at most 38 digits",
    })
}

/// Maximum number of elements of an array.
pub const ARRAY_ELEMENTS_MAX: usize = 10_000;
/// Bytes of an array before its bitmap: the number of the elements' type, and the count.
const ARRAY_HEAD_BYTES: usize = 5;

/// The value of an array column. [`ArrayBuffer`](crate::ArrayBuffer) makes arrays.
///
/// The bytes are those of the log. They were checked when they were read or made.
#[derive(Clone, Copy, PartialEq)]
pub struct Array<'a> {
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Decodes the bytes of an array, and checks all elements.
    fn decode(element: ElementType, bytes: &'a [u8]) -> Result<Self, FormatError> {
        let mut elements = Elements::new(bytes)?;
        let (found, expected) = (bytes[0], element.column_type().number());
        if found != expected {
            let (what, found) = ("type of an array's elements", found.into());
            return Err(FormatError::Value { what, found, allowed: "the type that the schema has" });
        }
        while let Some(value) = elements.step() {
            value?;
        }
        elements.reader.finish("bytes after an array")?;
        Ok(Self { bytes })
    }

    /// Returns the array with bytes that [`array_bytes`] made.
    pub(crate) const fn of_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the type of the elements. Decimals have no size.
    pub fn element_type(self) -> ElementType {
        let number = self.bytes.first();
        let kinds = ColumnType::ALL.into_iter().filter(|kind| Some(&kind.number()) == number);
        kinds.filter_map(ColumnType::as_element).next().unwrap_or(ElementType::Bool)
    }

    /// Returns the elements in order. An element may be null.
    pub fn elements(self) -> Elements<'a> {
        Elements::new(self.bytes).unwrap_or_default()
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.elements()).finish()
    }
}

/// Returns the bytes of an array. `present` is the bitmap, and `values` are the bytes of the elements.
pub(crate) fn array_bytes(element: ElementType, count: u32, present: &[u8], values: &[u8]) -> Vec<u8> {
    let head = [&[element.column_type().number()][..], &count.to_le_bytes()].concat();
    [&head, present, values].concat()
}

/// The elements of an array, in order.
#[derive(Debug, Default, Clone)]
pub struct Elements<'a> {
    element: Option<ElementType>,
    present: &'a [u8],
    index: usize,
    count: usize,
    reader: Reader<'a>,
}

impl<'a> Elements<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let mut reader = Reader::new("array", bytes);
        let [_, count @ ..] = reader.array::<ARRAY_HEAD_BYTES>()?;
        let count = u32::from_le_bytes(count) as usize;
        if count > ARRAY_ELEMENTS_MAX {
            let (what, found) = ("count of an array's elements", count as u64);
            return Err(FormatError::Value { what, found, allowed: "0 to 10000" });
        }
        let present = reader.take(count.div_ceil(8))?;
        Ok(Self { element: Some(Array { bytes }.element_type()), present, index: 0, count, reader })
    }

    fn step(&mut self) -> Option<Result<Value<'a>, FormatError>> {
        let (index, element) = (self.index, self.element?);
        if index >= self.count {
            return None;
        }
        self.index += 1;
        match self.present[index / 8] & (1 << (index % 8)) {
            0 => Some(Ok(Value::Null)),
            _ => Some(decode_value(&mut self.reader, element.column_type(), |value| value)),
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.step()?.ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count - self.index, Some(self.count - self.index))
    }
}

impl ExactSizeIterator for Elements<'_> {}

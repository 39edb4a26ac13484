//! The values of one row group in memory, column by column.

use bytes::Bytes;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray};
use parquet::data_type::{FixedLenByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::SerializedColumnWriter;
use tollgate_log::{ColumnType, Value};
use tollgate_value::Decimal;

use crate::table::{FileColumn, Store};

/// Levels of a list (`docs/reference` of Parquet, "nested encoding"): no list, no element, a null, a value.
const LIST_LEVELS: [i16; 4] = [0, 1, 2, 3];

/// The values of a column that are not null, in order.
#[derive(Debug)]
enum Values {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    /// All bytes, and where each value ends.
    Bytes(Vec<u8>, Vec<usize>),
    /// Values of one width, one after the other.
    Fixed(Vec<u8>, usize),
}

impl Values {
    const fn new(store: Store) -> Self {
        match store {
            Store::Bool => Self::Bool(Vec::new()),
            Store::Int32 => Self::Int32(Vec::new()),
            Store::Int64 => Self::Int64(Vec::new()),
            Store::Double => Self::Double(Vec::new()),
            Store::Bytes => Self::Bytes(Vec::new(), Vec::new()),
            Store::Fixed(width) => Self::Fixed(Vec::new(), width),
        }
    }
}

/// One column of a row group in memory.
#[derive(Debug)]
pub(crate) struct ColumnBuffer {
    column: FileColumn,
    values: Values,
    /// Definition levels. Empty for a column in which each row has a value.
    definitions: Vec<i16>,
    /// Repetition levels. Empty for a column without lists.
    repetitions: Vec<i16>,
}

impl ColumnBuffer {
    pub(crate) fn new(column: FileColumn) -> Self {
        let values = Values::new(column.store);
        Self { column, values, definitions: Vec::new(), repetitions: Vec::new() }
    }

    pub(crate) const fn column(&self) -> &FileColumn {
        &self.column
    }

    /// Adds a value. Returns how many bytes of memory it takes, as an estimate that depends on the value
    /// alone.
    pub(crate) fn push(&mut self, value: &Value<'_>) -> usize {
        if self.column.is_list() {
            return self.push_list(value);
        }
        let bytes = self.push_value(value);
        if self.column.is_required {
            return bytes.unwrap_or_default();
        }
        self.definitions.push(i16::from(bytes.is_some()));
        size_of::<i16>() + bytes.unwrap_or_default()
    }

    fn push_list(&mut self, value: &Value<'_>) -> usize {
        let Value::Array(array) = value else { return self.level(0, LIST_LEVELS[0]) };
        let (mut bytes, mut repetition) = (0, 0);
        for element in array.elements() {
            let value = self.push_value(&element);
            let level = if value.is_some() { LIST_LEVELS[3] } else { LIST_LEVELS[2] };
            bytes += self.level(repetition, level) + value.unwrap_or_default();
            repetition = 1;
        }
        if repetition == 0 { self.level(0, LIST_LEVELS[1]) } else { bytes }
    }

    fn level(&mut self, repetition: i16, definition: i16) -> usize {
        self.repetitions.push(repetition);
        self.definitions.push(definition);
        2 * size_of::<i16>()
    }

    /// Adds a value without its level. `None`: it is null.
    fn push_value(&mut self, value: &Value<'_>) -> Option<usize> {
        match (&mut self.values, value) {
            (Values::Bool(values), Value::Bool(value)) => values.push(*value),
            (Values::Int64(values), Value::Int(value) | Value::Timestamp(value)) => values.push(*value),
            (Values::Int64(values), Value::Time(value)) => values.push(value.microseconds()),
            (Values::Int64(values), Value::Decimal(value)) => {
                values.push(i64::try_from(coefficient(*value, self.column.kind)?).ok()?);
            }
            (Values::Int32(values), Value::Date(value)) => values.push(value.days()),
            (Values::Double(values), Value::Float(value)) => values.push(*value),
            (Values::Fixed(data, _), Value::Uuid(value)) => data.extend_from_slice(value),
            (Values::Fixed(data, _), Value::Decimal(value)) => {
                data.extend_from_slice(&coefficient(*value, self.column.kind)?.to_be_bytes());
            }
            (Values::Bytes(..), Value::Text(text) | Value::Json(text)) => {
                return Some(self.push_bytes(text.as_bytes()));
            }
            (Values::Bytes(..), Value::Bytes(bytes)) => return Some(self.push_bytes(bytes)),
            (Values::Bytes(..), Value::Inet(address)) => {
                return Some(self.push_bytes(address.to_string().as_bytes()));
            }
            (Values::Bytes(..), Value::Decimal(value)) => {
                return Some(self.push_bytes(value.to_string().as_bytes()));
            }
            _ => return None,
        }
        Some(match &self.values {
            Values::Fixed(_, width) => *width,
            _ => size_of::<i64>(),
        })
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> usize {
        if let Values::Bytes(data, ends) = &mut self.values {
            data.extend_from_slice(bytes);
            ends.push(data.len());
        }
        bytes.len() + size_of::<usize>()
    }

    /// Writes all values, and forgets them.
    pub(crate) fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let definitions = std::mem::take(&mut self.definitions);
        let repetitions = std::mem::take(&mut self.repetitions);
        let definitions = (!self.column.is_required).then_some(&definitions[..]);
        let repetitions = self.column.is_list().then_some(&repetitions[..]);
        let values = std::mem::replace(&mut self.values, Values::new(self.column.store));
        match values {
            Values::Bool(values) => {
                writer.typed::<BoolType>().write_batch(&values, definitions, repetitions)?;
            }
            Values::Int32(values) => {
                writer.typed::<Int32Type>().write_batch(&values, definitions, repetitions)?;
            }
            Values::Int64(values) => {
                writer.typed::<Int64Type>().write_batch(&values, definitions, repetitions)?;
            }
            Values::Double(values) => {
                writer.typed::<DoubleType>().write_batch(&values, definitions, repetitions)?;
            }
            Values::Bytes(data, ends) => {
                let values = split(data, ends);
                writer.typed::<ByteArrayType>().write_batch(&values, definitions, repetitions)?;
            }
            Values::Fixed(data, width) => {
                let ends = (1..=data.len() / width).map(|count| count * width).collect();
                let values: Vec<_> = split(data, ends).into_iter().map(FixedLenByteArray::from).collect();
                writer.typed::<FixedLenByteArrayType>().write_batch(&values, definitions, repetitions)?;
            }
        }
        Ok(())
    }
}

/// Splits bytes at these ends, without a copy.
fn split(data: Vec<u8>, ends: Vec<usize>) -> Vec<ByteArray> {
    let data = Bytes::from(data);
    let mut start = 0;
    let slices = ends.into_iter().map(|end| {
        let value = data.slice(start..end);
        start = end;
        ByteArray::from(value)
    });
    slices.collect()
}

/// Returns the digits of a decimal at the scale of its column.
fn coefficient(value: Decimal, kind: ColumnType) -> Option<i128> {
    let ColumnType::Decimal(Some(size)) = kind.scalar() else { return None };
    value.with_size(size).map(Decimal::coefficient)
}

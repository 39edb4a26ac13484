//! The values of one row group in memory, column by column.

use std::collections::HashSet;
use std::hash::Hash;

use bytes::Bytes;
use parquet::column::writer::{ColumnWriter, get_typed_column_writer_mut};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray};
use parquet::data_type::{FixedLenByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result;
use tollgate_log::{ColumnType, Value};
use tollgate_value::Decimal;

use crate::table::{FileColumn, Store};

/// Levels of a list (`docs/reference` of Parquet, "nested encoding"): no list, no element, a null, a value.
const LIST_LEVELS: [i16; 4] = [0, 1, 2, 3];
/// Values of text, bytes and ids that are written at once. The crate writes as many into a page before it
/// looks at the size of the page, so another number gives other files.
const BLOCK_VALUES: usize = 1024;
/// First values that decide whether a column has a dictionary.
const SAMPLE_VALUES: usize = 16 << 10;

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

    /// Adds a value of a column of this kind. Returns its bytes. `None`: it is null.
    fn push(&mut self, value: &Value<'_>, kind: ColumnType) -> Option<usize> {
        match (self, value) {
            (Self::Bool(values), Value::Bool(value)) => values.push(*value),
            (Self::Int64(values), Value::Int(value) | Value::Timestamp(value)) => values.push(*value),
            (Self::Int64(values), Value::Time(value)) => values.push(value.microseconds()),
            (Self::Int64(values), Value::Decimal(value)) => {
                values.push(i64::try_from(coefficient(*value, kind)?).ok()?);
            }
            (Self::Int32(values), Value::Date(value)) => values.push(value.days()),
            (Self::Double(values), Value::Float(value)) => values.push(*value),
            (Self::Fixed(data, width), Value::Uuid(value)) => {
                data.extend_from_slice(value);
                return Some(*width);
            }
            (Self::Fixed(data, width), Value::Decimal(value)) => {
                data.extend_from_slice(&coefficient(*value, kind)?.to_be_bytes());
                return Some(*width);
            }
            (Self::Bytes(data, ends), value) => return push_bytes((data, ends), value),
            _ => return None,
        }
        Some(size_of::<i64>())
    }

    /// Returns whether at most half of the first values are different.
    fn has_repeats(&self) -> bool {
        match self {
            Self::Bool(_) => true,
            Self::Int32(values) => repeat(values.iter()),
            Self::Int64(values) => repeat(values.iter()),
            Self::Double(values) => repeat(values.iter().map(|value| value.to_bits())),
            Self::Bytes(data, ends) => {
                let starts = std::iter::once(&0).chain(ends);
                repeat(starts.zip(ends).map(|(start, end)| data.get(*start..*end)))
            }
            Self::Fixed(data, width) => repeat(data.chunks(*width)),
        }
    }
}

/// Returns whether at most half of the first values are different.
fn repeat<T: Hash + Eq>(values: impl Iterator<Item = T>) -> bool {
    let (mut count, mut different) = (0, HashSet::new());
    for value in values.take(SAMPLE_VALUES) {
        count += 1;
        different.insert(value);
    }
    different.len() <= count / 2
}

fn push_bytes((data, ends): (&mut Vec<u8>, &mut Vec<usize>), value: &Value<'_>) -> Option<usize> {
    let mut push = |bytes: &[u8]| {
        data.extend_from_slice(bytes);
        ends.push(data.len());
        Some(bytes.len() + size_of::<usize>())
    };
    match value {
        Value::Text(text) | Value::Json(text) => push(text.as_bytes()),
        Value::Bytes(bytes) => push(bytes),
        Value::Inet(address) => push(address.to_string().as_bytes()),
        Value::Decimal(value) => push(value.to_string().as_bytes()),
        _ => None,
    }
}

/// One column of a row group in memory.
#[derive(Debug)]
pub(crate) struct ColumnBuffer {
    column: FileColumn,
    values: Values,
    /// Number of levels: rows, or elements and empty lists of a list.
    count: usize,
    /// Definition levels. Empty if no row lacks a value so far, and the column has no lists.
    definitions: Vec<i16>,
    /// Repetition levels. Empty for a column without lists.
    repetitions: Vec<i16>,
}

impl ColumnBuffer {
    pub(crate) fn new(column: FileColumn) -> Self {
        let values = Values::new(column.store);
        Self { column, values, count: 0, definitions: Vec::new(), repetitions: Vec::new() }
    }

    pub(crate) const fn column(&self) -> &FileColumn {
        &self.column
    }

    /// Returns how many bytes the values have.
    pub(crate) fn bytes(&self) -> usize {
        match &self.values {
            Values::Bool(values) => values.len(),
            Values::Int32(values) => size_of_val(&values[..]),
            Values::Int64(values) => size_of_val(&values[..]),
            Values::Double(values) => size_of_val(&values[..]),
            Values::Bytes(data, _) | Values::Fixed(data, _) => data.len(),
        }
    }

    /// Returns whether the first values repeat so often that a dictionary makes the column smaller.
    pub(crate) fn has_repeats(&self) -> bool {
        self.values.has_repeats()
    }

    /// Adds a value. Returns how many bytes of memory it takes, as an estimate that depends on the value
    /// alone.
    pub(crate) fn push(&mut self, value: &Value<'_>) -> usize {
        if self.column.is_list() {
            return self.push_list(value);
        }
        let bytes = self.values.push(value, self.column.kind);
        self.count += 1;
        if self.column.is_required {
            return bytes.unwrap_or_default();
        }
        if bytes.is_none() {
            self.definitions.resize(self.count - 1, 1);
            self.definitions.push(0);
        } else if !self.definitions.is_empty() {
            self.definitions.push(1);
        }
        size_of::<i16>() + bytes.unwrap_or_default()
    }

    fn push_list(&mut self, value: &Value<'_>) -> usize {
        let Value::Array(array) = value else { return self.level(0, LIST_LEVELS[0]) };
        let (mut bytes, mut repetition) = (0, 0);
        for element in array.elements() {
            let value = self.values.push(&element, self.column.kind);
            let level = if value.is_some() { LIST_LEVELS[3] } else { LIST_LEVELS[2] };
            bytes += self.level(repetition, level) + value.unwrap_or_default();
            repetition = 1;
        }
        if repetition == 0 { self.level(0, LIST_LEVELS[1]) } else { bytes }
    }

    fn level(&mut self, repetition: i16, definition: i16) -> usize {
        self.count += 1;
        self.repetitions.push(repetition);
        self.definitions.push(definition);
        2 * size_of::<i16>()
    }

    /// Writes all values.
    pub(crate) fn write(mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        if self.definitions.is_empty() && !self.column.is_required {
            self.definitions.resize(self.count, 1);
        }
        let levels = Levels {
            definitions: (!self.column.is_required).then_some(&self.definitions[..]),
            repetitions: self.column.is_list().then_some(&self.repetitions[..]),
        };
        match self.values {
            Values::Bool(values) => levels.write::<BoolType>(writer, &values),
            Values::Int32(values) => levels.write::<Int32Type>(writer, &values),
            Values::Int64(values) => levels.write::<Int64Type>(writer, &values),
            Values::Double(values) => levels.write::<DoubleType>(writer, &values),
            Values::Bytes(data, ends) => {
                let values = split(data, ends.into_iter());
                levels.write_blocks::<ByteArrayType>(writer, values)
            }
            Values::Fixed(data, width) => {
                let ends = (1..=data.len() / width).map(|count| count * width);
                let values = split(data, ends).map(FixedLenByteArray::from);
                levels.write_blocks::<FixedLenByteArrayType>(writer, values)
            }
        }
    }
}

/// The levels of a column of a row group. A column in which each row has a value has none.
#[derive(Clone, Copy)]
struct Levels<'a> {
    definitions: Option<&'a [i16]>,
    repetitions: Option<&'a [i16]>,
}

impl Levels<'_> {
    fn write<T: DataType>(self, writer: &mut ColumnWriter<'_>, values: &[T::T]) -> Result<()> {
        get_typed_column_writer_mut::<T>(writer).write_batch(values, self.definitions, self.repetitions)?;
        Ok(())
    }

    /// Writes values in blocks, so that few of them are in memory as values of Parquet. Each of these is
    /// larger than a short text. A list is one block, because a block must end with a row.
    fn write_blocks<T: DataType>(
        self,
        writer: &mut ColumnWriter<'_>,
        mut values: impl Iterator<Item = T::T>,
    ) -> Result<()> {
        let mut block = Vec::with_capacity(BLOCK_VALUES);
        if self.repetitions.is_some() {
            block.extend(values);
            return self.write::<T>(writer, &block);
        }
        let mut definitions = self.definitions.map(|levels| levels.chunks(BLOCK_VALUES));
        loop {
            let levels = definitions.as_mut().map(Iterator::next);
            let count = match levels {
                Some(None) => return Ok(()),
                Some(Some(levels)) => levels.iter().filter(|level| **level == 1).count(),
                None => BLOCK_VALUES,
            };
            block.clear();
            block.extend(values.by_ref().take(count));
            if levels.is_none() && block.is_empty() {
                return Ok(());
            }
            get_typed_column_writer_mut::<T>(writer).write_batch(&block, levels.flatten(), None)?;
        }
    }
}

/// Splits bytes at these ends, without a copy.
fn split(data: Vec<u8>, ends: impl Iterator<Item = usize>) -> impl Iterator<Item = ByteArray> {
    let data = Bytes::from(data);
    let mut start = 0;
    ends.map(move |end| {
        let value = data.slice(start..end);
        start = end;
        ByteArray::from(value)
    })
}

/// Returns the digits of a decimal at the scale of its column.
fn coefficient(value: Decimal, kind: ColumnType) -> Option<i128> {
    let ColumnType::Decimal(Some(size)) = kind.scalar() else { return None };
    value.with_size(size).map(Decimal::coefficient)
}

//! The bytes of one record: a row of typed values, a reject, or a schema.
//!
//! The worker encodes records into the batch that it gathers. Decoding borrows from the batch.

use std::borrow::Cow;
use std::sync::Arc;

use crate::column_type::ColumnType;
use crate::error::FormatError;
use crate::id::Sequence;
use crate::reader::{Reader, utf8};
use crate::schema::{Column, ColumnOrigin, Schema, SchemaId};
use crate::value::{UnfitValue, Value, decode_value, encode_sized, encode_value};

/// Bytes before the body of a record.
pub(crate) const FRAME_BYTES: usize = 8;

/// Why a column does not accept a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The value has another type.
    #[error("column {column:?} takes {allowed}, found {found}")]
    Type {
        /// Name of the column.
        column: String,
        /// The type of the value.
        found: Cow<'static, str>,
        /// The type of the column.
        allowed: Cow<'static, str>,
    },
    /// The text has U+0000, which databases cannot store.
    #[error("column {column:?} takes no U+0000, found one at byte {at}")]
    Nul {
        /// Name of the column.
        column: String,
        /// Offset of the first U+0000 in bytes.
        at: usize,
    },
    /// The source of the value cannot make a [`Value`] for the column from it.
    #[error("column {column:?} takes {allowed}, found {found}")]
    Unfit {
        /// Name of the column.
        column: String,
        /// The value found, shortened.
        found: String,
        /// Values that the column accepts.
        allowed: Cow<'static, str>,
    },
    /// A required value is missing.
    #[error("column {column:?} is required, found nothing")]
    Missing {
        /// Name of the column.
        column: String,
    },
    /// The value has more bytes than the stream allows.
    #[error("column {column:?} takes at most {limit} bytes, found {bytes} bytes")]
    TooLong {
        /// Name of the column.
        column: String,
        /// Bytes of the value.
        bytes: usize,
        /// Maximum bytes.
        limit: usize,
    },
    /// The array has too many elements.
    #[error("column {column:?} takes arrays of at most {limit} elements, found more")]
    TooMany {
        /// Name of the column.
        column: String,
        /// Maximum number of elements.
        limit: usize,
    },
    /// The JSON has more levels than databases are known to handle.
    #[error("column {column:?} takes json with at most {limit} levels, found more")]
    TooDeep {
        /// Name of the column.
        column: String,
        /// Maximum number of levels.
        limit: usize,
    },
    /// The item has fields for which there is no column.
    #[error("record has unknown fields: {names}")]
    UnknownFields {
        /// Quoted names of these fields.
        names: String,
    },
}

impl ValueError {
    #[cold]
    pub(crate) fn of(spec: &Column, value: &Value<'_>, unfit: UnfitValue) -> Self {
        let column = spec.name.clone();
        match unfit {
            UnfitValue::Nul(at) => Self::Nul { column, at },
            UnfitValue::Type => {
                let found = value.column_type().map(ColumnType::name).unwrap_or_default();
                Self::Type { column, found, allowed: spec.kind.name() }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Row = 0,
    Reject = 1,
    Schema = 2,
}

/// Appends the frame of a record and returns its offset. [`end_frame`] fills in the length.
#[inline]
pub(crate) fn begin_frame(out: &mut Vec<u8>, schema: SchemaId, kind: RecordKind) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&schema.0.to_le_bytes());
    out.extend_from_slice(&[kind as u8, 0]);
    start
}

pub(crate) fn end_frame(out: &mut [u8], start: usize) {
    let body_bytes = (out.len() - start - FRAME_BYTES) as u32;
    out[start..start + 4].copy_from_slice(&body_bytes.to_le_bytes());
}

pub(crate) fn encode_reject(out: &mut Vec<u8>, schema: SchemaId, reason: &str, item: &[u8]) {
    let start = begin_frame(out, schema, RecordKind::Reject);
    encode_sized(out, reason.as_bytes());
    out.extend_from_slice(item);
    end_frame(out, start);
}

pub(crate) fn encode_schema(out: &mut Vec<u8>, id: SchemaId, schema: &Schema) {
    let start = begin_frame(out, id, RecordKind::Schema);
    schema.encode(out);
    end_frame(out, start);
}

/// Encodes one row, value by value in the order of the columns. Columns without a pushed value are null.
///
/// For a column of the origin log id or sequence, push null. At the end of the row, such columns need no
/// push.
pub struct RowEncoder<'a> {
    out: &'a mut Vec<u8>,
    schema: &'a Schema,
    start: usize,
    column: usize,
}

impl<'a> RowEncoder<'a> {
    #[inline]
    pub(crate) fn begin(out: &'a mut Vec<u8>, id: SchemaId, schema: &'a Schema) -> Self {
        let start = begin_frame(out, id, RecordKind::Row);
        out.resize(out.len() + schema.bitmap_bytes(), 0);
        Self { out, schema, start, column: 0 }
    }

    /// Appends the value of the next column.
    ///
    /// # Errors
    /// The column has another type, or the text has U+0000. The row then has null in this column. The caller
    /// may continue or drop the row.
    ///
    /// # Panics
    /// If all columns already have a value. The caller knows the schema.
    pub fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        assert!(self.column < self.schema.columns().len(), "more values than columns");
        let column = self.column;
        self.column += 1;
        if matches!(value, Value::Null) {
            return Ok(());
        }
        let spec = &self.schema.columns()[column];
        let encoded = match spec.origin.is_in_row() {
            true => encode_value(self.out, value, spec.kind),
            false => Err(UnfitValue::Type),
        };
        if let Err(unfit) = encoded {
            return Err(ValueError::of(spec, &value, unfit));
        }
        self.out[self.start + FRAME_BYTES + column / 8] |= 1 << (column % 8);
        Ok(())
    }

    pub(crate) fn finish(self) {
        end_frame(self.out, self.start);
    }
}

/// One record, read from a batch.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    /// Number of the record in the log.
    pub sequence: Sequence,
    /// Number of the record's schema in the log.
    pub schema_id: SchemaId,
    /// Schema of the record.
    pub schema: &'a Arc<Schema>,
    /// Content of the record.
    pub body: RecordBody<'a>,
}

/// Content of a record.
#[derive(Debug, Clone)]
pub enum RecordBody<'a> {
    /// One value for each column of the schema. This includes the columns whose origin is the log id or the
    /// sequence.
    Row(Vec<Value<'a>>),
    /// An item that did not fit its stream.
    Reject {
        /// Why the item did not fit.
        reason: &'a str,
        /// The item as it was received.
        item: &'a [u8],
    },
}

/// A record in a batch, with its body not yet decoded.
pub(crate) struct RawRecord<'a> {
    pub(crate) schema: SchemaId,
    pub(crate) kind: RecordKind,
    pub(crate) body: &'a [u8],
}

/// Splits the first record from a payload.
pub(crate) fn split_record(payload: &[u8]) -> Result<(RawRecord<'_>, &[u8]), FormatError> {
    let cut_off = |needed: usize| FormatError::CutOff {
        what: "record",
        found: payload.len() as u64,
        needed: needed as u64,
    };
    let (frame, rest) = payload.split_first_chunk::<FRAME_BYTES>().ok_or_else(|| cut_off(FRAME_BYTES))?;
    let [l0, l1, l2, l3, s0, s1, kind, zero] = *frame;
    let body_bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let (body, rest) = rest.split_at_checked(body_bytes).ok_or_else(|| cut_off(FRAME_BYTES + body_bytes))?;
    let kind = match (kind, zero) {
        (0, 0) => RecordKind::Row,
        (1, 0) => RecordKind::Reject,
        (2, 0) => RecordKind::Schema,
        _ => return Err(FormatError::Value { what: "record kind", found: kind.into(), allowed: "0 to 2" }),
    };
    let schema = SchemaId(u16::from_le_bytes([s0, s1]));
    Ok((RawRecord { schema, kind, body }, rest))
}

pub(crate) fn decode_reject(body: &[u8]) -> Result<RecordBody<'_>, FormatError> {
    let mut reader = Reader::new("reject", body);
    let reason = utf8("reason", reader.sized()?)?;
    Ok(RecordBody::Reject { reason, item: reader.rest() })
}

/// Decodes the values of a row. `log` and `sequence` fill the columns that are not stored.
pub(crate) fn decode_row<'a>(
    schema: &Schema,
    body: &'a [u8],
    log: [u8; 16],
    sequence: Sequence,
) -> Result<Vec<Value<'a>>, FormatError> {
    let mut reader = Reader::new("value", body);
    let bitmap = reader.take(schema.bitmap_bytes())?;
    let mut values = Vec::with_capacity(schema.columns().len());
    for (index, column) in schema.columns().iter().enumerate() {
        let is_present = bitmap[index / 8] & (1 << (index % 8)) != 0;
        match column.origin {
            ColumnOrigin::LogId => values.push(Value::Uuid(log)),
            ColumnOrigin::Sequence => values.push(Value::Int(sequence.0.cast_signed())),
            ColumnOrigin::Stored | ColumnOrigin::Key { .. } if is_present => {
                decode_value(&mut reader, column.kind, |value| values.push(value))?;
            }
            ColumnOrigin::Stored | ColumnOrigin::Key { .. } => values.push(Value::Null),
        }
    }
    reader.finish("bytes after a row")?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::array_buffer::{ArrayBuffer, OwnedArray};
    use crate::column_type::ColumnType;
    use crate::schema::Column;
    use proptest::prelude::*;
    use tollgate_value::{Date, Decimal, TimeOfDay};

    fn everything() -> Schema {
        let columns = ColumnType::ALL
            .iter()
            .map(|kind| Column { name: kind.name().into_owned(), kind: *kind, origin: ColumnOrigin::Stored })
            .collect();
        Schema::new("everything", columns).unwrap()
    }

    fn encode(schema: &Schema, values: &[Value<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut row = RowEncoder::begin(&mut out, SchemaId(3), schema);
        for value in values {
            row.push(*value).unwrap();
        }
        row.finish();
        out
    }

    #[test]
    fn a_value_of_another_type_is_told_with_both_types() {
        let schema = everything();
        let mut out = Vec::new();
        let mut row = RowEncoder::begin(&mut out, SchemaId(0), &schema);
        let error = row.push(Value::Int(1)).unwrap_err();
        assert_eq!(error.to_string(), "column \"bool\" takes bool, found int");
    }

    #[test]
    fn text_with_nul_is_refused() {
        let schema = everything();
        let mut out = Vec::new();
        let mut row = RowEncoder::begin(&mut out, SchemaId(0), &schema);
        for _ in 0..3 {
            row.push(Value::Null).unwrap();
        }
        assert!(matches!(row.push(Value::Text("a\0b")), Err(ValueError::Nul { at: 1, .. })));
    }

    proptest! {
        #[test]
        fn a_row_reads_as_it_was_written(
            present in prop::array::uniform22(any::<bool>()),
            flag: bool, int: i64, float in prop::num::f64::NORMAL, text in "[^\0]{0,40}",
            bytes in prop::collection::vec(any::<u8>(), 0..40), uuid: [u8; 16], address: IpAddr,
            (coefficient, scale) in (-10_i128.pow(37)..10_i128.pow(37), 0_u8..=38),
            (days, us) in (0..2_932_896, 0..86_400_000_000_i64),
        ) {
            let schema = everything();
            let scalars = [
                Value::Bool(flag), Value::Int(int), Value::Float(float), Value::Text(&text),
                Value::Bytes(&bytes),
                Value::Timestamp(int), Value::Json("{}"), Value::Uuid(uuid), Value::Inet(address),
                Value::Decimal(Decimal::new(coefficient, scale).unwrap()),
                Value::Date(Date::from_days(days).unwrap()),
                Value::Time(TimeOfDay::from_microseconds(us).unwrap()),
            ];
            let arrays: Vec<_> = scalars.iter().filter_map(|value| {
                let mut buffer = ArrayBuffer::new(value.column_type()?.as_element()?);
                [*value, Value::Null, *value].into_iter().try_for_each(|value| buffer.push(value)).unwrap();
                Some(buffer.finish())
            }).collect();
            let all: Vec<_> = scalars.into_iter().chain(arrays.iter().map(OwnedArray::value)).collect();
            let values: Vec<_> =
                all.iter().zip(present).map(|(value, is)| if is { *value } else { Value::Null }).collect();
            let out = encode(&schema, &values);
            let (raw, rest) = split_record(&out).unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!(raw.schema, SchemaId(3));
            prop_assert_eq!(decode_row(&schema, raw.body, [0; 16], Sequence(1)).unwrap(), values);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok((raw, _)) = split_record(&bytes) {
                let _ = decode_row(&everything(), raw.body, [0; 16], Sequence(1));
                let _ = decode_reject(raw.body);
                let _ = Schema::decode(raw.body);
            }
            let _ = decode_row(&everything(), &bytes, [0; 16], Sequence(1));
        }
    }
}

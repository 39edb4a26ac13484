//! The body of a row outside of the log, such as the value of a record in a queue: the bytes of the row's
//! record without their frame. All its columns are stored.

use crate::column_type::ColumnType;
use crate::error::FormatError;
use crate::reader::Reader;
use crate::record::ValueError;
use crate::schema::Column;
use crate::value::{Value, decode_value, encode_value};

/// Appends a row: a bitmap of the columns that have a value, then these values.
///
/// # Errors
/// A value has another type than its column, or its text has U+0000. Some bytes may be appended then.
pub fn encode_row_body<'a>(
    out: &mut Vec<u8>,
    columns: impl Iterator<Item = (&'a Column, Value<'a>)> + Clone,
) -> Result<(), ValueError> {
    let bitmap = out.len();
    out.resize(bitmap + columns.clone().count().div_ceil(8), 0);
    for (index, (column, value)) in columns.enumerate() {
        if matches!(value, Value::Null) {
            continue;
        }
        encode_value(out, value, column.kind).map_err(|unfit| ValueError::of(column, &value, unfit))?;
        out[bitmap + index / 8] |= 1 << (index % 8);
    }
    Ok(())
}

/// Reads the values of a row that [`encode_row_body`] wrote with columns of these types.
///
/// # Errors
/// The bytes are no such row.
pub fn decode_row_body(
    kinds: impl Iterator<Item = ColumnType> + Clone,
    body: &[u8],
) -> Result<Vec<Value<'_>>, FormatError> {
    let count = kinds.clone().count();
    let mut reader = Reader::new("value", body);
    let bitmap = reader.take(count.div_ceil(8))?;
    let mut values = Vec::with_capacity(count);
    for (index, kind) in kinds.enumerate() {
        match bitmap[index / 8] & (1 << (index % 8)) {
            0 => values.push(Value::Null),
            _ => decode_value(&mut reader, kind, |value| values.push(value))?,
        }
    }
    reader.finish("bytes after a row")?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ColumnOrigin;

    fn columns() -> Vec<Column> {
        let column = |(name, kind): (&str, ColumnType)| Column {
            name: name.to_owned(),
            kind,
            origin: ColumnOrigin::Stored,
        };
        let kinds = [ColumnType::Int, ColumnType::Text, ColumnType::Bool, ColumnType::Json];
        ["a", "b", "c", "d"].into_iter().zip(kinds).map(column).collect()
    }

    fn decode(body: &[u8]) -> Result<Vec<Value<'_>>, FormatError> {
        let columns = columns();
        decode_row_body(columns.iter().map(|column| column.kind), body)
    }

    #[test]
    fn a_row_body_has_a_bitmap_and_the_values_of_its_columns() {
        let (columns, mut body) = (columns(), Vec::new());
        let values = [Value::Int(-2), Value::Null, Value::Bool(true), Value::Json("{}")];
        encode_row_body(&mut body, columns.iter().zip(values)).unwrap();
        let mut expected = vec![0b1101];
        expected.extend((-2_i64).to_le_bytes());
        expected.extend([1, 2, 0, 0, 0, b'{', b'}']);
        assert_eq!(body, expected);
        assert_eq!(decode(&body).unwrap(), values);
    }

    #[test]
    fn a_body_that_is_cut_off_or_too_long_is_refused() {
        let (columns, mut body) = (columns(), Vec::new());
        let values = [Value::Int(1), Value::Text("x"), Value::Bool(false), Value::Null];
        encode_row_body(&mut body, columns.iter().zip(values)).unwrap();
        for length in 0..body.len() {
            assert!(decode(&body[..length]).is_err(), "{length}");
        }
        body.push(0);
        assert!(decode(&body).is_err());
        let wrong = encode_row_body(&mut body, columns.iter().zip([Value::Bool(true); 4]));
        assert_eq!(wrong.unwrap_err().to_string(), "column \"a\" takes int, found bool");
    }
}

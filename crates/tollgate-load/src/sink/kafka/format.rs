//! The value of a row in a topic: a JSON object, or the row as the log has it.

use std::sync::Arc;

use tollgate_log::{
    LogId, MadeBatch, RecordBody, RowEncoder, Schema, Sequence, Value, ValueError, decode_row_body,
    encode_row_body,
};

use crate::sink::item::{parse, with_value};
use crate::sink::json::write_json;

/// Bytes for the value of a row, before it is known.
const ROW_BYTES: usize = 192;

/// How the value of a row is written in a topic. The key of a row is not in its value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowFormat {
    /// An object with a field for each column.
    #[default]
    Json,
    /// The bitmap and the values of the columns, as the record of a row in the log has them.
    Row,
}

impl RowFormat {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::Json, Self::Row];

    /// Returns the name in configuration and headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Row => "row",
        }
    }

    /// Finds a format by the name in a header. The error has a name that no format has.
    pub(super) fn from_name(name: &[u8]) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|format| format.name().as_bytes() == name);
        known.ok_or_else(|| String::from_utf8_lossy(name).into_owned())
    }

    /// Pushes the columns of a schema from the key and the value of a record.
    ///
    /// # Errors
    /// Why the value does not have these columns.
    pub(crate) fn read(
        self,
        row: &mut RowEncoder<'_>,
        schema: &Schema,
        key: Option<&[u8]>,
        value: &[u8],
    ) -> Result<(), String> {
        match self {
            Self::Json => read_object(row, schema, key, value),
            Self::Row => read_row(row, schema, key, value),
        }
    }
}

fn read_object(
    row: &mut RowEncoder<'_>,
    schema: &Schema,
    key: Option<&[u8]>,
    value: &[u8],
) -> Result<(), String> {
    let fields = parse(value)?;
    for column in schema.columns() {
        let pushed = match (column.is_key(), fields.get(&column.name)) {
            (true, _) => row.push(key.map_or(Value::Null, Value::Bytes)),
            (false, None) => row.push(Value::Null),
            (false, Some(raw)) => with_value((&column.name, column.kind), raw, |value| row.push(*value))?,
        };
        pushed.map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn read_row(
    row: &mut RowEncoder<'_>,
    schema: &Schema,
    key: Option<&[u8]>,
    value: &[u8],
) -> Result<(), String> {
    let mut values = row_values(schema, value)?.into_iter();
    for column in schema.columns() {
        let value = match column.is_key() {
            true => key.map(Value::Bytes),
            false => values.next(),
        };
        row.push(value.unwrap_or(Value::Null)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn row_values<'v>(schema: &Schema, value: &'v [u8]) -> Result<Vec<Value<'v>>, String> {
    decode_row_body(schema.table_columns().map(|column| column.kind), value)
        .map_err(|error| error.to_string())
}

/// Writes the values of rows of one schema.
#[derive(Debug)]
pub(super) struct ValueWriter {
    schema: Arc<Schema>,
    /// The columns as they begin in an object: `"name":`. `None`: the key. Empty for the format row.
    names: Vec<Option<String>>,
    format: RowFormat,
}

impl ValueWriter {
    pub(super) fn new(format: RowFormat, schema: Arc<Schema>) -> Self {
        let names = match format {
            RowFormat::Json => names_of(&schema),
            RowFormat::Row => Vec::new(),
        };
        Self { schema, names, format }
    }

    pub(super) const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the value of a row.
    ///
    /// # Errors
    /// A column has a value of another type than the schema says.
    pub(super) fn value(&self, values: &[Value<'_>]) -> Result<Vec<u8>, ValueError> {
        let mut value = Vec::with_capacity(ROW_BYTES);
        match self.format {
            RowFormat::Json => write_object(&self.names, values, &mut value),
            RowFormat::Row => {
                let columns = self.schema.columns().iter().zip(values.iter().copied());
                encode_row_body(&mut value, columns.filter(|(column, _)| !column.is_key()))?;
            }
        }
        Ok(value)
    }

    /// Returns a value of this writer as an object. The rejects store rows as objects.
    ///
    /// # Errors
    /// Why the value has not the columns of the schema.
    pub(super) fn object_of(&self, value: &[u8]) -> Result<Vec<u8>, String> {
        match self.format {
            RowFormat::Json => Ok(value.to_vec()),
            RowFormat::Row => {
                let (values, mut object) = (row_values(&self.schema, value)?, Vec::with_capacity(ROW_BYTES));
                let names: Vec<_> = names_of(&self.schema).into_iter().filter(Option::is_some).collect();
                write_object(&names, &values, &mut object);
                Ok(object)
            }
        }
    }

    /// Returns an object as a value of this writer.
    ///
    /// # Errors
    /// Why the object has not the columns of the schema.
    pub(super) fn value_of_object(&self, object: Vec<u8>) -> Result<Vec<u8>, String> {
        match self.format {
            RowFormat::Json => Ok(object),
            RowFormat::Row => {
                let mut made = MadeBatch::new(LogId::from_bytes([0; 16]), Sequence(1), "", Sequence(1));
                made.row(&self.schema, |row| read_object(row, &self.schema, None, &object))?;
                let batch = made.batch();
                let record = batch.numbered().find_map(|(_, record)| record.ok());
                match record.map(|record| record.body) {
                    Some(RecordBody::Row(values)) => self.value(&values).map_err(|error| error.to_string()),
                    _ => Err("the object is no row".to_owned()),
                }
            }
        }
    }
}

fn names_of(schema: &Schema) -> Vec<Option<String>> {
    let names = schema.columns().iter().map(|column| {
        (!column.is_key()).then(|| format!("{}:", serde_json::Value::from(column.name.as_str())))
    });
    names.collect()
}

fn write_object(names: &[Option<String>], values: &[Value<'_>], object: &mut Vec<u8>) {
    object.push(b'{');
    for (name, value) in names.iter().zip(values) {
        let Some(name) = name else { continue };
        if object.len() > 1 {
            object.push(b',');
        }
        object.extend_from_slice(name.as_bytes());
        write_json(value, object);
    }
    object.push(b'}');
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};
    use tollgate_log::{Column, ColumnOrigin, ColumnType};

    use super::*;

    const KEY: &[u8] = b"key";
    const VALUES: [Value<'static>; 6] = [
        Value::Int(-7),
        Value::Bytes(KEY),
        Value::Text("a \"b\"\n"),
        Value::Json("{ \"x\": 1.0 }"),
        Value::Null,
        Value::Uuid([9; 16]),
    ];

    /// Returns the schema as the server has it, or as a loader of the topic reads it.
    fn schema(reads: bool) -> Arc<Schema> {
        let column = |name: &str, kind, origin| Column { name: name.to_owned(), kind, origin };
        let key = column("k", ColumnType::Bytes, ColumnOrigin::Key { window_ms: 1_000 });
        let log = if reads { ColumnOrigin::Stored } else { ColumnOrigin::LogId };
        let mut columns = vec![
            column("n", ColumnType::Int, ColumnOrigin::Stored),
            column("say \"t\"", ColumnType::Text, ColumnOrigin::Stored),
            column("j", ColumnType::Json, ColumnOrigin::Stored),
            column("none", ColumnType::Bool, ColumnOrigin::Stored),
            column("log", ColumnType::Uuid, log),
        ];
        columns.insert(if reads { columns.len() } else { 1 }, key);
        Arc::new(Schema::new("rows", columns).unwrap())
    }

    /// Reads a value as a loader of the topic does.
    fn read(format: RowFormat, value: &[u8]) -> Result<Vec<String>, String> {
        let schema = schema(true);
        let mut made = MadeBatch::new(LogId::from_bytes([1; 16]), Sequence(1), "", Sequence(1));
        made.row(&schema, |row| format.read(row, &schema, Some(KEY), value))?;
        let batch = made.batch();
        let body = batch.numbered().next().unwrap().1.unwrap().body;
        let RecordBody::Row(values) = body else { panic!("no row: {body:?}") };
        Ok(values.iter().map(|value| format!("{value:?}")).collect())
    }

    #[test]
    fn an_object_has_all_columns_without_the_key() {
        let object = ValueWriter::new(RowFormat::Json, schema(false)).value(&VALUES).unwrap();
        let log = uuid::Uuid::from_bytes([9; 16]).to_string();
        let expected =
            json!({ "n": -7, "say \"t\"": "a \"b\"\n", "j": { "x": 1.0 }, "none": null, "log": log });
        assert_eq!(serde_json::from_slice::<Json>(&object).unwrap(), expected);
        assert!(object.windows(12).any(|part| part == b"{ \"x\": 1.0 }".as_slice()), "no digit is lost");
    }

    #[test]
    fn a_loader_reads_both_formats_alike() {
        let mut expected = VALUES.map(|value| format!("{value:?}"));
        expected[1..].rotate_left(1);
        for format in RowFormat::ALL {
            let value = ValueWriter::new(format, schema(false)).value(&VALUES).unwrap();
            assert_eq!(read(format, &value).unwrap(), expected, "{format:?}");
            assert!(read(format, &value[1..]).is_err(), "{format:?}");
        }
    }

    #[test]
    fn a_reject_stores_an_object_that_becomes_the_same_value() {
        for format in RowFormat::ALL {
            let writer = ValueWriter::new(format, schema(true));
            let value = ValueWriter::new(format, schema(false)).value(&VALUES).unwrap();
            let object = writer.object_of(&value).unwrap();
            assert_eq!(object[0], b'{', "{format:?}");
            assert_eq!(writer.value_of_object(object).unwrap(), value, "{format:?}");
        }
        let writer = ValueWriter::new(RowFormat::Row, schema(true));
        assert!(writer.value_of_object(b"{\"n\":\"text\"}".to_vec()).unwrap_err().contains("takes int"));
    }

    #[test]
    fn a_format_has_one_name_in_headers_and_configuration() {
        for format in RowFormat::ALL {
            assert_eq!(RowFormat::from_name(format.name().as_bytes()), Ok(format));
        }
        assert_eq!(RowFormat::from_name(b"avro"), Err("avro".to_owned()));
    }
}

//! The columns of a file: the type of each column of a stream in Parquet.
//!
//! | column | Parquet |
//! | --- | --- |
//! | `bool`, `int`, `float` | BOOLEAN, INT64, DOUBLE |
//! | `text`, `json`, `inet`, `decimal` without a size | BYTE_ARRAY (STRING) |
//! | `bytes` | BYTE_ARRAY |
//! | `timestamp` | INT64 (TIMESTAMP, microseconds, UTC) |
//! | `date`, `time` | INT32 (DATE), INT64 (TIME, microseconds) |
//! | `uuid` | FIXED_LEN_BYTE_ARRAY(16) (UUID) |
//! | `decimal(P,S)` | INT64 up to 18 digits, else FIXED_LEN_BYTE_ARRAY(16) (DECIMAL) |
//! | arrays | LIST of optional elements |
//!
//! After the columns of the stream come `_key`, if the stream has a key, `_log` and `_seq`.

use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::Result;
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use tollgate_log::{ColumnType, Schema, Value};
use tollgate_value::DecimalSize;

use crate::iceberg::{FieldId, TIME_COLUMN, TableColumn};

/// The key of the record, for streams with a key.
pub const KEY_COLUMN: &str = "_key";
/// The log of the record.
pub const LOG_COLUMN: &str = "_log";
/// The number of the record in its log.
pub const SEQUENCE_COLUMN: &str = "_seq";

/// Largest number of digits of a decimal that is an INT64.
const INT_DIGITS_MAX: u8 = 18;
/// Bytes of a decimal that is no INT64, and of a UUID.
const WIDE_BYTES: usize = 16;

/// How the values of a column are stored in memory and in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Fixed(usize),
}

/// A column of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileColumn {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    pub(crate) store: Store,
    /// Whether each row has a value.
    pub(crate) is_required: bool,
    /// Whether each row group has a Bloom filter of the values.
    pub(crate) has_bloom: bool,
    /// The id of the column in a table of Iceberg.
    pub(crate) field: Option<FieldId>,
}

impl FileColumn {
    pub(crate) fn new(name: &str, kind: ColumnType) -> Self {
        let store = store_of(kind.scalar());
        let has_bloom = matches!(kind, ColumnType::Uuid);
        Self { name: name.to_owned(), kind, store, is_required: false, has_bloom, field: None }
    }

    /// The time of the record, which tables of Iceberg have besides.
    pub(crate) fn time() -> Self {
        Self::required(TIME_COLUMN, ColumnType::Timestamp)
    }

    fn required(name: &str, kind: ColumnType) -> Self {
        Self { is_required: true, has_bloom: false, ..Self::new(name, kind) }
    }

    pub(crate) const fn is_list(&self) -> bool {
        matches!(self.kind, ColumnType::Array(_))
    }

    /// Returns the path of its values in the schema of a file.
    pub(crate) fn path(&self) -> ColumnPath {
        let list = if self.is_list() { &["list", "element"][..] } else { &[] };
        let parts = std::iter::once(&*self.name).chain(list.iter().copied());
        ColumnPath::new(parts.map(str::to_owned).collect())
    }

    fn to_parquet(&self) -> Result<TypePtr> {
        let repetition = if self.is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let id = self.field.map(|field| field.id);
        if !self.is_list() {
            return scalar(&self.name, self.kind, (repetition, id));
        }
        let element = self.field.and_then(|field| field.element);
        let element = scalar("element", self.kind.scalar(), (Repetition::OPTIONAL, element))?;
        let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED);
        let list = list.with_fields(vec![element]).build()?;
        let column = Type::group_type_builder(&self.name).with_repetition(repetition).with_id(id);
        let column =
            column.with_logical_type(Some(LogicalType::List)).with_converted_type(ConvertedType::LIST);
        Ok(Arc::new(column.with_fields(vec![Arc::new(list)]).build()?))
    }
}

/// The columns of the file of a stream, in order. Values of a row come first, without its key.
pub(crate) fn columns_of(schema: &Schema) -> Vec<FileColumn> {
    let mut columns: Vec<_> =
        schema.table_columns().map(|column| FileColumn::new(&column.name, column.kind)).collect();
    if schema.key().is_some() {
        columns.push(FileColumn { has_bloom: true, ..FileColumn::new(KEY_COLUMN, ColumnType::Bytes) });
    }
    columns.extend(identity());
    columns
}

/// The columns of the table of rejects.
pub(crate) fn columns_of_rejects() -> Vec<FileColumn> {
    let text = |name| FileColumn::required(name, ColumnType::Text);
    let mut columns = vec![
        text("stream"),
        text("reason"),
        text("refused_by"),
        FileColumn::required("item", ColumnType::Bytes),
        text("text"),
        FileColumn::new(KEY_COLUMN, ColumnType::Bytes),
        FileColumn::new("key_window_ms", ColumnType::Int),
        FileColumn::required("stamp", ColumnType::Timestamp),
    ];
    columns.extend(identity());
    columns
}

/// The columns of the table of gaps.
pub(crate) fn columns_of_gaps() -> Vec<FileColumn> {
    let number = |name| FileColumn::required(name, ColumnType::Int);
    let text = |name| FileColumn::required(name, ColumnType::Text);
    let mut columns = vec![text("event"), number("first_seq"), number("last_seq"), text("reason")];
    columns.extend(identity());
    columns
}

/// Returns the columns of the table of gaps.
pub fn table_columns_of_gaps() -> Vec<TableColumn> {
    in_table(columns_of_gaps())
}

/// Returns the columns of the table of a stream.
pub fn table_columns(schema: &Schema) -> Vec<TableColumn> {
    in_table(columns_of(schema))
}

/// Returns the columns of the table of rejects.
pub fn table_columns_of_rejects() -> Vec<TableColumn> {
    in_table(columns_of_rejects())
}

fn in_table(columns: Vec<FileColumn>) -> Vec<TableColumn> {
    let columns = columns.into_iter().chain([FileColumn::time()]);
    columns.map(|column| TableColumn { name: column.name, kind: column.kind }).collect()
}

fn identity() -> [FileColumn; 2] {
    [
        FileColumn::required(LOG_COLUMN, ColumnType::Uuid),
        FileColumn::required(SEQUENCE_COLUMN, ColumnType::Int),
    ]
}

/// Returns the schema of a file with these columns.
pub(crate) fn message_of(columns: &[FileColumn]) -> Result<TypePtr> {
    let fields = columns.iter().map(FileColumn::to_parquet).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Type::group_type_builder("schema").with_fields(fields).build()?))
}

const fn store_of(kind: ColumnType) -> Store {
    match kind {
        ColumnType::Bool => Store::Bool,
        ColumnType::Int | ColumnType::Timestamp | ColumnType::Time => Store::Int64,
        ColumnType::Float => Store::Double,
        ColumnType::Date => Store::Int32,
        ColumnType::Uuid => Store::Fixed(WIDE_BYTES),
        ColumnType::Decimal(Some(size)) if size.precision() <= INT_DIGITS_MAX => Store::Int64,
        ColumnType::Decimal(Some(_)) => Store::Fixed(WIDE_BYTES),
        ColumnType::Text
        | ColumnType::Bytes
        | ColumnType::Json
        | ColumnType::Inet
        | ColumnType::Decimal(None)
        | ColumnType::Array(_) => Store::Bytes,
    }
}

fn scalar(name: &str, kind: ColumnType, how: (Repetition, Option<i32>)) -> Result<TypePtr> {
    let (physical, logical, width) = match kind {
        ColumnType::Bool => (Physical::BOOLEAN, None, 0),
        ColumnType::Int => (Physical::INT64, None, 0),
        ColumnType::Float => (Physical::DOUBLE, None, 0),
        ColumnType::Bytes => (Physical::BYTE_ARRAY, None, 0),
        ColumnType::Timestamp => {
            let logical = LogicalType::Timestamp { is_adjusted_to_u_t_c: true, unit: TimeUnit::MICROS };
            (Physical::INT64, Some(logical), 0)
        }
        ColumnType::Date => (Physical::INT32, Some(LogicalType::Date), 0),
        ColumnType::Time => {
            let logical = LogicalType::Time { is_adjusted_to_u_t_c: false, unit: TimeUnit::MICROS };
            (Physical::INT64, Some(logical), 0)
        }
        ColumnType::Uuid => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid), WIDE_BYTES),
        ColumnType::Decimal(Some(size)) => return decimal(name, size, how),
        ColumnType::Text
        | ColumnType::Json
        | ColumnType::Inet
        | ColumnType::Decimal(None)
        | ColumnType::Array(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), 0),
    };
    let column = Type::primitive_type_builder(name, physical).with_repetition(how.0).with_id(how.1);
    let width = i32::try_from(width).unwrap_or_default();
    Ok(Arc::new(column.with_logical_type(logical).with_length(width).build()?))
}

fn decimal(name: &str, size: DecimalSize, how: (Repetition, Option<i32>)) -> Result<TypePtr> {
    let (precision, scale) = (i32::from(size.precision()), i32::from(size.scale()));
    let (physical, width) = match size.precision() <= INT_DIGITS_MAX {
        true => (Physical::INT64, 0),
        false => (Physical::FIXED_LEN_BYTE_ARRAY, i32::try_from(WIDE_BYTES).unwrap_or_default()),
    };
    let column = Type::primitive_type_builder(name, physical).with_repetition(how.0).with_id(how.1);
    let column = column.with_logical_type(Some(LogicalType::Decimal { scale, precision }));
    Ok(Arc::new(column.with_length(width).with_precision(precision).with_scale(scale).build()?))
}

/// Returns why a file cannot have a value, with the name of the column.
pub fn unfit(schema: &Schema, values: &[Value<'_>]) -> Option<String> {
    schema.columns().iter().zip(values).find_map(|(column, value)| {
        let ColumnType::Decimal(Some(size)) = column.kind.scalar() else { return None };
        let is_fit = |value: &Value<'_>| match value {
            Value::Decimal(value) => value.with_size(size).is_some(),
            _ => true,
        };
        let is_fit = match value {
            Value::Array(array) => array.elements().all(|value| is_fit(&value)),
            value => is_fit(value),
        };
        (!is_fit)
            .then(|| format!("column {:?} takes {}, the value has more digits", column.name, column.kind))
    })
}

#[cfg(test)]
mod tests {
    use tollgate_log::{Column, ColumnOrigin};

    use super::*;
    use crate::names::{RESERVED_IN_FILES, RESERVED_IN_TABLES};
    use crate::partition::Partition;

    #[test]
    fn each_name_that_a_file_or_a_table_adds_is_reserved() {
        let column = |name: &str, kind, origin| Column { name: name.to_owned(), kind, origin };
        let columns = vec![
            column("n", ColumnType::Int, ColumnOrigin::Stored),
            column("(key)", ColumnType::Bytes, ColumnOrigin::Key { window_ms: 1 }),
        ];
        let columns = table_columns(&Schema::new("visits", columns).unwrap());
        let mut names: Vec<_> = columns.into_iter().map(|column| column.name).collect();
        for partition in [Partition::None, Partition::Day, Partition::Month] {
            let fields = partition.to_fields(&0.into()).into_iter();
            names.extend(fields.map(|field| field["name"].as_str().unwrap().to_owned()));
        }
        let reserved: Vec<_> = RESERVED_IN_FILES.into_iter().chain(RESERVED_IN_TABLES).collect();
        assert_eq!(names, ["n", "_key", "_log", "_seq", "_time", "_time_day", "_time_month"]);
        assert!(names.iter().skip(1).all(|name| reserved.contains(&name.as_str())), "{names:?}");
    }
}

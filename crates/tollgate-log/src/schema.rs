//! The schema of a stream: its columns. The log stores a schema as a record.

use std::time::Duration;

use crate::column_type::ColumnType;
use crate::error::FormatError;
use crate::reader::{Reader, utf8};

/// Maximum bytes of the name of a stream or column. PostgreSQL truncates longer identifiers.
const NAME_BYTES_MAX: usize = 63;
/// Maximum number of columns of a stream. A table has at most 2,000 columns in SQLite by default, and at most
/// 1,600 in PostgreSQL.
const COLUMNS_MAX: usize = 1_000;
const KEY_NUMBER: u8 = 3;

/// Maximum number of schemas of a log. The number is bounded because a reader keeps all schemas in memory,
/// and a sink makes a table for each stream.
pub const SCHEMAS_MAX: usize = 4_096;
/// Maximum number of schemas that the records of one batch use. A sink locks the tables of all of them in one
/// transaction.
pub const BATCH_SCHEMAS_MAX: usize = 1_024;

/// Number of a schema in its log. The first schema has the number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemaId(pub u16);

impl SchemaId {
    /// Returns the bit of this schema in the mask of a batch header.
    pub const fn mask(self) -> u64 {
        1 << (self.0 % 64)
    }
}

/// Source of a column's value when a row is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnOrigin {
    /// The value is stored in the row.
    Stored,
    /// The value is the id of the log (type uuid).
    LogId,
    /// The value is the record's sequence number (type int).
    Sequence,
    /// The value is stored in the row, only for the loader (type bytes). Retries of a request have the same
    /// key. The key is no column of a table.
    Key {
        /// How long a sink remembers the key, in milliseconds.
        window_ms: u64,
    },
}

impl ColumnOrigin {
    /// Returns whether the value is stored in the row.
    pub const fn is_in_row(self) -> bool {
        matches!(self, Self::Stored | Self::Key { .. })
    }

    const fn number(self) -> u8 {
        match self {
            Self::Stored => 0,
            Self::LogId => 1,
            Self::Sequence => 2,
            Self::Key { .. } => KEY_NUMBER,
        }
    }

    fn encode_detail(self, out: &mut Vec<u8>) {
        if let Self::Key { window_ms } = self {
            out.extend_from_slice(&window_ms.to_le_bytes());
        }
    }

    fn decode_detail(number: u8, reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        match number {
            0 => Ok(Self::Stored),
            1 => Ok(Self::LogId),
            2 => Ok(Self::Sequence),
            KEY_NUMBER => Ok(Self::Key { window_ms: u64::from_le_bytes(reader.array()?) }),
            _ => Err(FormatError::Value { what: "column origin", found: number.into(), allowed: "0 to 3" }),
        }
    }
}

/// One column of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    /// Name of the column, 1 to 63 bytes.
    pub name: String,
    /// Type of the column.
    pub kind: ColumnType,
    /// Source of the column's value.
    pub origin: ColumnOrigin,
}

impl Column {
    /// Returns whether this column is the key of the record. The key is no column of a table.
    pub const fn is_key(&self) -> bool {
        matches!(self.origin, ColumnOrigin::Key { .. })
    }
}

/// The columns of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Schema {
    stream: String,
    columns: Vec<Column>,
}

/// Error of a log that has [`SCHEMAS_MAX`] schemas already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this run has declared {SCHEMAS_MAX} schemas, which is the limit: restart the server")]
pub struct TooManySchemas;

/// Why a schema is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A name is empty or too long.
    #[error("name {name:?} has {} bytes, allowed are 1 to {NAME_BYTES_MAX}", name.len())]
    Name {
        /// The refused name.
        name: String,
    },
    /// There are no columns, or too many.
    #[error("stream {stream:?} has {count} columns, allowed are 1 to {COLUMNS_MAX}")]
    ColumnCount {
        /// Name of the stream.
        stream: String,
        /// Number of columns.
        count: usize,
    },
    /// There is more than one key, or a key of another type than bytes.
    #[error("stream {stream:?} has more than one key, or its key has another type than bytes")]
    Key {
        /// Name of the stream.
        stream: String,
    },
    /// Two columns have the same name. The comparison ignores case, because databases do so.
    #[error("stream {stream:?} has two columns named {name:?}")]
    Twice {
        /// Name of the stream.
        stream: String,
        /// The name that two columns have.
        name: String,
    },
}

impl Schema {
    /// Makes the schema of a stream.
    ///
    /// # Errors
    /// A name is invalid, two columns have the same name, the key is invalid, or there are no or too many
    /// columns.
    pub fn new(stream: &str, columns: Vec<Column>) -> Result<Self, SchemaError> {
        check_name(stream)?;
        let count = columns.iter().filter(|column| !column.is_key()).count();
        if count == 0 || count > COLUMNS_MAX {
            return Err(SchemaError::ColumnCount { stream: stream.to_owned(), count });
        }
        if columns.len() > count + 1
            || columns.iter().any(|column| column.is_key() && column.kind != ColumnType::Bytes)
        {
            return Err(SchemaError::Key { stream: stream.to_owned() });
        }
        let mut seen = std::collections::HashSet::new();
        for column in &columns {
            check_name(&column.name)?;
            if !seen.insert(column.name.to_ascii_lowercase()) {
                return Err(SchemaError::Twice { stream: stream.to_owned(), name: column.name.clone() });
            }
        }
        Ok(Self { stream: stream.to_owned(), columns })
    }

    /// Returns the name of the stream.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// Returns all columns, including the key, in the order of the values of a row.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the columns of the table: all except the key.
    pub fn table_columns(&self) -> impl Iterator<Item = &Column> + Clone {
        self.columns.iter().filter(|column| !column.is_key())
    }

    /// Returns the index of the key column, and how long a sink remembers a key. Returns `None` for a stream
    /// without keys.
    pub fn key(&self) -> Option<(usize, Duration)> {
        self.columns.iter().enumerate().find_map(|(place, column)| match column.origin {
            ColumnOrigin::Key { window_ms } => Some((place, Duration::from_millis(window_ms))),
            _ => None,
        })
    }

    pub(crate) fn bitmap_bytes(&self) -> usize {
        self.columns.len().div_ceil(8)
    }

    /// Appends the body of a schema record.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        // The constructor bounds the count and the names, so the casts lose no bits.
        out.extend_from_slice(&(self.columns.len() as u16).to_le_bytes());
        encode_name(&self.stream, out);
        for column in &self.columns {
            out.push(column.kind.number());
            out.push(column.origin.number());
            encode_name(&column.name, out);
            column.origin.encode_detail(out);
            column.kind.encode_detail(out);
        }
    }

    /// Decodes the body of a schema record.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, FormatError> {
        let mut reader = Reader::new("schema", body);
        let count = u16::from_le_bytes(reader.array()?);
        let stream = decode_name(&mut reader)?;
        let mut columns = Vec::with_capacity(usize::from(count).min(COLUMNS_MAX));
        for _ in 0..count {
            let [kind, origin] = reader.array()?;
            let name = decode_name(&mut reader)?;
            let origin = ColumnOrigin::decode_detail(origin, &mut reader)?;
            columns.push(Column { name, kind: ColumnType::decode_detail(kind, &mut reader)?, origin });
        }
        reader.finish("bytes after a schema")?;
        Self::new(&stream, columns).map_err(|_| FormatError::Value {
            what: "schema columns",
            found: count.into(),
            allowed: "1 to 1000 with different names, and at most one key of type bytes",
        })
    }
}

fn check_name(name: &str) -> Result<(), SchemaError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(SchemaError::Name { name: name.to_owned() });
    }
    Ok(())
}

fn encode_name(name: &str, out: &mut Vec<u8>) {
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}

fn decode_name(reader: &mut Reader<'_>) -> Result<String, FormatError> {
    let [length] = reader.array()?;
    utf8("name", reader.take(usize::from(length))?).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, kind: ColumnType) -> Column {
        Column { name: name.to_owned(), kind, origin: ColumnOrigin::Stored }
    }

    #[test]
    fn a_schema_reads_as_it_was_written() {
        let sizes = ["decimal(12,2)", "decimal(38,38)[]"].map(|name| ColumnType::from_name(name).unwrap());
        let kinds = ColumnType::ALL.into_iter().chain(sizes);
        let columns = kinds.map(|kind| column(&kind.name(), kind)).collect();
        let schema = Schema::new("everything", columns).unwrap();
        let mut body = Vec::new();
        schema.encode(&mut body);
        assert_eq!(Schema::decode(&body), Ok(schema));
        for cut in 0..body.len() {
            assert!(Schema::decode(&body[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_type_that_no_writer_writes_is_refused() {
        let check = |kind: &[u8], expect: Option<&str>| {
            // A stream "s" with a column "c".
            let body = [&[1, 0, 1, b's', kind[0], 0, 1, b'c'], &kind[1..]].concat();
            let found = Schema::decode(&body).map(|schema| schema.columns()[0].kind.name());
            match expect {
                Some(name) => assert_eq!(found.unwrap(), name),
                None => assert!(matches!(found, Err(FormatError::Value { .. })), "{kind:?}: {found:?}"),
            }
        };
        check(&[12], Some("time"));
        check(&[10, 12, 2], Some("decimal(12,2)"));
        check(&[10, 0, 0], Some("decimal"));
        check(&[13, 10, 12, 2], Some("decimal(12,2)[]"));
        check(&[13, 2], Some("int[]"));
        for kind in [
            &[0][..],
            &[14],
            &[255],
            &[10, 39, 0],
            &[10, 2, 3],
            &[10, 0, 1],
            &[13, 5],
            &[13, 7],
            &[13, 13],
            &[13, 0],
        ] {
            check(kind, None);
        }
    }

    fn key(kind: ColumnType) -> Column {
        Column { name: "(key)".to_owned(), kind, origin: ColumnOrigin::Key { window_ms: 86_400_000 } }
    }

    #[test]
    fn a_key_is_read_with_its_window_and_is_no_column_of_the_table() {
        let schema = Schema::new("s", vec![column("n", ColumnType::Int), key(ColumnType::Bytes)]).unwrap();
        let mut body = Vec::new();
        schema.encode(&mut body);
        let read = Schema::decode(&body).unwrap();
        assert_eq!(read, schema);
        assert_eq!(read.key(), Some((1, Duration::from_hours(24))));
        assert_eq!(read.table_columns().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["n"]);
        for cut in 0..body.len() {
            assert!(Schema::decode(&body[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_stream_has_one_key_of_bytes_at_most_and_a_column_beside_it() {
        let refused = |columns| matches!(Schema::new("s", columns), Err(SchemaError::Key { .. }));
        let n = || column("n", ColumnType::Int);
        assert!(refused(vec![n(), key(ColumnType::Text)]));
        let other = Column { name: "other".to_owned(), ..key(ColumnType::Bytes) };
        assert!(refused(vec![n(), key(ColumnType::Bytes), other]));
        let alone = Schema::new("s", vec![key(ColumnType::Bytes)]);
        assert!(matches!(alone, Err(SchemaError::ColumnCount { count: 0, .. })));
    }

    #[test]
    fn names_and_counts_are_bounded() {
        let text = |name: &str| column(name, ColumnType::Text);
        assert!(matches!(Schema::new("", vec![text("a")]), Err(SchemaError::Name { .. })));
        assert!(matches!(Schema::new("s", vec![text(&"n".repeat(64))]), Err(SchemaError::Name { .. })));
        assert!(matches!(Schema::new("s", vec![]), Err(SchemaError::ColumnCount { count: 0, .. })));
        assert!(matches!(Schema::new("s", vec![text("a"), text("A")]), Err(SchemaError::Twice { .. })));
    }
}

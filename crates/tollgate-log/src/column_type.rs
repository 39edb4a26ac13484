//! The types of columns: their names in configuration, and their numbers in the log.

use std::borrow::Cow;
use std::fmt;

use tollgate_value::DecimalSize;

use crate::error::FormatError;
use crate::reader::Reader;

/// The suffix of the name of an array.
const ARRAY_SUFFIX: &str = "[]";

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// True or false.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// An IEEE 754 double.
    Float,
    /// UTF-8 text without U+0000.
    Text,
    /// Any bytes.
    Bytes,
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamp,
    /// JSON text (RFC 8259).
    Json,
    /// The 16 bytes of a UUID.
    Uuid,
    /// An IPv4 or IPv6 address.
    Inet,
    /// An exact decimal number. Without a size, each value has its own number of digits after the point.
    Decimal(Option<DecimalSize>),
    /// A date.
    Date,
    /// A time of a day.
    Time,
    /// A list of values of one type. An element may be null.
    Array(ElementType),
}

/// The type of the elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant is the type of columns with the same name")]
pub enum ElementType {
    Bool,
    Int,
    Float,
    Text,
    Timestamp,
    Uuid,
    Inet,
    Decimal(Option<DecimalSize>),
    Date,
    Time,
}

impl ColumnType {
    /// All types, in the order of their numbers. Decimals have no size.
    pub const ALL: [Self; 22] = [
        Self::Bool,
        Self::Int,
        Self::Float,
        Self::Text,
        Self::Bytes,
        Self::Timestamp,
        Self::Json,
        Self::Uuid,
        Self::Inet,
        Self::Decimal(None),
        Self::Date,
        Self::Time,
        Self::Array(ElementType::Bool),
        Self::Array(ElementType::Int),
        Self::Array(ElementType::Float),
        Self::Array(ElementType::Text),
        Self::Array(ElementType::Timestamp),
        Self::Array(ElementType::Uuid),
        Self::Array(ElementType::Inet),
        Self::Array(ElementType::Decimal(None)),
        Self::Array(ElementType::Date),
        Self::Array(ElementType::Time),
    ];

    /// Returns the name in configuration and messages, such as `int`, `decimal(12,2)` and `text[]`.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Decimal(Some(_)) | Self::Array(_) => self.to_string().into(),
            _ => self.word().into(),
        }
    }

    /// Returns the name without size and suffix.
    const fn word(self) -> &'static str {
        match self.scalar() {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Json => "json",
            Self::Uuid => "uuid",
            Self::Inet => "inet",
            Self::Decimal(_) => "decimal",
            Self::Date => "date",
            Self::Time => "time",
            Self::Array(_) => "array",
        }
    }

    /// Returns the type with this name. `decimal(12)` is `decimal(12,0)`, as in SQL.
    pub fn from_name(name: &str) -> Option<Self> {
        if let Some(element) = name.strip_suffix(ARRAY_SUFFIX) {
            return Self::from_name(element)?.as_element().map(Self::Array);
        }
        if let Some(size) = name.strip_prefix("decimal(") {
            let (precision, scale) = match size.strip_suffix(')')?.split_once(',') {
                Some((precision, scale)) => (precision, scale.trim_start().parse().ok()?),
                None => (size.strip_suffix(')')?, 0),
            };
            return DecimalSize::new(precision.parse().ok()?, scale).map(|size| Self::Decimal(Some(size)));
        }
        Self::ALL.into_iter().find(|one| one.word() == name)
    }

    /// Returns the type of the elements if this is an array, otherwise the type itself.
    pub const fn scalar(self) -> Self {
        match self {
            Self::Array(element) => element.column_type(),
            scalar => scalar,
        }
    }

    /// Returns the type without the size of decimals.
    pub const fn without_size(self) -> Self {
        match self {
            Self::Decimal(_) => Self::Decimal(None),
            Self::Array(ElementType::Decimal(_)) => Self::Array(ElementType::Decimal(None)),
            other => other,
        }
    }

    /// Returns the type of elements with values of this type. Returns `None` for bytes, json and arrays.
    pub const fn as_element(self) -> Option<ElementType> {
        Some(match self {
            Self::Bool => ElementType::Bool,
            Self::Int => ElementType::Int,
            Self::Float => ElementType::Float,
            Self::Text => ElementType::Text,
            Self::Timestamp => ElementType::Timestamp,
            Self::Uuid => ElementType::Uuid,
            Self::Inet => ElementType::Inet,
            Self::Decimal(size) => ElementType::Decimal(size),
            Self::Date => ElementType::Date,
            Self::Time => ElementType::Time,
            Self::Bytes | Self::Json | Self::Array(_) => return None,
        })
    }

    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Bool => 1,
            Self::Int => 2,
            Self::Float => 3,
            Self::Text => 4,
            Self::Bytes => 5,
            Self::Timestamp => 6,
            Self::Json => 7,
            Self::Uuid => 8,
            Self::Inet => 9,
            Self::Decimal(_) => 10,
            Self::Date => 11,
            Self::Time => 12,
            Self::Array(_) => 13,
        }
    }

    /// Appends the part of the type that its number does not have.
    pub(crate) fn encode_detail(self, out: &mut Vec<u8>) {
        match self {
            Self::Decimal(size) => {
                out.extend_from_slice(&size.map_or([0, 0], |size| [size.precision(), size.scale()]));
            }
            Self::Array(element) => {
                out.push(element.column_type().number());
                element.column_type().encode_detail(out);
            }
            _ => {}
        }
    }

    /// Reads the part of the type that its number does not have.
    pub(crate) fn decode_detail(number: u8, reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let unknown = |number: u8| FormatError::Value {
            what: "column type",
            found: number.into(),
            allowed: "1 to 13, and for elements none of 5, 7 and 13",
        };
        if number != ARRAY_NUMBER {
            return Self::decode_scalar(number, reader)?.ok_or_else(|| unknown(number));
        }
        let [element] = reader.array()?;
        let scalar = Self::decode_scalar(element, reader)?;
        scalar.and_then(Self::as_element).map(Self::Array).ok_or_else(|| unknown(element))
    }

    /// Reads a type that is no array. Returns `None` for an unknown number.
    fn decode_scalar(number: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, FormatError> {
        let scalar = Self::ALL.into_iter().find(|one| one.number() == number && number != ARRAY_NUMBER);
        let Some(Self::Decimal(_)) = scalar else { return Ok(scalar) };
        Ok(Some(Self::Decimal(match reader.array()? {
            [0, 0] => None,
            [precision, scale] => Some(DecimalSize::new(precision, scale).ok_or(FormatError::Value {
                what: "precision of a decimal",
                found: precision.into(),
                allowed: "1 to 38, with a scale that is not larger",
            })?),
        })))
    }
}

const ARRAY_NUMBER: u8 = 13;

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        if let Self::Decimal(Some(size)) = self.scalar() {
            write!(f, "({size})")?;
        }
        f.write_str(if matches!(self, Self::Array(_)) { ARRAY_SUFFIX } else { "" })
    }
}

impl ElementType {
    /// Returns the type of columns with values of this type.
    pub const fn column_type(self) -> ColumnType {
        match self {
            Self::Bool => ColumnType::Bool,
            Self::Int => ColumnType::Int,
            Self::Float => ColumnType::Float,
            Self::Text => ColumnType::Text,
            Self::Timestamp => ColumnType::Timestamp,
            Self::Uuid => ColumnType::Uuid,
            Self::Inet => ColumnType::Inet,
            Self::Decimal(size) => ColumnType::Decimal(size),
            Self::Date => ColumnType::Date,
            Self::Time => ColumnType::Time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_one_name_that_is_read_back() {
        let sized = |precision, scale| ColumnType::Decimal(DecimalSize::new(precision, scale));
        for (name, kind) in [("decimal(12,2)", sized(12, 2)), ("decimal(38,38)", sized(38, 38))] {
            assert_eq!((ColumnType::from_name(name), &*kind.name()), (Some(kind), name));
        }
        assert_eq!(ColumnType::from_name("decimal(12)"), Some(sized(12, 0)));
        assert_eq!(ColumnType::from_name("decimal(12, 2)"), Some(sized(12, 2)));
        let array = ColumnType::from_name("decimal(5,1)[]").unwrap();
        assert_eq!((array.name().as_ref(), array.scalar()), ("decimal(5,1)[]", sized(5, 1)));
        assert_eq!(array.without_size().name(), "decimal[]");
        for kind in ColumnType::ALL {
            assert_eq!(ColumnType::from_name(&kind.name()), Some(kind));
        }
    }

    #[test]
    fn other_names_are_no_types() {
        for name in [
            "",
            "[]",
            "array",
            "Int",
            "int[][]",
            "bytes[]",
            "json[]",
            "decimal(0,0)",
            "decimal(39)",
            "decimal(2,3)",
            "decimal()",
            "decimal(2",
            "decimal(2,)",
            "decimal(,2)",
            "decimal(2,1,1)",
            "decimal(-1)",
            "int(4)",
        ] {
            assert_eq!(ColumnType::from_name(name), None, "{name}");
        }
    }
}

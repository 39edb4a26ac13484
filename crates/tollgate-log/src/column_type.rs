//! The types of columns: their names in configuration, and their numbers in the log.

use crate::error::FormatError;

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
}

impl ColumnType {
    /// All types, in the order of their numbers from 1.
    pub const ALL: [Self; 9] = [
        Self::Bool,
        Self::Int,
        Self::Float,
        Self::Text,
        Self::Bytes,
        Self::Timestamp,
        Self::Json,
        Self::Uuid,
        Self::Inet,
    ];

    /// Returns the name in configuration and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Json => "json",
            Self::Uuid => "uuid",
            Self::Inet => "inet",
        }
    }

    /// Returns the type with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    pub(crate) const fn number(self) -> u8 {
        self as u8 + 1
    }

    pub(crate) fn from_number(number: u8) -> Result<Self, FormatError> {
        let index = usize::from(number).wrapping_sub(1);
        Self::ALL.get(index).copied().ok_or(FormatError::Value {
            what: "column type",
            found: number.into(),
            allowed: "1 to 9",
        })
    }
}

//! Encodes values of the log in the binary form of COPY, and decodes them.
//!
//! Binary COPY does not convert values: the bytes must have the form of the column's type. So the type of the
//! column decides the form, not the type of the stream. "Made" is the type of a column that the sink creates.
//!
//! | stream | made | also taken | content that is refused |
//! | --- | --- | --- | --- |
//! | bool | boolean | | |
//! | int | bigint | integer, smallint, numeric | what the smaller type does not hold |
//! | float | double precision | real, rounded to the nearest | a finite value that a real does not hold |
//! | text | text | varchar, char, citext, enums | what length or labels do not allow |
//! | bytes | bytea | | |
//! | timestamp | timestamptz | timestamp, as UTC | outside the years 0001 to 9999 |
//! | json | jsonb | json, text | `\u0000` and numbers beyond numeric, in jsonb |
//! | uuid | uuid | | |
//! | inet | inet | | |
//!
//! A domain counts as its base type. jsonb keeps numbers exactly, because it stores them as numeric.
//!
//! Source: the `*_recv` functions of PostgreSQL 15.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{BufMut, BytesMut};
use tollgate_log::{ColumnType, Value};
use tollgate_value::TIMESTAMP_US;

/// The epoch of PostgreSQL's timestamps, 2000-01-01T00:00:00Z, in microseconds since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;
const NUMERIC_BASE: u64 = 10_000;
const NUMERIC_NEGATIVE: u16 = 0x4000;
/// Maximum number of groups of four decimal digits in an integer, because 2^64 has 20 digits.
const NUMERIC_DIGITS_MAX: usize = 5;
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 3;
const JSONB_VERSION: u8 = 1;

/// Binary form of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Bool,
    Int8,
    Int4,
    Int2,
    Numeric,
    Float8,
    Float4,
    Text,
    Bytea,
    Timestamp,
    Json,
    Jsonb,
    Uuid,
    Inet,
}

/// A type of PostgreSQL from its catalog, with domains resolved.
pub(super) struct ServerType<'a> {
    /// Name of the type: `typname`.
    pub(super) name: &'a str,
    /// Whether the type is an enum.
    pub(super) is_enum: bool,
}

impl Wire {
    /// Returns the type of a column that the sink creates.
    pub(super) const fn made(kind: ColumnType) -> &'static str {
        match kind {
            ColumnType::Bool => "boolean",
            ColumnType::Int => "bigint",
            ColumnType::Float => "double precision",
            ColumnType::Text => "text",
            ColumnType::Bytes => "bytea",
            ColumnType::Timestamp => "timestamp with time zone",
            ColumnType::Json => "jsonb",
            ColumnType::Uuid => "uuid",
            ColumnType::Inet => "inet",
        }
    }

    /// Returns the form in which values of a stream's column are encoded for a table's column. Returns `None`
    /// if the types do not fit.
    pub(super) fn between(kind: ColumnType, server: &ServerType<'_>) -> Option<Self> {
        Some(match (kind, server.name) {
            (ColumnType::Bool, "bool") => Self::Bool,
            (ColumnType::Int, "int8") => Self::Int8,
            (ColumnType::Int, "int4") => Self::Int4,
            (ColumnType::Int, "int2") => Self::Int2,
            (ColumnType::Int, "numeric") => Self::Numeric,
            (ColumnType::Float, "float8") => Self::Float8,
            (ColumnType::Float, "float4") => Self::Float4,
            (ColumnType::Text | ColumnType::Json, "text")
            | (ColumnType::Text, "varchar" | "bpchar" | "citext") => Self::Text,
            (ColumnType::Text, _) if server.is_enum => Self::Text,
            (ColumnType::Bytes, "bytea") => Self::Bytea,
            (ColumnType::Timestamp, "timestamptz" | "timestamp") => Self::Timestamp,
            (ColumnType::Json, "jsonb") => Self::Jsonb,
            (ColumnType::Json, "json") => Self::Json,
            (ColumnType::Uuid, "uuid") => Self::Uuid,
            (ColumnType::Inet, "inet") => Self::Inet,
            _ => return None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int8 => "bigint",
            Self::Int4 => "integer",
            Self::Int2 => "smallint",
            Self::Numeric => "numeric",
            Self::Float8 => "double precision",
            Self::Float4 => "real",
            Self::Text => "text",
            Self::Bytea => "bytea",
            Self::Timestamp => "timestamp",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::Uuid => "uuid",
            Self::Inet => "inet",
        }
    }

    /// Appends the length and the bytes of a value.
    ///
    /// # Errors
    /// The column cannot store the value. The caller has to remove the appended bytes.
    pub(super) fn encode(self, value: &Value<'_>, out: &mut BytesMut) -> Result<(), String> {
        if matches!(value, Value::Null) {
            out.put_i32(-1);
            return Ok(());
        }
        let start = out.len();
        out.put_i32(0);
        self.encode_bytes(value, out)?;
        let bytes = i32::try_from(out.len() - start - 4)
            .map_err(|_| format!("value has {} bytes, limit {} bytes", out.len() - start - 4, i32::MAX))?;
        out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
        Ok(())
    }

    fn encode_bytes(self, value: &Value<'_>, out: &mut BytesMut) -> Result<(), String> {
        match (self, value) {
            (Self::Bool, Value::Bool(value)) => out.put_u8(u8::from(*value)),
            (Self::Int8, Value::Int(value)) => out.put_i64(*value),
            (Self::Int4, Value::Int(value)) => out.put_i32(self.narrow(*value)?),
            (Self::Int2, Value::Int(value)) => out.put_i16(self.narrow(*value)?),
            (Self::Numeric, Value::Int(value)) => put_numeric(*value, out),
            (Self::Float8, Value::Float(value)) => out.put_f64(*value),
            (Self::Float4, Value::Float(value)) => out.put_f32(real(*value)?),
            (Self::Text | Self::Json, Value::Text(value) | Value::Json(value)) => {
                out.put_slice(value.as_bytes());
            }
            (Self::Jsonb, Value::Json(value)) => {
                out.put_u8(JSONB_VERSION);
                out.put_slice(value.as_bytes());
            }
            (Self::Bytea, Value::Bytes(value)) => out.put_slice(value),
            (Self::Timestamp, Value::Timestamp(us)) => out.put_i64(timestamp(*us)?),
            (Self::Uuid, Value::Uuid(value)) => out.put_slice(value),
            (Self::Inet, Value::Inet(value)) => put_inet(*value, out),
            _ => return Err(format!("value is {}, the column takes {}", kind_name(value), self.name())),
        }
        Ok(())
    }

    fn narrow<T: TryFrom<i64>>(self, value: i64) -> Result<T, String> {
        T::try_from(value)
            .map_err(|_| format!("integer {value} does not fit a column of type {}", self.name()))
    }

    /// Decodes a value that [`Self::encode`] wrote, without its length. Returns `None` for other bytes.
    pub(super) fn decode<'a>(self, kind: ColumnType, bytes: &'a [u8]) -> Option<Value<'a>> {
        let text = |bytes: &'a [u8]| {
            let text = std::str::from_utf8(bytes).ok()?;
            Some(if kind == ColumnType::Json { Value::Json(text) } else { Value::Text(text) })
        };
        Some(match self {
            Self::Bool => Value::Bool(bytes == [1]),
            Self::Int8 => Value::Int(i64::from_be_bytes(bytes.try_into().ok()?)),
            Self::Int4 => Value::Int(i32::from_be_bytes(bytes.try_into().ok()?).into()),
            Self::Int2 => Value::Int(i16::from_be_bytes(bytes.try_into().ok()?).into()),
            Self::Numeric => Value::Int(numeric(bytes)?),
            Self::Float8 => Value::Float(f64::from_be_bytes(bytes.try_into().ok()?)),
            Self::Float4 => Value::Float(f32::from_be_bytes(bytes.try_into().ok()?).into()),
            Self::Text | Self::Json => return text(bytes),
            Self::Jsonb => return text(bytes.get(1..)?),
            Self::Bytea => Value::Bytes(bytes),
            Self::Timestamp => {
                Value::Timestamp(i64::from_be_bytes(bytes.try_into().ok()?).checked_add(EPOCH_US)?)
            }
            Self::Uuid => Value::Uuid(bytes.try_into().ok()?),
            Self::Inet => Value::Inet(inet(bytes)?),
        })
    }
}

fn kind_name(value: &Value<'_>) -> &'static str {
    value.column_type().map_or("null", ColumnType::name)
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what a real does")]
fn real(value: f64) -> Result<f32, String> {
    let single = value as f32;
    match single.is_infinite() && value.is_finite() {
        true => Err(format!("number {value} does not fit a column of type real")),
        false => Ok(single),
    }
}

fn timestamp(us: i64) -> Result<i64, String> {
    match TIMESTAMP_US.contains(&us) {
        true => Ok(us - EPOCH_US),
        false => {
            Err(format!("timestamp is {us} microseconds since 1970, allowed are the years 0001 to 9999"))
        }
    }
}

/// Appends groups of four decimal digits, the highest first.
fn put_numeric(value: i64, out: &mut BytesMut) {
    let mut digits = [0_u16; NUMERIC_DIGITS_MAX];
    let (mut rest, mut count) = (value.unsigned_abs(), 0);
    while rest > 0 {
        digits[NUMERIC_DIGITS_MAX - 1 - count] = (rest % NUMERIC_BASE) as u16;
        rest /= NUMERIC_BASE;
        count += 1;
    }
    let digits = &digits[NUMERIC_DIGITS_MAX - count..];
    out.put_u16(count as u16);
    out.put_i16(if count > 0 { count as i16 - 1 } else { 0 });
    out.put_u16(if value < 0 { NUMERIC_NEGATIVE } else { 0 });
    out.put_u16(0);
    for digit in digits {
        out.put_u16(*digit);
    }
}

fn numeric(bytes: &[u8]) -> Option<i64> {
    let words: Vec<u16> = bytes.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]])).collect();
    let (head, digits) = words.split_first_chunk::<4>()?;
    let value =
        digits.iter().fold(0_i128, |value, digit| value * i128::from(NUMERIC_BASE) + i128::from(*digit));
    i64::try_from(if head[2] == NUMERIC_NEGATIVE { -value } else { value }).ok()
}

/// Appends an address in the form of `inet`: family, number of network bits, a flag for networks, number of
/// address bytes, and the address.
fn put_inet(address: IpAddr, out: &mut BytesMut) {
    match address {
        IpAddr::V4(address) => {
            out.put_slice(&[FAMILY_V4, 32, 0, 4]);
            out.put_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.put_slice(&[FAMILY_V6, 128, 0, 16]);
            out.put_slice(&address.octets());
        }
    }
}

fn inet(bytes: &[u8]) -> Option<IpAddr> {
    let (head, address) = bytes.split_first_chunk::<4>()?;
    Some(match head[0] {
        FAMILY_V4 => Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?).into(),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).into(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(wire: Wire, kind: ColumnType, value: Value<'_>) {
        let mut out = BytesMut::new();
        wire.encode(&value, &mut out).unwrap();
        let (length, bytes) = out.split_at(4);
        assert_eq!(i32::from_be_bytes(length.try_into().unwrap()), bytes.len() as i32);
        assert_eq!(wire.decode(kind, bytes), Some(value), "{wire:?}");
    }

    fn refused(wire: Wire, value: Value<'_>) -> String {
        wire.encode(&value, &mut BytesMut::new()).unwrap_err()
    }

    #[test]
    fn a_value_that_a_smaller_type_does_not_hold_is_refused() {
        let check = |wire, value, expected| assert_eq!(refused(wire, value), expected);
        check(Wire::Int4, Value::Int(1 << 31), "integer 2147483648 does not fit a column of type integer");
        check(Wire::Int2, Value::Int(-32769), "integer -32769 does not fit a column of type smallint");
        check(
            Wire::Float4,
            Value::Float(-1e39),
            "number -1000000000000000000000000000000000000000 does not fit a column of type real",
        );
        check(
            Wire::Timestamp,
            Value::Timestamp(i64::MIN),
            "timestamp is -9223372036854775808 microseconds since 1970, allowed are the years 0001 to 9999",
        );
        assert!(Wire::Float4.encode(&Value::Float(f64::INFINITY), &mut BytesMut::new()).is_ok());
    }

    #[test]
    fn no_type_is_taken_for_another() {
        let taken = |kind, name| Wire::between(kind, &ServerType { name, is_enum: false });
        assert_eq!(taken(ColumnType::Int, "float8"), None);
        assert_eq!(taken(ColumnType::Text, "int4"), None);
        assert_eq!(taken(ColumnType::Text, "jsonb"), None);
        assert_eq!(taken(ColumnType::Timestamp, "date"), None);
        assert_eq!(taken(ColumnType::Json, "varchar"), None);
        assert_eq!(
            Wire::between(ColumnType::Text, &ServerType { name: "mood", is_enum: true }),
            Some(Wire::Text)
        );
    }

    proptest! {
        #[test]
        fn values_read_back_as_they_were_written(
            int: i64, small: i16, float in prop::num::f64::NORMAL, text: String,
            bytes: Vec<u8>, address: IpAddr, uuid: [u8; 16], us in TIMESTAMP_US,
        ) {
            round_trip(Wire::Int8, ColumnType::Int, Value::Int(int));
            round_trip(Wire::Numeric, ColumnType::Int, Value::Int(int));
            round_trip(Wire::Numeric, ColumnType::Int, Value::Int(small.into()));
            round_trip(Wire::Int4, ColumnType::Int, Value::Int(small.into()));
            round_trip(Wire::Int2, ColumnType::Int, Value::Int(small.into()));
            round_trip(Wire::Float8, ColumnType::Float, Value::Float(float));
            round_trip(Wire::Text, ColumnType::Text, Value::Text(&text));
            round_trip(Wire::Json, ColumnType::Json, Value::Json(&text));
            round_trip(Wire::Jsonb, ColumnType::Json, Value::Json(&text));
            round_trip(Wire::Bytea, ColumnType::Bytes, Value::Bytes(&bytes));
            round_trip(Wire::Timestamp, ColumnType::Timestamp, Value::Timestamp(us));
            round_trip(Wire::Uuid, ColumnType::Uuid, Value::Uuid(uuid));
            round_trip(Wire::Inet, ColumnType::Inet, Value::Inet(address));
        }
    }
}

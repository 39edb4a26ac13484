//! Encodes values of the log in the binary form of COPY, and decodes them.
//!
//! Binary COPY does not convert values: the bytes must have the form of the column's type. So the type of the
//! column decides the form, not the type of the stream. "Made" is the type of a column that the sink creates.
//!
//! | stream | made | also taken | content that is refused |
//! | --- | --- | --- | --- |
//! | bool | boolean | | |
//! | int | bigint | integer, smallint, numeric | what the smaller type does not hold |
//! | decimal | numeric | | digits that the column's precision or scale does not have |
//! | date | date | | |
//! | time | time | | digits that the column's precision does not have |
//! | float | double precision | real, rounded to the nearest | a finite value that a real does not hold |
//! | text | text | varchar, char, citext, enums | what length or labels do not allow |
//! | bytes | bytea | | |
//! | timestamp | timestamptz | timestamp, as UTC | outside the years 0001 to 9999 |
//! | json | jsonb | json, text | `\u0000` and numbers beyond numeric, in jsonb |
//! | uuid | uuid | | |
//! | inet | inet | | |
//!
//! A domain counts as its base type. PostgreSQL would round a number or a time to the digits of its column,
//! so the sink refuses a value that has more. jsonb keeps numbers exactly, because it stores them as numeric.
//!
//! Source: the `*_recv` functions of PostgreSQL 15.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{BufMut, BytesMut};
use tollgate_log::{ColumnType, Value};
use tollgate_value::{Date, TIMESTAMP_US, TimeOfDay};

use super::numeric::{integer, numeric, put_numeric};

/// The epoch of PostgreSQL's timestamps, 2000-01-01T00:00:00Z, in microseconds since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;
/// The epoch of PostgreSQL's dates, 2000-01-01, in days since 1970-01-01.
const EPOCH_DAYS: i32 = 10_957;
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
    /// A number. With a scale, the column has only this number of digits after the point.
    Numeric(Option<i32>),
    Float8,
    Float4,
    Text,
    Bytea,
    Timestamp,
    Json,
    Jsonb,
    Uuid,
    Inet,
    Date,
    /// A time of a day. With a precision, the column has only this number of digits after the second.
    Time(Option<u32>),
}

/// A type of PostgreSQL from its catalog, with domains resolved.
pub(super) struct ServerType<'a> {
    /// Name of the type: `typname`.
    pub(super) name: &'a str,
    /// Whether the type is an enum.
    pub(super) is_enum: bool,
    /// The modifier of the column: `atttypmod`. Negative if there is none.
    pub(super) modifier: i32,
}

impl ServerType<'_> {
    /// Returns the scale of a numeric. Source: `numeric_typmod_scale` of PostgreSQL 15. The same bits have
    /// this meaning in earlier versions.
    fn numeric_scale(&self) -> Option<i32> {
        (self.modifier >= 4).then(|| (((self.modifier - 4) & 0x7ff) ^ 0x400) - 0x400)
    }

    /// Returns the number of digits after the second of a time.
    fn time_precision(&self) -> Option<u32> {
        u32::try_from(self.modifier).ok().filter(|digits| *digits < TIME_DIGITS)
    }
}

/// Number of digits after the second of a time without a precision.
const TIME_DIGITS: u32 = 6;

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
            ColumnType::Decimal(_) => "numeric",
            ColumnType::Date => "date",
            ColumnType::Time => "time without time zone",
            ColumnType::Array(_) => "anyarray",
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
            (ColumnType::Int | ColumnType::Decimal(_), "numeric") => Self::Numeric(server.numeric_scale()),
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
            (ColumnType::Date, "date") => Self::Date,
            (ColumnType::Time, "time") => Self::Time(server.time_precision()),
            _ => return None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int8 => "bigint",
            Self::Int4 => "integer",
            Self::Int2 => "smallint",
            Self::Numeric(_) => "numeric",
            Self::Float8 => "double precision",
            Self::Float4 => "real",
            Self::Text => "text",
            Self::Bytea => "bytea",
            Self::Timestamp => "timestamp",
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::Uuid => "uuid",
            Self::Inet => "inet",
            Self::Date => "date",
            Self::Time(_) => "time",
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
        put_sized(out, |out| self.encode_bytes(value, out))
    }

    fn encode_bytes(self, value: &Value<'_>, out: &mut BytesMut) -> Result<(), String> {
        match (self, value) {
            (Self::Bool, Value::Bool(value)) => out.put_u8(u8::from(*value)),
            (Self::Int8, Value::Int(value)) => out.put_i64(*value),
            (Self::Int4, Value::Int(value)) => out.put_i32(self.narrow(*value)?),
            (Self::Int2, Value::Int(value)) => out.put_i16(self.narrow(*value)?),
            (Self::Numeric(scale), Value::Int(value)) => put_numeric((*value).into(), scale, out)?,
            (Self::Numeric(scale), Value::Decimal(value)) => put_numeric(*value, scale, out)?,
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
            (Self::Date, Value::Date(value)) => out.put_i32(value.days() - EPOCH_DAYS),
            (Self::Time(digits), Value::Time(value)) => out.put_i64(time(*value, digits)?),
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
            Self::Numeric(_) if kind == ColumnType::Int => Value::Int(integer(bytes)?),
            Self::Numeric(_) => Value::Decimal(numeric(bytes)?),
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
            Self::Date => Value::Date(Date::from_days(
                i32::from_be_bytes(bytes.try_into().ok()?).checked_add(EPOCH_DAYS)?,
            )?),
            Self::Time(_) => {
                Value::Time(TimeOfDay::from_microseconds(i64::from_be_bytes(bytes.try_into().ok()?))?)
            }
        })
    }
}

/// Appends the length of what `put` appends, and its bytes.
pub(super) fn put_sized(
    out: &mut BytesMut,
    put: impl FnOnce(&mut BytesMut) -> Result<(), String>,
) -> Result<(), String> {
    let start = out.len();
    out.put_i32(0);
    put(out)?;
    let bytes = i32::try_from(out.len() - start - 4)
        .map_err(|_| format!("value has {} bytes, limit {} bytes", out.len() - start - 4, i32::MAX))?;
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
    Ok(())
}

fn kind_name(value: &Value<'_>) -> Cow<'static, str> {
    value.column_type().map_or("null".into(), ColumnType::name)
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

/// Returns a time in microseconds. Refuses digits that PostgreSQL would round away.
fn time(value: TimeOfDay, digits: Option<u32>) -> Result<i64, String> {
    let us = value.microseconds();
    match digits {
        Some(digits) if us % 10_i64.pow(TIME_DIGITS - digits) != 0 => {
            Err(format!("time {value} has more digits than a column of type time({digits})"))
        }
        _ => Ok(us),
    }
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
mod tests;

//! Binary forms: values read back, and values that a column does not hold.

use proptest::prelude::*;

use tollgate_log::ElementType;
use tollgate_value::Decimal;

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
    let taken = |kind, name| Wire::between(kind, &ServerType { name, is_enum: false, modifier: -1 });
    assert_eq!(taken(ColumnType::Int, "float8"), None);
    assert_eq!(taken(ColumnType::Text, "int4"), None);
    assert_eq!(taken(ColumnType::Text, "jsonb"), None);
    assert_eq!(taken(ColumnType::Timestamp, "date"), None);
    assert_eq!(taken(ColumnType::Json, "varchar"), None);
    assert_eq!(taken(ColumnType::Decimal(None), "float8"), None);
    assert_eq!(taken(ColumnType::Decimal(None), "int8"), None);
    assert_eq!(taken(ColumnType::Decimal(None), "money"), None);
    assert_eq!(taken(ColumnType::Date, "timestamptz"), None);
    assert_eq!(taken(ColumnType::Time, "timetz"), None);
    assert_eq!(taken(ColumnType::Array(ElementType::Int), "_int8"), None);
    assert_eq!(
        Wire::between(ColumnType::Text, &ServerType { name: "mood", is_enum: true, modifier: -1 }),
        Some(Wire::Text)
    );
}

#[test]
fn a_value_that_the_server_would_round_is_refused() {
    let numeric = |modifier| {
        Wire::between(ColumnType::Decimal(None), &ServerType { name: "numeric", is_enum: false, modifier })
            .unwrap()
    };
    let put =
        |wire: Wire, text| wire.encode(&Value::Decimal(Decimal::parse(text).unwrap()), &mut BytesMut::new());
    // numeric(10,2)
    let money = numeric((10 << 16) + 2 + 4);
    assert_eq!(money, Wire::Numeric(Some(2)));
    assert!(put(money, "1.500").is_ok() && put(money, "123456789012").is_ok());
    let reason = put(money, "1.505").unwrap_err();
    assert_eq!(reason, "number 1.505 has more digits than a column of type numeric with the scale 2");
    // numeric(5,-2)
    let hundreds = numeric((5 << 16) + (0x7ff & -2) + 4);
    assert_eq!(hundreds, Wire::Numeric(Some(-2)));
    assert!(put(hundreds, "12300.00").is_ok() && put(hundreds, "12350").is_err());
    assert!(hundreds.encode(&Value::Int(12_345), &mut BytesMut::new()).is_err());

    let time = |modifier| {
        Wire::between(ColumnType::Time, &ServerType { name: "time", is_enum: false, modifier }).unwrap()
    };
    let put =
        |wire: Wire, text| wire.encode(&Value::Time(TimeOfDay::parse(text).unwrap()), &mut BytesMut::new());
    assert!(put(time(3), "10:00:00.125").is_ok() && put(time(-1), "10:00:00.123456").is_ok());
    assert!(put(time(6), "10:00:00.123456").is_ok());
    let reason = put(time(0), "23:59:59.9").unwrap_err();
    assert_eq!(reason, "time 23:59:59.9 has more digits than a column of type time(0)");
}

proptest! {
    #[test]
    fn values_read_back_as_they_were_written(
        int: i64, small: i16, float in prop::num::f64::NORMAL, text: String,
        bytes: Vec<u8>, address: IpAddr, uuid: [u8; 16], us in TIMESTAMP_US,
        days in Date::FIRST.days()..=Date::LAST.days(), of_day in 0..=TimeOfDay::LAST.microseconds(),
    ) {
        round_trip(Wire::Int8, ColumnType::Int, Value::Int(int));
        round_trip(Wire::Numeric(None), ColumnType::Int, Value::Int(int));
        round_trip(Wire::Numeric(None), ColumnType::Int, Value::Int(small.into()));
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
        round_trip(Wire::Date, ColumnType::Date, Value::Date(Date::from_days(days).unwrap()));
        let time = TimeOfDay::from_microseconds(of_day).unwrap();
        round_trip(Wire::Time(None), ColumnType::Time, Value::Time(time));
    }
}

//! The forms of arrays, and the array types of tables.

use tollgate_log::ElementType;
use tollgate_value::Decimal;

use super::*;

const TEXT_OID: u32 = 25;

fn array(element: ElementType, values: &[Value<'_>]) -> OwnedArray {
    let mut buffer = ArrayBuffer::new(element);
    values.iter().for_each(|value| buffer.push(*value).unwrap());
    buffer.finish()
}

fn round_trip(element: Wire, kind: ElementType, values: &[Value<'_>]) -> Vec<u8> {
    let array = array(kind, values);
    let wire = ColumnWire::Array { element, oid: TEXT_OID };
    let mut out = BytesMut::new();
    wire.encode(&array.value(), &mut out).unwrap();
    let decoded = wire.decode(ColumnType::Array(kind), &out[4..]).unwrap();
    assert_eq!(decoded.value(), array.value(), "{wire:?}");
    out.to_vec()
}

#[test]
fn an_array_has_the_bytes_of_array_recv() {
    let bytes = round_trip(Wire::Text, ElementType::Text, &[Value::Text("ab"), Value::Null]);
    let words: [&[u8]; 9] = [
        &30_i32.to_be_bytes(),
        &1_i32.to_be_bytes(),
        &1_i32.to_be_bytes(),
        &TEXT_OID.to_be_bytes(),
        &2_i32.to_be_bytes(),
        &1_i32.to_be_bytes(),
        &2_i32.to_be_bytes(),
        b"ab",
        &(-1_i32).to_be_bytes(),
    ];
    assert_eq!(bytes, words.concat());
    let empty = round_trip(Wire::Text, ElementType::Text, &[]);
    assert_eq!(empty, [12_i32, 0, 0, TEXT_OID as i32].map(i32::to_be_bytes).concat());
}

#[test]
fn arrays_read_back_as_they_were_written() {
    round_trip(Wire::Int2, ElementType::Int, &[Value::Int(-5), Value::Int(i16::MAX.into())]);
    let price = Value::Decimal(Decimal::parse("-12.50").unwrap());
    round_trip(Wire::Numeric(None), ElementType::Decimal(None), &[price, Value::Null, price]);
    round_trip(Wire::Uuid, ElementType::Uuid, &[Value::Null]);
}

#[test]
fn an_element_that_the_column_does_not_hold_is_named() {
    let array = array(ElementType::Int, &[Value::Int(1), Value::Int(1 << 40)]);
    let wire = ColumnWire::Array { element: Wire::Int4, oid: 23 };
    let reason = wire.encode(&array.value(), &mut BytesMut::new()).unwrap_err();
    assert_eq!(reason, "element 2: integer 1099511627776 does not fit a column of type integer");
}

#[test]
fn an_array_fits_only_an_array_whose_elements_fit() {
    let server = |name| ServerType { name, is_enum: false, modifier: -1 };
    let between = |kind: &str, element: Option<&'static str>| {
        let element = element.map(|name| (7, server(name)));
        let found = ColumnWire::between(
            ColumnType::from_name(kind).unwrap(),
            &ServerColumnType { own: server("_any"), element },
        );
        found.is_some()
    };
    assert!(between("int[]", Some("int4")));
    assert!(between("text[]", Some("varchar")));
    assert!(between("decimal(5,2)[]", Some("numeric")));
    assert!(between("timestamp[]", Some("timestamptz")));
    assert!(!between("int[]", Some("text")));
    assert!(!between("int[]", None));
    assert!(!between("int", Some("int4")));
    assert!(!between("json", Some("json")));
}

#[test]
fn the_type_of_a_made_column_is_that_of_postgresql() {
    let check =
        |kind: &str, expect| assert_eq!(ColumnWire::made(ColumnType::from_name(kind).unwrap()), expect);
    check("int", "bigint");
    check("decimal", "numeric");
    check("decimal(12,2)", "numeric(12,2)");
    check("date", "date");
    check("time", "time without time zone");
    check("timestamp[]", "timestamp with time zone[]");
    check("decimal(12,2)[]", "numeric(12,2)[]");
}

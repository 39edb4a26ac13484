//! Tests of values of all types, with the smallest and largest values.

use tollgate_log::{ArrayBuffer, ElementType, OwnedArray};
use tollgate_value::{Date, Decimal, TimeOfDay};

use super::tables::stop_reason;
use super::*;

/// The types that are no arrays.
const SCALARS: &[ColumnType] = ColumnType::ALL.split_at(12).0;

fn everything() -> Schema {
    let columns = SCALARS.iter().map(|kind| column(&kind.name(), *kind)).collect();
    Schema::new("everything", columns).unwrap()
}

#[test]
fn all_types_arrive_with_their_extremes() {
    let site = Site::new();
    let id = *b"\x01\x92\xab\xcd\xef\x01\x70\x00\x80\x00\x00\x00\x00\x00\x00\xff";
    let rows: [[Value<'_>; 12]; 3] = [
        [
            Value::Bool(true),
            Value::Int(i64::MIN),
            Value::Float(f64::INFINITY),
            Value::Text(""),
            Value::Bytes(b"\0\xff"),
            Value::Timestamp(1_795_255_200_123_456),
            Value::Json("{\"a\":1}"),
            Value::Uuid(id),
            Value::Inet("192.0.2.1".parse().unwrap()),
            decimal("-99999999999999999999999999999999999999"),
            Value::Date(Date::LAST),
            Value::Time(TimeOfDay::LAST),
        ],
        [
            Value::Bool(false),
            Value::Int(i64::MAX),
            Value::Float(f64::NAN),
            Value::Text("0123"),
            Value::Bytes(b""),
            Value::Timestamp(-1),
            Value::Json("1e3"),
            Value::Uuid([0; 16]),
            Value::Inet("2001:db8::1".parse().unwrap()),
            decimal("0.10"),
            Value::Date(Date::FIRST),
            Value::Time(TimeOfDay::from_microseconds(0).unwrap()),
        ],
        [Value::Null; 12],
    ];
    site.write(vec![everything()], 4 << 10, |appender| {
        for values in &rows {
            row(appender, values);
        }
    });
    assert_eq!(site.load().rows, 3);
    let shown = |n: i64| {
        let quoted = |kind: &ColumnType| format!("quote(\"{}\")", kind.name());
        let columns = SCALARS.iter().map(quoted).collect::<Vec<_>>().join(" || ' ' || ");
        site.ask::<String>(&format!("SELECT {columns} FROM everything WHERE rowid = {n}"))
    };
    assert_eq!(
        shown(1),
        "1 -9223372036854775808 9.0e+999 '' X'00FF' '2026-11-21T10:00:00.123456Z' '{\"a\":1}' \
         '0192abcd-ef01-7000-8000-0000000000ff' '192.0.2.1' '-99999999999999999999999999999999999999' \
         '9999-12-31' '23:59:59.999999'"
    );
    assert_eq!(
        shown(2),
        "0 9223372036854775807 NULL '0123' X'' '1969-12-31T23:59:59.999999Z' '1e3' \
         '00000000-0000-0000-0000-000000000000' '2001:db8::1' '0.10' '0001-01-01' '00:00:00'"
    );
    assert_eq!(shown(3), ["NULL"; 12].join(" "));
    assert_eq!(site.ask::<String>("SELECT strftime('%H:%M', timestamp) FROM everything"), "10:00");
}

#[test]
fn a_timestamp_that_has_no_text_is_a_reject() {
    let site = Site::new();
    let mut values = [Value::Null; 12];
    values[5] = Value::Timestamp(i64::MAX);
    site.write(vec![everything()], 4 << 10, |appender| row(appender, &values));
    assert_eq!((site.load().rejects, site.ask::<i64>("SELECT count(*) FROM everything")), (1, 0));
    assert!(site.ask::<String>("SELECT reason FROM tollgate_rejects").contains("years 0001 to 9999"));
}

fn decimal(text: &str) -> Value<'static> {
    Value::Decimal(Decimal::parse(text).unwrap())
}

pub(super) fn array(element: ElementType, values: &[Value<'_>]) -> OwnedArray {
    let mut buffer = ArrayBuffer::new(element);
    values.iter().for_each(|value| buffer.push(*value).unwrap());
    buffer.finish()
}

#[test]
fn arrays_are_lists_of_json() {
    let site = Site::new();
    let columns = ["int[]", "text[]", "decimal[]", "float[]", "date[]"];
    let columns = columns.map(|name| column(name, ColumnType::from_name(name).unwrap()));
    let schema = Schema::new("lists", columns.to_vec()).unwrap();
    let arrays = [
        array(ElementType::Int, &[Value::Int(i64::MIN), Value::Null]),
        array(ElementType::Text, &[Value::Text("a\"b"), Value::Text("")]),
        array(ElementType::Decimal(None), &[decimal("12345678901234567890.10")]),
        array(ElementType::Float, &[Value::Float(0.5), Value::Float(f64::NAN)]),
        array(ElementType::Date, &[]),
    ];
    let values = arrays.each_ref().map(OwnedArray::value);
    site.write(vec![schema], 4 << 10, |appender| row(appender, &values));
    assert_eq!(site.load().rows, 1);
    let shown = columns.each_ref().map(|column| format!("\"{}\"", column.name)).join(" || ' ' || ");
    assert_eq!(
        site.ask::<String>(&format!("SELECT {shown} FROM lists")),
        r#"[-9223372036854775808,null] ["a\"b",""] ["12345678901234567890.10"] [0.5,"NaN"] []"#
    );
    assert_eq!(site.ask::<i64>("SELECT count(*) FROM lists, json_each(\"int[]\")"), 2);
}

#[test]
fn the_size_of_a_decimal_may_change_and_its_type_may_not() {
    let site = Site::new();
    let write = |kind: &str, value: Value<'_>| {
        let columns = vec![column("price", ColumnType::from_name(kind).unwrap())];
        site.write(vec![Schema::new("prices", columns).unwrap()], 4 << 10, |appender| {
            row(appender, &[value])
        });
    };
    write("decimal(5,2)", decimal("1.50"));
    assert_eq!(site.load().rows, 1);
    write("decimal", decimal("1.234"));
    assert_eq!(site.load().rows, 1);
    assert_eq!(site.ask::<String>("SELECT group_concat(price, ' ') FROM prices"), "1.50 1.234");
    write("text", Value::Text("x"));
    let reason = stop_reason(&site);
    assert!(
        reason.contains("column \"price\" of table \"prices\" is decimal, the stream has text"),
        "{reason}"
    );
}

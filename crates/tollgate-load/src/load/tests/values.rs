//! Tests of values of all types, with the smallest and largest values.

use super::*;

pub(super) fn everything() -> Schema {
    let columns = ColumnType::ALL.iter().map(|kind| column(kind.name(), *kind)).collect();
    Schema::new("everything", columns).unwrap()
}

#[test]
fn all_types_arrive_with_their_extremes() {
    let site = Site::new();
    let id = *b"\x01\x92\xab\xcd\xef\x01\x70\x00\x80\x00\x00\x00\x00\x00\x00\xff";
    let rows: [[Value<'_>; 9]; 3] = [
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
        ],
        [Value::Null; 9],
    ];
    site.write(vec![everything()], 4 << 10, |appender| {
        for values in &rows {
            row(appender, values);
        }
    });
    assert_eq!(site.load().rows, 3);
    let shown = |n: i64| {
        let columns = ColumnType::ALL.map(|kind| format!("quote(\"{}\")", kind.name())).join(" || ' ' || ");
        site.ask::<String>(&format!("SELECT {columns} FROM everything WHERE rowid = {n}"))
    };
    assert_eq!(
        shown(1),
        "1 -9223372036854775808 9.0e+999 '' X'00FF' '2026-11-21T10:00:00.123456Z' '{\"a\":1}' \
         '0192abcd-ef01-7000-8000-0000000000ff' '192.0.2.1'"
    );
    assert_eq!(
        shown(2),
        "0 9223372036854775807 NULL '0123' X'' '1969-12-31T23:59:59.999999Z' '1e3' \
         '00000000-0000-0000-0000-000000000000' '2001:db8::1'"
    );
    assert_eq!(shown(3), ["NULL"; 9].join(" "));
    assert_eq!(site.ask::<String>("SELECT strftime('%H:%M', timestamp) FROM everything"), "10:00");
}

#[test]
fn a_timestamp_that_has_no_text_is_a_reject() {
    let site = Site::new();
    let mut values = [Value::Null; 9];
    values[5] = Value::Timestamp(i64::MAX);
    site.write(vec![everything()], 4 << 10, |appender| row(appender, &values));
    assert_eq!((site.load().rejects, site.ask::<i64>("SELECT count(*) FROM everything")), (1, 0));
    assert!(site.ask::<String>("SELECT reason FROM tollgate_rejects").contains("years 0001 to 9999"));
}

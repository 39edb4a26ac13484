//! DuckDB and pyarrow read the files: types, values and counts.

use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};
use tollgate_log::{ArrayBuffer, Column, ColumnOrigin, ColumnType, ElementType, Schema, SchemaId, Value};
use tollgate_value::{Date, Decimal, DecimalSize, TimeOfDay};

use crate::logs::{add, column, hand_over};
use crate::site::Site;

/// The folder into which `make lake-readers` installs DuckDB, pyarrow and pyiceberg.
const READERS: &str = "../../target/tools/lake-readers-3";

/// Reads a table of the lake with DuckDB and pyarrow.
fn read(site: &Site, table: &str) -> Json {
    python("read.py", &[site.lake().display().to_string(), table.to_owned()])
}

/// Runs a script that reads tables, and returns what it prints.
pub(crate) fn python(script: &str, arguments: &[String]) -> Json {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readers = std::env::var_os("TOLLGATE_LAKE_READERS").map_or_else(|| here.join(READERS), Into::into);
    assert!(readers.is_dir(), "{} is missing: run `make lake-readers`, which installs it", readers.display());
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", readers).arg(here.join("tests/lake").join(script)).args(arguments);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn sized(precision: u8, scale: u8) -> ColumnType {
    ColumnType::Decimal(DecimalSize::new(precision, scale))
}

/// Writes a row of the stream `all` with a value of each type, and a row of nulls. Returns the number of
/// columns.
pub(crate) fn write_types(site: &Site) -> usize {
    let key = Column {
        name: "(key)".to_owned(),
        kind: ColumnType::Bytes,
        origin: ColumnOrigin::Key { window_ms: 1_000 },
    };
    let columns = vec![
        column("bool", ColumnType::Bool),
        column("int", ColumnType::Int),
        column("float", ColumnType::Float),
        column("text", ColumnType::Text),
        column("bytes", ColumnType::Bytes),
        column("timestamp", ColumnType::Timestamp),
        column("json", ColumnType::Json),
        column("uuid", ColumnType::Uuid),
        column("inet", ColumnType::Inet),
        column("decimal", ColumnType::Decimal(None)),
        column("small", sized(12, 2)),
        column("wide", sized(38, 4)),
        column("date", ColumnType::Date),
        column("time", ColumnType::Time),
        column("ints", ColumnType::Array(ElementType::Int)),
        column("texts", ColumnType::Array(ElementType::Text)),
        key,
    ];
    let count = columns.len();
    let log = site.open_log(&[Schema::new("all", columns).unwrap()]);
    let mut appender = log.appender(|| {});
    let mut ints = ArrayBuffer::new(ElementType::Int);
    for value in [Value::Int(1), Value::Null, Value::Int(-3)] {
        ints.push(value).unwrap();
    }
    let (ints, texts) = (ints.finish(), ArrayBuffer::new(ElementType::Text).finish());
    let decimal = |text| Value::Decimal(Decimal::parse(text).unwrap());
    let values = [
        Value::Bool(true),
        Value::Int(i64::MIN),
        Value::Float(-0.5),
        Value::Text("ä\n\""),
        Value::Bytes(&[0, 255]),
        Value::Timestamp(1_700_000_000_123_456),
        Value::Json("{\"a\":[1]}"),
        Value::Uuid([0x11; 16]),
        Value::Inet("2001:db8::1".parse().unwrap()),
        decimal("1.50"),
        decimal("-12.30"),
        decimal("12345678901234567890123.4567"),
        Value::Date(Date::parse("2026-11-27").unwrap()),
        Value::Time(TimeOfDay::parse("12:34:56.789").unwrap()),
        ints.value(),
        texts.value(),
        Value::Bytes(b"key"),
    ];
    add(&mut appender, SchemaId(0), &values);
    add(&mut appender, SchemaId(0), &vec![Value::Null; count]);
    hand_over(&mut appender);
    drop(appender);
    log.close().unwrap();
    count
}

/// Checks both rows of the stream `all`, as texts.
pub(crate) fn check_types(rows: &Json, count: usize) {
    let texts = [
        "true",
        "-9223372036854775808",
        "-0.5",
        "ä\n\"",
        "\\x00\\xFF",
        "2023-11-14 22:13:20.123456+00",
        "{\"a\":[1]}",
        "11111111-1111-1111-1111-111111111111",
        "2001:db8::1",
        "1.50",
        "-12.30",
        "12345678901234567890123.4567",
        "2026-11-27",
        "12:34:56.789",
        "[1, NULL, -3]",
        "[]",
        "key",
        "1",
    ];
    assert_eq!(rows[0], json!(texts));
    let mut nulls = vec![Json::Null; count];
    nulls.push(json!("2"));
    assert_eq!(rows[1], json!(nulls));
}

#[test]
fn other_engines_read_each_type_with_its_value() {
    let site = Site::new();
    let count = write_types(&site);
    assert_eq!(site.load().rows, 2);
    let found = read(&site, "all");
    assert_eq!(
        found["types"],
        json!({
            "bool": "BOOLEAN", "int": "BIGINT", "float": "DOUBLE", "text": "VARCHAR", "bytes": "BLOB",
            "timestamp": "TIMESTAMP WITH TIME ZONE", "json": "VARCHAR", "uuid": "UUID", "inet": "VARCHAR",
            "decimal": "VARCHAR", "small": "DECIMAL(12,2)", "wide": "DECIMAL(38,4)", "date": "DATE",
            "time": "TIME", "ints": "BIGINT[]", "texts": "VARCHAR[]", "_key": "BLOB", "_log": "UUID",
            "_seq": "BIGINT", "day": "DATE",
        })
    );
    check_types(&found["rows"], count);
    assert_eq!((&found["count"], &found["arrow_count"]), (&json!(["2", "2"]), &json!(2)));
    let arrow = &found["arrow_types"];
    assert_eq!(arrow["timestamp"], json!("timestamp[us, tz=UTC]"));
    assert_eq!((&arrow["small"], &arrow["wide"]), (&json!("decimal128(12, 2)"), &json!("decimal128(38, 4)")));
    assert_eq!(arrow["_seq"], json!("int64"));
    assert_eq!((&found["created_by"], &found["compression"]), (&json!("tollgate 1"), &json!("ZSTD")));
    assert_eq!(found["has_page_index"], json!(true));
    assert_eq!(found["bloom"], json!([["_key"], ["uuid"]]));
}

#[test]
fn other_engines_count_each_record_of_many_files_once() {
    let site = Site::new();
    site.write(500);
    site.write(300);
    assert_eq!(site.load().rows, 800);
    let found = read(&site, "visits");
    assert_eq!((&found["count"], &found["arrow_count"]), (&json!(["800", "800"]), &json!(800)));
    let rows = found["rows"].as_array().unwrap();
    let sum: i64 = rows.iter().map(|row| row[0].as_str().unwrap().parse::<i64>().unwrap()).sum();
    assert_eq!(sum, (0..500).sum::<i64>() + (0..300).sum::<i64>());
}

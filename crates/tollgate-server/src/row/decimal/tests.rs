//! Numbers that fit a decimal column, and numbers that do not. Dates and times have the same kinds of
//! sources.

use serde_json::value::RawValue;
use tollgate_script::FieldValue;

use super::*;
use crate::options::stream::TimeRules;
use crate::row::fit;

struct Shown(String);

impl ColumnWriter for Shown {
    fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        self.0 = format!("{value:?}");
        Ok(())
    }
}

fn target(kind: &str, coerce: bool) -> Target {
    let kind = ColumnType::from_name(kind).unwrap();
    Target { name: "c".to_owned(), kind, times: TimeRules::default(), coerce, is_hidden: false }
}

fn shown(push: impl FnOnce(&mut Shown) -> Result<(), ValueError>) -> Result<String, String> {
    let mut shown = Shown(String::new());
    push(&mut shown).map_err(|error| error.to_string())?;
    Ok(shown.0)
}

/// Checks a value of a collected item. `expect` is empty for a reject that names the value and the type.
fn check(kind: &str, json: &str, expect: &str) {
    let raw: &RawValue = serde_json::from_str(json).unwrap();
    let found = shown(|row| fit::push_json_value(raw, &target(kind, false), row));
    let expect = match expect {
        "" => Err(format!("column \"c\" takes {kind}, found {json}")),
        expect => Ok(expect.to_owned()),
    };
    assert_eq!(found, expect, "{kind} {json}");
}

/// Checks a value of a script, with `coerce` and without it.
fn check_script(kind: &str, value: &FieldValue, [plain, coerced]: [Result<&str, &str>; 2]) {
    for (coerce, expect) in [(false, plain), (true, coerced)] {
        let found = shown(|row| fit::push_script_value(value, &target(kind, coerce), row));
        assert_eq!(found, expect.map(str::to_owned).map_err(str::to_owned), "{kind} {value:?} {coerce}");
    }
}

#[test]
fn a_number_of_json_keeps_its_digits() {
    check("decimal", "12.340", "Decimal(12.340)");
    check("decimal", "18446744073709551616.1", "Decimal(18446744073709551616.1)");
    check(
        "decimal",
        "0.1234567890123456789012345678901234567",
        "Decimal(0.1234567890123456789012345678901234567)",
    );
    check("decimal", "\"-1e2\"", "Decimal(-100)");
    check("decimal(12,2)", "5", "Decimal(5.00)");
    check("decimal(12,2)", "-0.5", "Decimal(-0.50)");
    check("decimal(12,2)", "\"9999999999.99\"", "Decimal(9999999999.99)");
    check("decimal(12,2)", "1.230000", "Decimal(1.23)");
    check("decimal(3,0)", "999.0", "Decimal(999)");
    check("decimal", "null", "Null");
}

#[test]
fn a_number_that_would_change_does_not_fit() {
    check("decimal(12,2)", "1.234", "");
    check("decimal(12,2)", "10000000000", "");
    check("decimal(12,2)", "1e-300", "");
    check("decimal", "1e38", "");
    check("decimal", "1e400", "");
    check("decimal", "1e-39", "");
    for json in
        ["\"\"", "\"NaN\"", "\"Infinity\"", "\"1,5\"", "\"1_000\"", "\"$5\"", "\" 1\"", "true", "[1]", "{}"]
    {
        check("decimal", json, "");
    }
}

#[test]
fn a_number_of_a_script_is_exact_or_does_not_fit() {
    let text = |text: &str| FieldValue::Text(text.as_bytes().to_vec());
    check_script("decimal(5,2)", &text("1.5"), [Ok("Decimal(1.50)"); 2]);
    check_script("decimal(5,2)", &FieldValue::Int(7), [Ok("Decimal(7.00)"); 2]);
    check_script(
        "decimal(5,2)",
        &FieldValue::Int(1000),
        [Err("column \"c\" takes decimal(5,2), found 1000"); 2],
    );
    let double =
        "column \"c\" takes decimal(5,2) as a string, because a number of a script is a double, found ";
    let refused = |value: &str| format!("{double}{value}");
    check_script("decimal(5,2)", &FieldValue::Float(12.5), [Err(&refused("12.5")), Ok("Decimal(12.50)")]);
    check_script("decimal(5,2)", &FieldValue::Float(12.34), [Err(&refused("12.34")); 2]);
    check_script("decimal(5,2)", &FieldValue::Float(f64::NAN), [Err(&refused("NaN")); 2]);
    check_script(
        "decimal(5,2)",
        &FieldValue::Bool(true),
        [Err("column \"c\" takes decimal(5,2), found true"); 2],
    );
}

#[test]
fn a_text_of_a_request_is_a_decimal_a_date_or_a_time() {
    let read = |kind: &str, text: &str| shown(|row| fit::push_read(text, &target(kind, false), row));
    assert_eq!(read("decimal(5,2)", "12.3").unwrap(), "Decimal(12.30)");
    assert_eq!(read("date", "2026-01-31").unwrap(), "Date(2026-01-31)");
    assert_eq!(read("time", "23:59").unwrap(), "Time(23:59:00)");
    assert_eq!(read("decimal(5,2)", "x").unwrap_err(), "column \"c\" takes decimal(5,2), found \"x\"");
    assert_eq!(read("date", "today").unwrap_err(), "column \"c\" takes date, found \"today\"");
}

#[test]
fn a_date_is_a_text_of_ten_characters() {
    check("date", "\"2026-01-31\"", "Date(2026-01-31)");
    check("date", "\"0001-01-01\"", "Date(0001-01-01)");
    check("date", "\"9999-12-31\"", "Date(9999-12-31)");
    for json in
        ["\"2026-02-30\"", "\"0000-01-01\"", "\"2026-01-31T00:00:00Z\"", "\"31.01.2026\"", "20260131", "true"]
    {
        check("date", json, "");
    }
    check_script("date", &FieldValue::Text(b"2024-02-29".to_vec()), [Ok("Date(2024-02-29)"); 2]);
    check_script("date", &FieldValue::Int(5), [Err("column \"c\" takes date, found 5"); 2]);
}

#[test]
fn a_time_is_a_text_with_a_colon() {
    check("time", "\"10:00:00.123456\"", "Time(10:00:00.123456)");
    check("time", "\"10:00:00\"", "Time(10:00:00)");
    check("time", "\"10:00\"", "Time(10:00:00)");
    for json in ["\"24:00\"", "\"10:00:60\"", "\"10:00:00Z\"", "\"10\"", "36000", "false"] {
        check("time", json, "");
    }
    check_script("time", &FieldValue::Text(b"23:59:59".to_vec()), [Ok("Time(23:59:59)"); 2]);
}

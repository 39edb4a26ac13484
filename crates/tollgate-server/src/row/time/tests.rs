//! Times as programs write them.

use tollgate_log::ColumnType;
use tollgate_value::{TimeUnit, Zone, timestamp_text};

use super::*;
use crate::options::stream::TimeRules;
use crate::row::fit;

struct Shown(String);

impl ColumnWriter for Shown {
    fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        self.0 = match value {
            Value::Timestamp(us) => String::from_utf8(timestamp_text(us).unwrap().to_vec()).unwrap(),
            other => format!("{other:?}"),
        };
        Ok(())
    }
}

fn target(unit: Option<TimeUnit>, zone: Option<&str>) -> Target {
    let times = TimeRules { unit, zone: zone.map(|zone| Zone::new(zone).unwrap()) };
    Target { name: "t".to_owned(), kind: ColumnType::Timestamp, times, coerce: false, is_hidden: false }
}

/// Checks a value of a collected item.
fn check(target: &Target, json: &str, expect: &str) {
    let mut shown = Shown(String::new());
    let raw: &serde_json::value::RawValue = serde_json::from_str(json).unwrap();
    let result = fit::push_json_value(raw, target, &mut shown);
    assert_eq!(result.map_or_else(|error| error.to_string(), |()| shown.0), expect, "{json}");
}

#[test]
fn a_number_has_the_unit_of_its_column() {
    let check = |unit, json: &str, expect: &str| check(&target(Some(unit), None), json, expect);
    check(TimeUnit::Second, "1767225600", "2026-01-01T00:00:00.000000Z");
    check(TimeUnit::Second, "1795775959.445001", "2026-11-27T10:39:19.445001Z");
    check(TimeUnit::Second, "\"1795775959.445\"", "2026-11-27T10:39:19.445000Z");
    check(TimeUnit::Second, "\"2026-01-01T00:00:00Z\"", "2026-01-01T00:00:00.000000Z");
    check(TimeUnit::Millisecond, "1767225600123", "2026-01-01T00:00:00.123000Z");
    check(TimeUnit::Microsecond, "1", "1970-01-01T00:00:00.000001Z");
    check(TimeUnit::Nanosecond, "1767225600123456789", "2026-01-01T00:00:00.123456Z");
    check(TimeUnit::Second, "1e400", "column \"t\" takes timestamp, found 1e400");
    check(TimeUnit::Second, "1767225600123", "column \"t\" takes timestamp, found 1767225600123");
    check(TimeUnit::Second, "\"soon\"", "column \"t\" takes timestamp, found \"soon\"");
}

#[test]
fn a_number_without_a_unit_is_never_a_time_of_january_1970() {
    let plain = target(None, None);
    let offered = |found: &str| {
        format!(
            "column \"t\" takes timestamp (without unit a number is microseconds, from 1975 on: set unit = \
             \"s\", \"ms\", \"us\" or \"ns\"), found {found}"
        )
    };
    for found in ["1767225600123", "1767225600", "1767225600.123", "1", "157766399999999", "1e15"] {
        check(&plain, found, &offered(found));
    }
    check(&plain, "157766400000000", "1975-01-01T00:00:00.000000Z");
    check(&plain, "0", "1970-01-01T00:00:00.000000Z");
    check(&plain, "-1", "1969-12-31T23:59:59.999999Z");
    check(&plain, "\"1970-01-01T00:00:01Z\"", "1970-01-01T00:00:01.000000Z");
    check(&plain, "253402300799999999", "9999-12-31T23:59:59.999999Z");
    check(&plain, "253402300800000000", "column \"t\" takes timestamp, found 253402300800000000");
}

#[test]
fn a_time_without_an_offset_is_in_the_zone_of_its_column() {
    let python = "\"2026-01-01T00:00:00.123456\"";
    let expected = format!(
        "column \"t\" takes timestamp with an offset (set zone to accept times without one), found {python}"
    );
    check(&target(None, None), python, &expected);
    check(&target(None, Some("UTC")), python, "2026-01-01T00:00:00.123456Z");
    check(&target(None, Some("Europe/Berlin")), python, "2025-12-31T23:00:00.123456Z");
    check(&target(None, Some("Europe/Berlin")), "\"2026-01-01T00:00:00Z\"", "2026-01-01T00:00:00.000000Z");
}

#[test]
fn a_script_writes_times_by_the_same_rules() {
    use tollgate_script::FieldValue;
    let check = |target: &Target, value: FieldValue, expect: &str| {
        let mut shown = Shown(String::new());
        let result = fit::push_script_value(&value, target, &mut shown);
        assert_eq!(result.map_or_else(|error| error.to_string(), |()| shown.0), expect, "{value:?}");
    };
    let seconds = target(Some(TimeUnit::Second), None);
    check(&seconds, FieldValue::Float(1_795_775_959.445), "2026-11-27T10:39:19.445000Z");
    check(&seconds, FieldValue::Int(1_767_225_600), "2026-01-01T00:00:00.000000Z");
    check(&seconds, FieldValue::Text(b"1767225600.5".to_vec()), "2026-01-01T00:00:00.500000Z");
    check(&seconds, FieldValue::Float(f64::NAN), "column \"t\" takes timestamp, found NaN");
    let plain = target(None, None);
    check(&plain, FieldValue::Int(1_767_225_600_123_456), "2026-01-01T00:00:00.123456Z");
    let mut shown = Shown(String::new());
    for value in [FieldValue::Int(1_767_225_600), FieldValue::Float(1_767_225_600.5)] {
        let error = fit::push_script_value(&value, &plain, &mut shown).unwrap_err().to_string();
        assert!(error.contains("set unit = "), "{error}");
    }
}

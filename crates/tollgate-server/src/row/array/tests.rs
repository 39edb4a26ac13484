//! Lists that fit an array column, and lists that do not.

use tollgate_log::ColumnType;
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

fn target(kind: &str) -> Target {
    let kind = ColumnType::from_name(kind).unwrap();
    Target { name: "c".to_owned(), kind, times: TimeRules::default(), coerce: false, is_hidden: false }
}

fn check_in(target: &Target, json: &str, expect: &str) {
    let mut shown = Shown(String::new());
    let raw: &RawValue = serde_json::from_str(json).unwrap();
    let result = fit::push_json_value(raw, target, &mut shown);
    assert_eq!(result.map_or_else(|error| error.to_string(), |()| shown.0), expect, "{json}");
}

fn check(kind: &str, json: &str, expect: &str) {
    check_in(&target(kind), json, expect);
}

#[test]
fn a_list_fits_whose_elements_fit() {
    check("int[]", "[1, null ,-9223372036854775808]", "Array([Int(1), Null, Int(-9223372036854775808)])");
    check("int[]", "[]", "Array([])");
    check("int[]", "null", "Null");
    check(
        "float[]",
        "[1, 2.5, 18446744073709551615]",
        "Array([Float(1.0), Float(2.5), Float(1.8446744073709552e19)])",
    );
    check("text[]", r#"["a", "", "\ud83d"]"#, "Array([Text(\"a\"), Text(\"\"), Text(\"\u{fffd}\")])");
    check("bool[]", "[true,false]", "Array([Bool(true), Bool(false)])");
    check("timestamp[]", r#"["1970-01-01T00:00:01Z", 0]"#, "Array([Timestamp(1000000), Timestamp(0)])");
    check("inet[]", r#"["::1"]"#, "Array([Inet(::1)])");
    check("decimal[]", "[1.10, \"2\"]", "Array([Decimal(1.10), Decimal(2)])");
    check("decimal(5,2)[]", "[1.1]", "Array([Decimal(1.10)])");
    check("date[]", r#"["2026-02-28"]"#, "Array([Date(2026-02-28)])");
    check("time[]", r#"["10:00"]"#, "Array([Time(10:00:00)])");
    let uuid = "00000000-0000-0000-0000-000000000000";
    check("uuid[]", &format!("[\"{uuid}\"]"), &format!("Array([Uuid({:?})])", [0; 16]));
}

#[test]
fn a_list_does_not_fit_with_one_element_that_does_not() {
    check("int[]", "[1,\"2\"]", "column \"c\" takes int[], found \"2\" at index 1");
    check("int[]", "[1.5]", "column \"c\" takes int[], found 1.5 at index 0");
    check("int[]", "[[1]]", "column \"c\" takes int[], found [1] at index 0");
    check("int[]", "5", "column \"c\" takes int[], found 5");
    check("int[]", "\"[5]\"", "column \"c\" takes int[], found \"[5]\"");
    check("int[]", "{\"0\":5}", "column \"c\" takes int[], found {\"0\":5}");
    check("int", "[5]", "column \"c\" takes int, found [5]");
    check("text[]", r#"["a","b\u0000"]"#, "column \"c\" takes no U+0000, found one at byte 1");
    check("decimal(5,2)[]", "[1.111]", "column \"c\" takes decimal(5,2)[], found 1.111 at index 0");
    check("float[]", "[1e400]", "column \"c\" takes float[], found 1e400 at index 0");
    check(
        "timestamp[]",
        "[1795775959]",
        "column \"c\" takes an array of timestamp (without unit a number is microseconds, from 1975 on: \
         set unit = \"s\", \"ms\", \"us\" or \"ns\"), found 1795775959 at index 0",
    );
    let hidden = Target { is_hidden: true, ..target("int[]") };
    check_in(&hidden, "[\"secret\"]", "column \"c\" takes int[], found a hidden value at index 0");
}

#[test]
fn a_list_has_a_bounded_number_of_elements() {
    let list = |count| format!("[{}]", vec!["7"; count].join(","));
    let mut shown = Shown(String::new());
    let most = list(ARRAY_ELEMENTS_MAX);
    fit::push_json_value(serde_json::from_str(&most).unwrap(), &target("int[]"), &mut shown).unwrap();
    assert_eq!(shown.0.matches("Int(7)").count(), ARRAY_ELEMENTS_MAX);
    check(
        "int[]",
        &list(ARRAY_ELEMENTS_MAX + 1),
        "column \"c\" takes arrays of at most 10000 elements, found more",
    );
}

#[test]
fn a_table_of_a_script_has_the_rules_of_its_elements() {
    let check = |kind: &str, json: &str, expect: &str| {
        let mut shown = Shown(String::new());
        let result = fit::push_script_value(&FieldValue::Json(json.to_owned()), &target(kind), &mut shown);
        assert_eq!(result.map_or_else(|error| error.to_string(), |()| shown.0), expect, "{kind} {json}");
    };
    check("int[]", "[1,2,null]", "Array([Int(1), Int(2), Null])");
    check("int[]", "{}", "Array([])");
    check("int[]", "{\"a\":1}", "column \"c\" takes int[], found {\"a\":1}");
    check("float[]", "[0.5,1e300]", "Array([Float(0.5), Float(1e300)])");
    check("text[]", "[\"a\"]", "Array([Text(\"a\")])");
    check("decimal[]", "[1,\"12.34\"]", "Array([Decimal(1), Decimal(12.34)])");
    check(
        "decimal[]",
        "[12.34]",
        "column \"c\" takes an array of decimal as a string, because a number of a script is a double, \
         found 12.34 at index 0",
    );
    check("int", "[1]", "column \"c\" takes int, found [1]");
}

//! Values that fit only a column with `coerce`.

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

fn target(kind: ColumnType, coerce: bool) -> Target {
    Target { name: "c".to_owned(), kind, times: TimeRules::default(), coerce, is_hidden: false }
}

/// Checks a value of a collected item, with `coerce` and without it.
fn check(kind: ColumnType, json: &str, expect: Option<Value<'_>>) {
    for coerce in [true, false] {
        let mut shown = Shown(String::new());
        let raw: &serde_json::value::RawValue = serde_json::from_str(json).unwrap();
        let result = fit::push_json_value(raw, &target(kind, coerce), &mut shown);
        let expect = match expect.filter(|_| coerce) {
            Some(value) => format!("{value:?}"),
            None => format!("column \"c\" takes {}, found {json}", kind.name()),
        };
        assert_eq!(result.map_or_else(|error| error.to_string(), |()| shown.0), expect, "{json}");
    }
}

#[test]
fn a_value_fits_where_it_is_exactly_a_value_of_the_column() {
    check(ColumnType::Int, "3.0", Some(Value::Int(3)));
    check(ColumnType::Int, "3e2", Some(Value::Int(300)));
    check(ColumnType::Int, "\"-12\"", Some(Value::Int(-12)));
    check(ColumnType::Int, "\"3.0\"", Some(Value::Int(3)));
    check(ColumnType::Float, "\"12.34\"", Some(Value::Float(12.34)));
    check(ColumnType::Bool, "\"true\"", Some(Value::Bool(true)));
    check(ColumnType::Bool, "\"false\"", Some(Value::Bool(false)));
}

#[test]
fn a_value_that_would_change_does_not_fit() {
    for json in ["3.5", "\"3.5\"", "9223372036854775808", "1e400", "\"\"", "\" 3\"", "\"0x3\"", "true", "[3]"]
    {
        check(ColumnType::Int, json, None);
    }
    for json in ["\"NaN\"", "\"inf\"", "\"1e400\"", "\"+1\"", "\"1.\"", "\"x\"", "true"] {
        check(ColumnType::Float, json, None);
    }
    for json in ["\"yes\"", "\"True\"", "1", "\"1\""] {
        check(ColumnType::Bool, json, None);
    }
    check(ColumnType::Text, "5", None);
}

#[test]
fn a_text_of_a_script_or_a_request_is_coerced_by_the_same_rule() {
    let mut shown = Shown(String::new());
    let int = target(ColumnType::Int, true);
    fit::push_script_value(&FieldValue::Text(b"7.0".to_vec()), &int, &mut shown).unwrap();
    assert_eq!(shown.0, "Int(7)");
    fit::push_read("8.0", &int, &mut shown).unwrap();
    assert_eq!(shown.0, "Int(8)");
}

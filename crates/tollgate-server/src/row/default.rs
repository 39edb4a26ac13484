//! Reads the default value of a column, with the rules of `collect`.

use serde_json::value::RawValue;
use tollgate_log::{ColumnType, Value, ValueError};

use super::{ColumnWriter, Target, fit};
use crate::options::stream::{DefaultValue, Owned, TimeRules};

impl DefaultValue {
    /// Reads JSON as the default value for a column of type `kind`, with the rules of `collect`. `times` are
    /// the rules of the column for times.
    ///
    /// # Errors
    /// The text names the value found, and the allowed type.
    pub fn new(kind: ColumnType, times: &TimeRules, json: &str) -> Result<Self, String> {
        let target = Target {
            name: "default".to_owned(),
            kind,
            times: times.clone(),
            coerce: false,
            is_hidden: false,
        };
        let parsed: &RawValue = serde_json::from_str(json).map_err(|error| format!("not JSON: {error}"))?;
        let mut capture = Capture(None);
        fit::push_json_value(parsed, &target, &mut capture)
            .map_err(|_| format!("found {json}, the column takes {}", kind.name()))?;
        let value = capture
            .0
            .ok_or_else(|| "null is not a default: a column without a default is null already".to_owned())?;
        Ok(Self { json: json.to_owned(), value })
    }
}

/// Stores a value instead of writing it into a row.
struct Capture(Option<Owned>);

impl ColumnWriter for Capture {
    fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        self.0 = Owned::of(value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tollgate_log::{ArrayBuffer, ElementType};
    use tollgate_value::{Date, Decimal, TimeOfDay};

    use super::*;

    #[test]
    fn a_default_fits_its_column_or_is_told() {
        let check = |kind, json, expect: Result<Value<'_>, &str>| {
            let found = DefaultValue::new(kind, &TimeRules::default(), json);
            match (&found, expect) {
                (Ok(found), Ok(expect)) => assert_eq!((found.value(), found.json()), (expect, json)),
                (Err(found), Err(expect)) => assert_eq!(found, expect),
                _ => panic!("{json}: {found:?}"),
            }
        };
        check(ColumnType::Bool, "true", Ok(Value::Bool(true)));
        check(ColumnType::Int, "-5", Ok(Value::Int(-5)));
        check(ColumnType::Int, "1.5", Err("found 1.5, the column takes int"));
        check(ColumnType::Float, "1.5", Ok(Value::Float(1.5)));
        check(ColumnType::Text, "\"a\"", Ok(Value::Text("a")));
        check(ColumnType::Text, "5", Err("found 5, the column takes text"));
        check(ColumnType::Bytes, "\"AAE=\"", Ok(Value::Bytes(&[0, 1])));
        check(ColumnType::Timestamp, "\"1970-01-01T00:00:01Z\"", Ok(Value::Timestamp(1_000_000)));
        check(ColumnType::Json, "{\"a\":1}", Ok(Value::Json("{\"a\":1}")));
        let uuid = "\"00000000-0000-0000-0000-000000000001\"";
        check(ColumnType::Uuid, uuid, Ok(Value::Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])));
        check(ColumnType::Inet, "\"::1\"", Ok(Value::Inet("::1".parse().unwrap())));
        let typed = |name| ColumnType::from_name(name).unwrap();
        check(typed("decimal(5,2)"), "1.5", Ok(Value::Decimal(Decimal::parse("1.50").unwrap())));
        check(typed("decimal(5,2)"), "1.555", Err("found 1.555, the column takes decimal(5,2)"));
        check(ColumnType::Date, "\"2026-01-31\"", Ok(Value::Date(Date::parse("2026-01-31").unwrap())));
        check(ColumnType::Time, "\"10:00\"", Ok(Value::Time(TimeOfDay::parse("10:00").unwrap())));
        let mut list = ArrayBuffer::new(ElementType::Int);
        list.push(Value::Int(7)).unwrap();
        check(typed("int[]"), "[7]", Ok(list.finish().value()));
        check(typed("int[]"), "[\"7\"]", Err("found [\"7\"], the column takes int[]"));
        check(
            ColumnType::Int,
            "null",
            Err("null is not a default: a column without a default is null already"),
        );
    }
}

//! The partition of a table: by the time at which a record was written to its log.

use serde_json::{Value as Json, json};
use tollgate_value::Date;

use super::avro::AvroEncoder;
use crate::partition::Partition;

/// The time at which a record was written to its log. Tables are partitioned by it.
pub const TIME_COLUMN: &str = "_time";
/// The first id of a field of a partition.
const FIRST_ID: usize = 1_000;

impl Partition {
    /// Returns the fields of the partition of a new table.
    pub(crate) fn to_fields(self, time: &Json) -> Vec<Json> {
        match self {
            Self::None => Vec::new(),
            Self::Day | Self::Month => vec![json!({
                "name": format!("{TIME_COLUMN}_{}", self.name()),
                "transform": self.name(),
                "source-id": time,
                "field-id": FIRST_ID,
            })],
        }
    }
}

/// A field of the partition of a table, as this program can fill it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transform {
    Day,
    Month,
    Year,
    Void,
}

/// The partition of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spec {
    pub(super) id: i64,
    /// The fields, as metadata has them.
    pub(super) fields: Vec<Json>,
    transforms: Vec<Transform>,
}

impl Spec {
    /// Reads the partition of a table.
    ///
    /// # Errors
    /// The reason why this program cannot fill the partition.
    pub(super) fn read(spec: &Json, time: i32) -> Result<Self, String> {
        let fields = spec["fields"].as_array().cloned().unwrap_or_default();
        let transforms = fields.iter().map(|field| {
            let transform = match field["transform"].as_str().unwrap_or_default() {
                "void" => Some(Transform::Void),
                "day" => Some(Transform::Day),
                "month" => Some(Transform::Month),
                "year" => Some(Transform::Year),
                _ => None,
            };
            let is_of_time = field["source-id"].as_i64() == Some(time.into());
            transform.filter(|transform| is_of_time || *transform == Transform::Void).ok_or_else(|| {
                format!(
                    "is partitioned by {} {}, allowed are day, month and year of {TIME_COLUMN}",
                    field["transform"], field["name"]
                )
            })
        });
        let transforms = transforms.collect::<Result<_, _>>()?;
        Ok(Self { id: spec["spec-id"].as_i64().unwrap_or_default(), fields, transforms })
    }

    /// Returns the type of the partition of a file in Avro.
    pub(super) fn schema(&self) -> Json {
        let fields = self.fields.iter().zip(&self.transforms).map(|(field, transform)| {
            let kind = match transform {
                Transform::Day => json!({"type": "int", "logicalType": "date"}),
                Transform::Month | Transform::Year | Transform::Void => json!("int"),
            };
            json!({
                "name": field["name"],
                "type": ["null", kind],
                "default": null,
                "field-id": field["field-id"],
            })
        });
        json!({"type": "record", "name": "r102", "fields": fields.collect::<Vec<_>>()})
    }

    /// Returns the values of a file with rows of a day.
    pub(super) fn values(&self, day: Date) -> Vec<Option<i32>> {
        let text = day.to_string();
        let part = |place| text.split('-').nth(place).and_then(|part: &str| part.parse::<i32>().ok());
        let (year, month) = (part(0).unwrap_or(1970) - 1970, part(1).unwrap_or(1) - 1);
        let value = |transform: &Transform| match transform {
            Transform::Day => Some(day.days()),
            Transform::Month => Some(year * 12 + month),
            Transform::Year => Some(year),
            Transform::Void => None,
        };
        self.transforms.iter().map(value).collect()
    }
}

/// Encodes the values of the partition of a file.
pub(super) fn encode(values: &[Option<i32>], encoder: &mut AvroEncoder) {
    for value in values {
        encoder.option(*value, |encoder, value| {
            encoder.long(value.into());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_in_one_partition_of_each_transform() {
        let field = |name: &&str| json!({"name": name, "transform": name, "source-id": 7, "field-id": 1000});
        let fields: Vec<_> = ["day", "month", "year", "void"].iter().map(field).collect();
        let spec = Spec::read(&json!({"spec-id": 3, "fields": fields}), 7).unwrap();
        let days = [("1970-01-01", 0, 0, 0), ("1969-12-31", -1, -1, -1), ("2026-11-29", 20_786, 682, 56)];
        for (day, days, months, years) in days {
            let values = spec.values(Date::parse(day).unwrap());
            assert_eq!(values, [Some(days), Some(months), Some(years), None], "{day}");
        }
        let other =
            json!({"spec-id": 0, "fields": [{"name": "x", "transform": "bucket[4]", "source-id": 7}]});
        let reason = Spec::read(&other, 7).unwrap_err();
        assert!(reason.contains("bucket[4]"), "{reason}");
        let other = json!({"spec-id": 0, "fields": [{"name": "x", "transform": "day", "source-id": 1}]});
        assert!(Spec::read(&other, 7).is_err());
    }
}

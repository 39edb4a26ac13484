//! A table that is to be created.

use serde_json::{Map, Value as Json, json};

use super::fence::SINK;
use super::partition::TIME_COLUMN;
use super::types::TableColumn;
use crate::partition::Partition;

/// Properties of new tables. Engines use them when they write.
const PROPERTIES: [(&str, &str); 4] = [
    ("write.parquet.compression-codec", "zstd"),
    ("write.metadata.delete-after-commit.enabled", "true"),
    ("write.metadata.previous-versions-max", "50"),
    // Spark and Flink would else shuffle rows before they write.
    ("write.distribution-mode", "none"),
];

/// A table that is to be created.
#[derive(Debug, Clone)]
pub struct NewTable {
    /// Address of the folder of the table.
    pub location: String,
    /// The schema. The catalog may give the fields other ids.
    pub schema: Json,
    /// The partition of the files.
    pub spec: Json,
    /// The properties.
    pub properties: Json,
}

impl NewTable {
    /// Returns a table with these columns.
    pub(super) fn new(location: String, columns: &[TableColumn], partition: Partition, sink: &str) -> Self {
        let mut last = 0;
        let fields: Vec<_> = columns.iter().map(|column| column.to_field(&mut last)).collect();
        let time = fields
            .iter()
            .find(|field| field["name"] == TIME_COLUMN)
            .map_or(Json::Null, |field| field["id"].clone());
        let own = [(SINK, sink)];
        let properties: Map<_, _> = PROPERTIES
            .iter()
            .chain(&own)
            .map(|(key, value)| ((*key).to_owned(), Json::from(*value)))
            .collect();
        Self {
            location,
            schema: json!({"type": "struct", "schema-id": 0, "fields": fields}),
            spec: json!({"spec-id": 0, "fields": partition.to_fields(&time)}),
            properties: Json::from(properties),
        }
    }
}

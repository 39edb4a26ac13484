//! The record of a reply: the fields that a stream keeps, and the values that a script gave them.

/// Which fields of the `record` table a route keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFields {
    /// The columns that are read from `record.NAME`, in order.
    pub names: Vec<String>,
    /// Whether the whole of `record` is wanted, as JSON.
    pub whole: bool,
}

/// What a script put into `record`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordValues {
    /// One per [`RecordFields::names`], in that order.
    pub values: Vec<FieldValue>,
    /// The whole table as JSON, where that is wanted, or keys are unknown, and the script returned a record.
    pub whole: Option<String>,
    /// Keys that no name takes, sorted, at most 32; empty where the whole is wanted.
    pub unknown: Vec<String>,
}

/// One value of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// Absent, or `json.null`.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A number that is whole and within 64 bits, whatever Luau held it in: `1.0` is one.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// The bytes of a string or a buffer. Whether they are UTF-8 is not looked at.
    Text(Vec<u8>),
    /// A table, as JSON.
    Json(String),
    /// Why the value cannot be had.
    Unfit(String),
}

impl RecordValues {
    /// Bytes that its values take.
    pub fn memory_bytes(&self) -> usize {
        let values = self.values.iter().map(|value| match value {
            FieldValue::Text(text) => text.len(),
            FieldValue::Json(json) => json.len(),
            _ => 0,
        });
        let value_bytes = size_of::<FieldValue>() * self.values.len();
        values.sum::<usize>() + self.whole.as_ref().map_or(0, String::len) + value_bytes
    }
}

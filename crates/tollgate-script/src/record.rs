//! The record of a reply: the fields that a stream keeps, and their values from a script.

/// The fields of the `record` table that a route keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFields {
    /// The columns that are read from `record.NAME`, in order.
    pub names: Vec<String>,
    /// Whether the route keeps the whole `record` as JSON.
    pub whole: bool,
}

/// The values of `record` in the reply of a script.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordValues {
    /// One value for each of [`RecordFields::names`], in that order.
    pub values: Vec<FieldValue>,
    /// The whole table as JSON, if the script returned a record. `None` unless the route keeps the whole
    /// record, or keys are unknown.
    pub whole: Option<String>,
    /// Keys that the route does not keep, sorted. The list has at most 32 keys. Empty if the route keeps the
    /// whole record.
    pub unknown: Vec<String>,
}

/// One value of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// The value is absent, or is `json.null`.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A whole number within 64 bits, of any Luau type. For example, `1.0` is a whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// The bytes of a string or a buffer. The bytes are not checked for UTF-8, because a column of type bytes
    /// keeps them.
    Text(Vec<u8>),
    /// A table, as JSON.
    Json(String),
    /// The value cannot be recorded. The text is the reason.
    Unfit(String),
}

impl RecordValues {
    /// Returns the memory of the values in bytes.
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

//! Fills a row without a log, and keeps its values.

use tollgate_log::{Value, ValueError};

use super::{ColumnWriter, Facts, Given, StreamPlan};
use crate::options::stream::{KEY_COLUMN, Owned};

/// The values of a row, with the names of their columns.
#[derive(Debug)]
pub struct SampleRow {
    values: Vec<(String, Option<Owned>)>,
}

impl SampleRow {
    /// Returns the columns in the order of the table, each with its value. The key of the row is the column
    /// [`KEY_COLUMN`].
    pub fn values(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        let values = self.values.iter();
        values.map(|(column, value)| {
            (column.as_str(), value.as_ref().map_or(Value::Null, |value| value.value()))
        })
    }
}

/// Keeps the values of a row in the order of the columns.
struct Kept<'a> {
    names: std::vec::IntoIter<&'a str>,
    values: Vec<(String, Option<Owned>)>,
}

impl ColumnWriter for Kept<'_> {
    fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        let name = self.names.next().unwrap_or(KEY_COLUMN);
        free_of_nul(name, &value)?;
        self.values.push((name.to_owned(), Owned::of(value)));
        Ok(())
    }
}

/// Checks that a text has no U+0000, which no database accepts.
///
/// # Errors
/// The text has U+0000.
pub(super) fn free_of_nul(column: &str, value: &Value<'_>) -> Result<(), ValueError> {
    if let Value::Text(text) | Value::Json(text) = value
        && let Some(at) = text.bytes().position(|byte| byte == 0)
    {
        return Err(ValueError::Nul { column: column.to_owned(), at });
    }
    Ok(())
}

impl StreamPlan {
    /// Returns the row that a record becomes. Columns that the log fills are null.
    ///
    /// # Errors
    /// The first value that does not fit its column.
    pub(crate) fn row(&self, facts: &Facts<'_>, given: &impl Given) -> Result<SampleRow, ValueError> {
        let names: Vec<_> = self.column_names().collect();
        let mut kept = Kept { names: names.into_iter(), values: Vec::new() };
        self.fill(&mut kept, facts, given)?;
        Ok(SampleRow { values: kept.values })
    }
}

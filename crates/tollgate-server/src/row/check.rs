//! Checks whether values fit into a row, without keeping the row.

use tollgate_log::{Value, ValueError};

use super::{ColumnWriter, Facts, Given, StreamPlan};

/// Accepts the values of a row in the order of the columns, checks them, and drops them.
struct Unkept<'a> {
    names: std::vec::IntoIter<&'a str>,
}

impl ColumnWriter for Unkept<'_> {
    fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        free_of_nul(self.names.next().unwrap_or_default(), &value)
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
    /// Checks whether a record becomes a row.
    ///
    /// # Errors
    /// The first value that does not fit its column.
    pub(crate) fn check(&self, facts: &Facts<'_>, given: &impl Given) -> Result<(), ValueError> {
        let names: Vec<_> = self.column_names().collect();
        self.fill(&mut Unkept { names: names.into_iter() }, facts, given)
    }
}

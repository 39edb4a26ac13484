//! Fills columns from an item alone, without the other facts of its transaction.

use tollgate_log::{Value, ValueError};

use super::check::free_of_nul;
use super::column_writer::Ruled;
use super::plan::{ColumnPlan, Filling};
use super::{ColumnWriter, Given, StreamPlan};

/// Passes the value of one column to a function. Null is not passed, so that the default of the table
/// applies.
struct Named<'a> {
    column: &'a str,
    take: &'a mut dyn FnMut(&str, &Value<'_>),
}

impl ColumnWriter for Named<'_> {
    fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        free_of_nul(self.column, &value)?;
        if !matches!(value, Value::Null) {
            (self.take)(self.column, &value);
        }
        Ok(())
    }
}

impl StreamPlan {
    /// Calls `take` with the values that come from the item, and their column names. Returns the key of the
    /// item.
    ///
    /// # Errors
    /// The first value that does not fit its column.
    pub(crate) fn fill_of_item(
        &self,
        given: &impl Given,
        take: &mut dyn FnMut(&str, &Value<'_>),
    ) -> Result<Option<[u8; 32]>, ValueError> {
        for ColumnPlan { target, filling, rules } in &self.columns {
            let Filling::Given(part) = filling else { continue };
            let mut cell = Named { column: &target.name, take: &mut *take };
            match rules {
                None => part.push(target, &mut cell, given)?,
                Some(rules) => part.push(target, &mut Ruled { target, rules, row: &mut cell }, given)?,
            }
        }
        self.key.as_ref().map_or(Ok(None), |key| key.of_item(given))
    }
}

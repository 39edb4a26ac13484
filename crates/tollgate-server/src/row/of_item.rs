//! What an item alone has for the columns of its stream, where nothing else of its transaction is left.

use tollgate_log::{Value, ValueError};

use super::check::free_of_nul;
use super::column_writer::Ruled;
use super::plan::{ColumnPlan, Filling};
use super::{ColumnWriter, Given, StreamPlan};

/// Hands out the value of one column, unless it is null: then the table has its say.
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
    /// Hands out the values of the columns that are filled from the item, by their names, and returns its
    /// key.
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

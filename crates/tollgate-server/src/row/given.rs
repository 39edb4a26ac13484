//! A record that a script or a client gives, as the source of the values of a row.

use std::borrow::Cow;

use tollgate_log::ValueError;

use super::{ColumnWriter, Target};

/// A record that a script or a client gives.
pub(crate) trait Given {
    /// Writes one field into a column. `field` is its index in
    /// [`StreamPlan::fields`](super::StreamPlan::fields). An absent field is null.
    ///
    /// # Errors
    /// The value does not fit the column.
    fn push_field(
        &self,
        field: usize,
        target: &Target,
        cell: &mut impl ColumnWriter,
    ) -> Result<(), ValueError>;

    /// Writes the whole record into a column, as JSON.
    ///
    /// # Errors
    /// The record does not fit the column.
    fn push_whole(&self, target: &Target, cell: &mut impl ColumnWriter) -> Result<(), ValueError>;

    /// Returns the field that is the key: a text, or an integer in decimal digits.
    ///
    /// # Errors
    /// The field is neither a text nor an integer.
    fn key(&self, field: usize) -> Result<Option<Cow<'_, [u8]>>, ValueError>;

    /// Returns the index of the record in its transaction, counted from 0.
    fn place(&self) -> usize;
}

//! A record from a script or a client.

use std::borrow::Cow;

use tollgate_log::ValueError;

use super::{ColumnWriter, Target};

/// A record from a script or a client.
pub(crate) trait Given {
    /// Fills a column from one field, by its index in [`StreamPlan::fields`](super::StreamPlan::fields). An
    /// absent field is null.
    ///
    /// # Errors
    /// The value does not fit.
    fn push_field(
        &self,
        field: usize,
        target: &Target,
        cell: &mut impl ColumnWriter,
    ) -> Result<(), ValueError>;

    /// Fills a column from the whole record, as JSON.
    ///
    /// # Errors
    /// The record does not fit.
    fn push_whole(&self, target: &Target, cell: &mut impl ColumnWriter) -> Result<(), ValueError>;

    /// Returns the field that is the key: a text, or an integer in decimal digits.
    ///
    /// # Errors
    /// The field is neither.
    fn key(&self, field: usize) -> Result<Option<Cow<'_, [u8]>>, ValueError>;

    /// Returns the index of the record in its transaction, from 0.
    fn place(&self) -> usize;
}

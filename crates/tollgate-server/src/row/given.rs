//! A record as a script or a client gave it.

use std::borrow::Cow;

use tollgate_log::ValueError;

use super::{ColumnWriter, Target};

/// A record as a script or a client gave it.
pub(crate) trait Given {
    /// Fills a column from one field, by its place in [`StreamPlan::fields`](super::StreamPlan::fields). An
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
    /// It does not fit.
    fn push_whole(&self, target: &Target, cell: &mut impl ColumnWriter) -> Result<(), ValueError>;

    /// A field that is the key: a text, or an integer in decimal digits.
    ///
    /// # Errors
    /// It is neither.
    fn key(&self, field: usize) -> Result<Option<Cow<'_, [u8]>>, ValueError>;

    /// Its place among the records of its transaction, from 0.
    fn place(&self) -> usize;
}

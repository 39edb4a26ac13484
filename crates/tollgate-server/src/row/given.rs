//! A record that a script or a client gives, as the source of the values of a row.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tollgate_log::ValueError;

use super::{ColumnWriter, Target};

/// The place of a field in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldPlace {
    /// The index of a field in [`StreamPlan::fields`](super::StreamPlan::fields).
    Top(usize),
    /// The index of a nested field in [`StreamPlan::nested`](super::StreamPlan::nested).
    Nested(usize),
}

/// A record that a script or a client gives.
pub(crate) trait Given {
    /// Writes one field into a column. An absent field is null.
    ///
    /// # Errors
    /// The value does not fit the column.
    fn push_field(
        &self,
        field: FieldPlace,
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
    fn key(&self, field: FieldPlace) -> Result<Option<Cow<'_, [u8]>>, ValueError>;

    /// Returns a value of the document around the record, as JSON. `field` is its index in
    /// [`StreamPlan::envelope`](super::StreamPlan::envelope). The record of a script has no such document.
    fn envelope(&self, field: usize) -> Option<&RawValue>;

    /// Returns the index of the record in its transaction, counted from 0.
    fn place(&self) -> usize;
}

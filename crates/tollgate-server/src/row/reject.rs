//! The item of a reject, without the values that columns hide.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::path_tree::PathTree;
use crate::options::stream::{ColumnSpec, Source};

/// JSON text that replaces a hidden value, or a hidden item.
const HIDDEN: &str = "\"(redacted)\"";

/// Prefix of the text that replaces a value without a JSON form. The reason follows the prefix.
pub(crate) const NOT_KEPT: &str = "(not kept: ";

/// Returns whether a field of an item is a marker for a missing value. If a client sends the same text, it
/// counts as a marker, too.
pub(crate) fn is_marker(value: &RawValue) -> bool {
    let json = value.get();
    json == HIDDEN || json.strip_prefix('"').is_some_and(|text| text.starts_with(NOT_KEPT))
}

/// The parts of items and documents that rejects keep.
#[derive(Debug)]
pub(super) struct RejectPlan {
    item: ItemPlan,
    /// Whether a column hides a value of a document around items.
    hides_documents: bool,
}

/// The part of an item that a reject keeps.
#[derive(Debug)]
enum ItemPlan {
    Whole,
    /// Only the values at these paths are kept, because a column hides another field or the whole item.
    Fields(PathTree),
}

impl RejectPlan {
    pub(super) fn new(columns: &[ColumnSpec]) -> Self {
        let is_hidden = |column: &ColumnSpec| {
            column.rules.redaction.is_some() && matches!(column.source, Source::EnvelopeField(_))
        };
        Self { item: ItemPlan::new(columns), hides_documents: columns.iter().any(is_hidden) }
    }

    /// Returns the part of an item that is kept.
    pub(super) fn keep<'a>(&self, item: &'a [u8]) -> Cow<'a, [u8]> {
        self.item.keep(item)
    }

    /// Returns a document, or the text that replaces it. A document that may contain a hidden value is hidden
    /// completely.
    pub(super) fn keep_document<'a>(&self, document: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.item {
            ItemPlan::Whole if !self.hides_documents => document.into(),
            ItemPlan::Whole | ItemPlan::Fields(_) => HIDDEN.as_bytes().into(),
        }
    }
}

impl ItemPlan {
    fn new(columns: &[ColumnSpec]) -> Self {
        let of_item = |column: &&ColumnSpec| {
            matches!(column.source, Source::RecordField(_) | Source::Record | Source::Body)
        };
        let is_hidden = |column: &ColumnSpec| column.rules.redaction.is_some();
        if !columns.iter().filter(of_item).any(is_hidden) {
            return Self::Whole;
        }
        let shown = columns.iter().filter(|column| !is_hidden(column));
        Self::Fields(PathTree::of(shown.filter_map(|column| match &column.source {
            Source::RecordField(path) => Some(path),
            _ => None,
        })))
    }

    /// Returns the part of an item that is kept. An item that is not an object is hidden completely, because
    /// its content is unknown.
    fn keep<'a>(&self, item: &'a [u8]) -> Cow<'a, [u8]> {
        let Self::Fields(shown) = self else { return item.into() };
        match serde_json::from_slice::<&RawValue>(item) {
            Ok(item) if item.get().starts_with('{') => shown.masked(item, HIDDEN).into_bytes().into(),
            _ => HIDDEN.as_bytes().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::stream::FieldPath;

    #[test]
    fn a_reject_keeps_the_fields_that_no_column_hides() {
        let plan = ItemPlan::Fields(PathTree::of([&FieldPath::of_name("a")]));
        let check = |item: &str, expect: &str| assert_eq!(plan.keep(item.as_bytes()), expect.as_bytes());
        check(r#"{"secret":"x","a":[1]}"#, r#"{"a":[1],"secret":"(redacted)"}"#);
        check(r#"{"typo":{"secret":1}}"#, r#"{"typo":"(redacted)"}"#);
        check("[\"x\"]", HIDDEN);
        check("{\"secret\":", HIDDEN);
    }

    #[test]
    fn a_reject_keeps_a_nested_field_without_the_fields_around_it() {
        let plan = ItemPlan::Fields(PathTree::of([&FieldPath::parse("/a/b").unwrap()]));
        let check = |item: &str, expect: &str| assert_eq!(plan.keep(item.as_bytes()), expect.as_bytes());
        check(r#"{"a":{"b":1,"c":"x"}}"#, r#"{"a":{"b":1,"c":"(redacted)"}}"#);
        check(r#"{"a":"x"}"#, r#"{"a":"(redacted)"}"#);
    }
}

//! The item of a reject, without the values that columns hide.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

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

/// The part of an item that a reject keeps.
#[derive(Debug)]
pub(super) enum ItemPlan {
    Whole,
    /// Only the values of these fields are kept, because a column hides another field or the whole item.
    Fields(Vec<String>),
}

impl ItemPlan {
    pub(super) fn new(columns: &[ColumnSpec]) -> Self {
        let of_item = |column: &&ColumnSpec| {
            matches!(column.source, Source::RecordField(_) | Source::Record | Source::Body)
        };
        let is_hidden = |column: &ColumnSpec| column.rules.redaction.is_some();
        if !columns.iter().filter(of_item).any(is_hidden) {
            return Self::Whole;
        }
        let shown = columns.iter().filter(|column| !is_hidden(column));
        Self::Fields(
            shown
                .filter_map(|column| match &column.source {
                    Source::RecordField(name) => Some(name.clone()),
                    _ => None,
                })
                .collect(),
        )
    }

    /// Returns the part of an item that is kept. An item that is not an object is hidden completely, because
    /// its content is unknown.
    pub(super) fn keep<'a>(&self, item: &'a [u8]) -> Cow<'a, [u8]> {
        let Self::Fields(shown) = self else { return item.into() };
        let Ok(fields) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(item) else {
            return HIDDEN.as_bytes().into();
        };
        let fields = fields.into_iter().map(|(name, value)| {
            let value = if shown.contains(&name) { value.get() } else { HIDDEN };
            format!("{}:{value}", serde_json::Value::from(name))
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(",")).into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reject_keeps_the_fields_that_no_column_hides() {
        let plan = ItemPlan::Fields(vec!["a".to_owned()]);
        let check = |item: &str, expect: &str| assert_eq!(plan.keep(item.as_bytes()), expect.as_bytes());
        check(r#"{"secret":"x","a":[1]}"#, r#"{"a":[1],"secret":"(redacted)"}"#);
        check(r#"{"typo":{"secret":1}}"#, r#"{"typo":"(redacted)"}"#);
        check("[\"x\"]", HIDDEN);
        check("{\"secret\":", HIDDEN);
    }
}

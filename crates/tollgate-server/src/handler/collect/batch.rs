//! The items of one body, each with the envelope that it came in.

use serde_json::value::RawValue;

use crate::handler::items::{self, DocumentFault, ITEMS_MAX, Item, SplitError, json_of, split};
use crate::handler::structure;
use crate::options::stream::FieldPath;
use crate::row::{FoundValues, PathTree};

/// The items of one body.
#[derive(Debug)]
pub(in crate::handler) struct Batch<'a> {
    pub(in crate::handler) items: Vec<Item<'a>>,
    envelopes: Vec<Envelope<'a>>,
    /// The first document of the body.
    first: Option<Item<'a>>,
}

/// The values that all items of a document share.
#[derive(Debug)]
struct Envelope<'a> {
    /// Number of items of this document and all documents before it.
    until: usize,
    values: Vec<Option<&'a RawValue>>,
}

/// The place of the items in a document, and the places of the values around them.
pub(in crate::handler) struct DocumentPlan {
    /// The paths of the envelope, then the path of the items.
    tree: PathTree,
    items: FieldPath,
    envelope: Vec<FieldPath>,
}

impl<'a> Batch<'a> {
    /// Splits a body of which each document is an item.
    ///
    /// # Errors
    /// The body has no item, or too many.
    pub(super) fn of_items(body: &'a [u8]) -> Result<Self, SplitError> {
        let items = split(body)?;
        let first = items.first().copied();
        Ok(Self { items, envelopes: Vec::new(), first })
    }

    /// Returns the first document of the body, if it is JSON.
    pub(in crate::handler) fn first_document(&self) -> Option<&'a RawValue> {
        self.first?.value().ok()
    }

    /// Returns the values around an item.
    pub(in crate::handler) fn envelope(&self, index: usize) -> &[Option<&'a RawValue>] {
        let place = self.envelopes.partition_point(|envelope| envelope.until <= index);
        self.envelopes.get(place).map_or(&[], |envelope| &envelope.values)
    }
}

impl DocumentPlan {
    pub(super) fn new(items: &FieldPath, envelope: &[FieldPath]) -> Self {
        let tree = PathTree::of(envelope.iter().chain([items]));
        Self { tree, items: items.clone(), envelope: envelope.to_vec() }
    }

    /// Splits a body into documents, and each document into its items.
    ///
    /// # Errors
    /// The body has no document that is JSON, or has too many items.
    pub(super) fn split<'a>(&self, body: &'a [u8]) -> Result<Batch<'a>, SplitError> {
        let documents = match split(body) {
            Ok(documents) => documents,
            Err(SplitError::TooMany) => return Err(SplitError::TooMany),
            // An item that is not JSON spoils its document too, but not the other items of the document.
            Err(error) => self.spoilt(body).ok_or(error)?,
        };
        let first = documents.first().copied();
        let mut batch = Batch { items: Vec::new(), envelopes: Vec::new(), first };
        for document in documents {
            let (items, values) = match document.value() {
                Ok(value) => self.parts(value)?,
                Err(_) => self.parts_of_spoilt(document)?,
            };
            batch.items.extend(items);
            if batch.items.len() > ITEMS_MAX {
                return Err(SplitError::TooMany);
            }
            batch.envelopes.push(Envelope { until: batch.items.len(), values });
        }
        Ok(batch)
    }

    /// Returns the items of a document, and the values around them.
    fn parts<'a>(&self, document: &'a RawValue) -> Result<Parts<'a>, SplitError> {
        let mut found = FoundValues::new(self.envelope.len() + 1, false);
        let text = document.get().as_bytes();
        if self.tree.find(document, &mut found).is_err() {
            return Ok((vec![Item::Document(text, DocumentFault::RepeatedField)], Vec::new()));
        }
        let mut values = found.values;
        let items = match values.pop().flatten() {
            Some(items) if items.get().starts_with('[') => items::array(items)?,
            Some(item) if item.get().starts_with('{') => vec![Item::Json(item)],
            _ => vec![Item::Document(text, DocumentFault::NoItems)],
        };
        Ok((items, values))
    }

    /// Returns a body as a document that is not JSON, if one of its items is JSON.
    fn spoilt<'a>(&self, body: &'a [u8]) -> Option<Vec<Item<'a>>> {
        let document = structure::trimmed(body);
        let mut elements = structure::elements(at(document, &self.items)?)?;
        elements.any(|element| json_of(element).is_ok()).then(|| vec![Item::Part(document)])
    }

    /// Returns the items of a document that is not JSON, and the values around them that are JSON.
    fn parts_of_spoilt<'a>(&self, document: Item<'a>) -> Result<Parts<'a>, SplitError> {
        let text = document.text();
        let Some(elements) = at(text, &self.items).and_then(structure::elements) else {
            return Ok((vec![Item::Document(text, DocumentFault::NotJson)], Vec::new()));
        };
        let value = |path| at(text, path).and_then(|value| json_of(value).ok());
        Ok((items::parts(elements)?, self.envelope.iter().map(value).collect()))
    }
}

/// The items of a document, and the values around them.
type Parts<'a> = (Vec<Item<'a>>, Vec<Option<&'a RawValue>>);

fn at<'a>(document: &'a [u8], path: &FieldPath) -> Option<&'a [u8]> {
    path.tokens().iter().try_fold(document, |text, token| structure::part(text, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expect: &[(&str, Option<&str>)]) {
        let path = |text| FieldPath::parse(text).unwrap();
        let plan = DocumentPlan::new(&path("/data/batch"), &[path("id")]);
        let batch = plan.split(body.as_bytes()).unwrap();
        let found = batch.items.iter().enumerate().map(|(index, item)| {
            let id = batch.envelope(index).first().copied().flatten();
            (std::str::from_utf8(item.text()).unwrap(), id.map(RawValue::get))
        });
        assert_eq!(found.collect::<Vec<_>>(), expect, "{body}");
    }

    #[test]
    fn items_have_the_values_around_them() {
        check(
            r#"{"id":7,"data":{"batch":[{"a":1},{"a":2}]}}"#,
            &[(r#"{"a":1}"#, Some("7")), (r#"{"a":2}"#, Some("7"))],
        );
        check(r#"{"data":{"batch":{"a":1}}}"#, &[(r#"{"a":1}"#, None)]);
        let lines = [
            r#"{"id":1,"data":{"batch":[{}]}}"#,
            r#"{"id":2,"data":{"batch":[]}}"#,
            r#"{"id":3,"data":{"batch":[[]]}}"#,
        ];
        check(&lines.join("\n"), &[("{}", Some("1")), ("[]", Some("3"))]);
    }

    #[test]
    fn a_document_without_items_is_one_item() {
        check(r#"{"id":7}"#, &[(r#"{"id":7}"#, Some("7"))]);
        check(r#"{"data":{"batch":5}}"#, &[(r#"{"data":{"batch":5}}"#, None)]);
    }

    #[test]
    fn an_item_that_is_no_json_spoils_only_itself() {
        check(
            r#"{"x":Infinity,"id":7,"data":{"batch":[{"a":NaN},{"a":1}]}}"#,
            &[(r#"{"a":NaN}"#, Some("7")), (r#"{"a":1}"#, Some("7"))],
        );
    }
}

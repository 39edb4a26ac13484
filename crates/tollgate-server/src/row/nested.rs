//! The nested fields of records that a stream keeps.

use serde_json::value::RawValue;

use super::path_tree::{FoundValues, PathTree};

/// The nested fields of records that a stream keeps.
#[derive(Debug, Default)]
pub(crate) struct NestedFields {
    roots: Vec<Root>,
    /// For each nested field, the index of the field of the record that contains it.
    tops: Vec<usize>,
}

/// A field of the record with nested fields.
#[derive(Debug)]
struct Root {
    /// The index of the field of the record.
    top: usize,
    name: String,
    tree: PathTree,
    /// Whether a column or the key takes the field itself, with all its parts.
    is_kept: bool,
}

impl NestedFields {
    /// Adds a nested field, and returns its index. `top` is the index of the field that contains it.
    pub(super) fn add(&mut self, (top, name): (usize, &str), below: &[String]) -> usize {
        let place = self.tops.len();
        self.tops.push(top);
        let known = self.roots.iter().position(|root| root.top == top);
        let root = known.unwrap_or_else(|| {
            let name = name.to_owned();
            self.roots.push(Root { top, name, tree: PathTree::default(), is_kept: false });
            self.roots.len() - 1
        });
        self.roots[root].tree.add(below, place);
        place
    }

    /// Sets which fields of the record a column or the key takes with all their parts.
    pub(super) fn note_kept(&mut self, is_kept: impl Fn(usize) -> bool) {
        self.roots.iter_mut().for_each(|root| root.is_kept = is_kept(root.top));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Returns the index of the field of the record that contains a nested field.
    pub(crate) fn top(&self, nested: usize) -> Option<usize> {
        self.tops.get(nested).copied()
    }

    /// Returns the indexes of the fields of the record that contain nested fields.
    pub(crate) fn all_tops(&self) -> impl Iterator<Item = usize> {
        self.roots.iter().map(|root| root.top)
    }

    /// Finds all nested fields. `field` returns the value of a field of the record.
    ///
    /// # Errors
    /// A field is repeated.
    pub(crate) fn find<'v>(
        &self,
        field: impl Fn(usize) -> Option<&'v RawValue>,
        lists_unknown: bool,
    ) -> Result<FoundValues<'v>, String> {
        let mut found = FoundValues::new(self.tops.len(), lists_unknown);
        for Root { top, name, tree, is_kept } in &self.roots {
            let Some(value) = field(*top) else { continue };
            let unknown = if *is_kept { found.unknown.take() } else { None };
            let read = found.read_part(name, Some(tree), value);
            found.unknown = unknown.or(found.unknown);
            read.map_err(|error| format!("item: {error}"))?;
        }
        Ok(found)
    }
}

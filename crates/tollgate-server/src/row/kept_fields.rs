//! The fields of records and of documents that a stream keeps.

use tollgate_script::RecordFields;

use super::given::FieldPlace;
use super::nested::NestedFields;
use crate::options::stream::FieldPath;

/// The fields that the columns and the key of a stream keep, while its plan is made.
#[derive(Debug, Default)]
pub(super) struct KeptFields {
    pub(super) fields: RecordFields,
    pub(super) nested: NestedFields,
    pub(super) envelope: Vec<FieldPath>,
    /// For each name in `fields`, whether the whole field is kept, and not only nested fields of it.
    is_whole: Vec<bool>,
}

impl KeptFields {
    /// Returns the place of a field of the record. A new field is added.
    pub(super) fn place(&mut self, path: &FieldPath) -> FieldPlace {
        let (name, below) = match path.tokens() {
            [] => ("", &[][..]),
            [name, below @ ..] => (name.as_str(), below),
        };
        let top = self.top(name);
        if below.is_empty() {
            self.is_whole[top] = true;
            return FieldPlace::Top(top);
        }
        FieldPlace::Nested(self.nested.add((top, name), below))
    }

    fn top(&mut self, name: &str) -> usize {
        let names = &mut self.fields.names;
        names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            self.is_whole.push(false);
            names.len() - 1
        })
    }

    /// Returns the index of a field of the document around the record. A new field is added.
    pub(super) fn envelope_place(&mut self, path: &FieldPath) -> usize {
        self.envelope.iter().position(|known| known == path).unwrap_or_else(|| {
            self.envelope.push(path.clone());
            self.envelope.len() - 1
        })
    }

    /// Ends the list of fields.
    pub(super) fn finish(mut self) -> (RecordFields, NestedFields, Vec<FieldPath>) {
        self.nested.note_kept(|top| self.is_whole.get(top).copied().unwrap_or_default());
        (self.fields, self.nested, self.envelope)
    }
}

//! A stream in a worker.

use std::borrow::Cow;

use tollgate_log::{ColumnType, SchemaId, Transaction, Value, ValueError};
use tollgate_script::{EmitStream, RecordFields};

use super::column_writer::{PreparedRules, Ruled};
use super::given::{FieldPlace, Given};
use super::kept_fields::KeptFields;
use super::key::KeyPlan;
use super::nested::NestedFields;
use super::reject::RejectPlan;
use super::{ColumnWriter, Facts, Target, fit};
use crate::options::stream::{Ack, ColumnSpec, FieldPath, Source, StreamSpec, UnknownFields};

/// The columns of a stream, with the source of each value.
#[derive(Debug)]
pub(crate) struct StreamPlan {
    pub(crate) name: String,
    pub(crate) id: SchemaId,
    pub(crate) ack: Ack,
    pub(crate) unknown: UnknownFields,
    /// The fields of a record that are kept. The first name of each [`Source::RecordField`] is there once.
    /// The value also states whether the whole record is kept.
    pub(crate) fields: RecordFields,
    /// The nested fields that are kept.
    pub(crate) nested: NestedFields,
    /// The fields of the document around a record that are kept.
    pub(crate) envelope: Vec<FieldPath>,
    pub(super) columns: Vec<ColumnPlan>,
    pub(super) key: Option<KeyPlan>,
    rejected: RejectPlan,
}

#[derive(Debug)]
pub(super) struct ColumnPlan {
    pub(super) target: Target,
    pub(super) filling: Filling,
    /// Rules of the column. `None` if values are written into the row unchanged.
    pub(super) rules: Option<PreparedRules>,
}

/// The source of the value of a column.
#[derive(Debug)]
pub(super) enum Filling {
    Fact(Source),
    Given(ColumnInput),
    /// The index of a field in [`StreamPlan::envelope`].
    Envelope(usize),
    /// The name of this machine.
    Node(Box<str>),
}

/// The part of a record that a column keeps.
#[derive(Debug, Clone, Copy)]
pub(super) enum ColumnInput {
    Field(FieldPlace),
    Whole,
}

impl StreamPlan {
    /// Plans a stream. `node` is the name of this machine.
    pub(crate) fn new(id: SchemaId, spec: &StreamSpec, node: &str) -> Self {
        let mut kept = KeptFields::default();
        let columns = spec.columns.iter().map(|column| ColumnPlan::new(column, node, &mut kept)).collect();
        let key = spec.key.as_ref().map(|key| KeyPlan::new(key, &mut kept));
        let (fields, nested, envelope) = kept.finish();
        Self {
            name: spec.name.clone(),
            id,
            ack: spec.ack,
            unknown: spec.unknown,
            fields,
            nested,
            envelope,
            columns,
            key,
            rejected: RejectPlan::new(&spec.columns),
        }
    }

    /// Returns the facts that scripts need to emit records to the stream.
    pub(crate) fn for_scripts(&self) -> EmitStream {
        EmitStream {
            name: self.name.clone(),
            fields: self.fields.clone(),
            ignores_unknown: self.unknown == UnknownFields::Ignore,
            awaits: self.ack.sink(),
        }
    }

    /// Fills a row.
    ///
    /// # Errors
    /// The first value that does not fit its column.
    pub(crate) fn fill(
        &self,
        row: &mut impl ColumnWriter,
        facts: &Facts<'_>,
        given: &impl Given,
    ) -> Result<(), ValueError> {
        for ColumnPlan { target, filling, rules } in &self.columns {
            match rules {
                None => filling.push(target, row, facts, given)?,
                Some(rules) => filling.push(target, &mut Ruled { target, rules, row }, facts, given)?,
            }
        }
        match &self.key {
            Some(key) => key.push(facts, given, row),
            None => Ok(()),
        }
    }

    /// Lists the paths of values in the look-ahead of a request, each once.
    pub(crate) fn look_ahead_paths(&self) -> Vec<String> {
        let columns = self.columns.iter().filter_map(|column| match &column.filling {
            Filling::Fact(source) => Some(source),
            _ => None,
        });
        let sources = columns.chain(self.key.as_ref().and_then(KeyPlan::fact));
        let paths = sources.filter_map(|source| match source {
            Source::RequestXml(path) => Some(path.clone()),
            _ => None,
        });
        let mut paths: Vec<_> = paths.collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    pub(super) fn column_names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.target.name.as_str())
    }

    /// Returns whether a column of type bytes keeps this field.
    pub(crate) fn is_bytes(&self, field: usize) -> bool {
        self.columns.iter().any(|column| {
            let place = FieldPlace::Top(field);
            let of_field = matches!(column.filling, Filling::Given(ColumnInput::Field(of)) if of == place);
            of_field && column.target.kind == ColumnType::Bytes
        })
    }

    /// Returns whether a record with fields that are not kept is a reject.
    pub(crate) fn refuses_unknown(&self) -> bool {
        self.unknown == UnknownFields::Reject && !self.fields.whole
    }

    /// Returns the part of an item that a reject keeps.
    pub(crate) fn kept_of<'i>(&self, item: &'i [u8]) -> Cow<'i, [u8]> {
        self.rejected.keep(item)
    }

    /// Returns the part of a document around items that a reject keeps.
    pub(crate) fn kept_of_document<'i>(&self, document: &'i [u8]) -> Cow<'i, [u8]> {
        self.rejected.keep_document(document)
    }

    /// Appends an item as a reject, without the values that columns hide.
    pub(crate) fn reject(&self, log: &mut Transaction<'_>, reason: &str, item: &[u8]) {
        log.reject(self.id, reason, &self.kept_of(item));
    }
}

impl ColumnPlan {
    fn new(spec: &ColumnSpec, node: &str, kept: &mut KeptFields) -> Self {
        let is_hidden = spec.rules.redaction.is_some();
        Self {
            target: Target {
                name: spec.name.clone(),
                kind: spec.kind,
                times: spec.times.clone(),
                coerce: spec.coerce,
                is_hidden,
            },
            filling: Filling::new(&spec.source, node, kept),
            rules: PreparedRules::new(&spec.rules),
        }
    }
}

impl Filling {
    fn new(source: &Source, node: &str, kept: &mut KeptFields) -> Self {
        match source {
            Source::LogNode => Self::Node(node.into()),
            Source::RecordField(path) => Self::Given(ColumnInput::Field(kept.place(path))),
            Source::EnvelopeField(path) => Self::Envelope(kept.envelope_place(path)),
            Source::Record => {
                kept.fields.whole = true;
                Self::Given(ColumnInput::Whole)
            }
            source => Self::Fact(source.clone()),
        }
    }

    fn push(
        &self,
        target: &Target,
        cell: &mut impl ColumnWriter,
        facts: &Facts<'_>,
        given: &impl Given,
    ) -> Result<(), ValueError> {
        match self {
            Self::Fact(source) => facts.push(source, target, cell),
            Self::Given(part) => part.push(target, cell, given),
            Self::Envelope(field) => match given.envelope(*field) {
                Some(value) => fit::push_json_value(value, target, cell),
                None => cell.push(Value::Null),
            },
            Self::Node(node) if node.is_empty() => cell.push(Value::Null),
            Self::Node(node) => cell.push(Value::Text(node)),
        }
    }
}

impl ColumnInput {
    pub(super) fn push(
        self,
        target: &Target,
        cell: &mut impl ColumnWriter,
        given: &impl Given,
    ) -> Result<(), ValueError> {
        match self {
            Self::Field(field) => given.push_field(field, target, cell),
            Self::Whole => given.push_whole(target, cell),
        }
    }
}

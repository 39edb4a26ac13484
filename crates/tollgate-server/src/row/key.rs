//! The key of a record, which is a digest of the value that a client sends to mark retries.
//!
//! A digest has 32 bytes for every key. A record has a key only if its handler succeeded. The first record
//! with a key becomes the row. If a failure had the key, a later success with the same key would make no row.

use std::borrow::Cow;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tollgate_log::{Value, ValueError};

use super::given::{FieldPlace, Given};
use super::halves::text_with_halves;
use super::kept_fields::KeptFields;
use super::{ColumnWriter, Facts};
use crate::options::stream::{KeySpec, Source};

/// The source of the key.
#[derive(Debug)]
pub(super) enum KeyPlan {
    Fact(Source),
    Field(FieldPlace),
    /// The index of a value of the document around the record.
    Envelope(usize),
}

impl KeyPlan {
    pub(super) fn new(spec: &KeySpec, kept: &mut KeptFields) -> Self {
        match &spec.source {
            Source::RecordField(path) => Self::Field(kept.place(path)),
            Source::EnvelopeField(path) => Self::Envelope(kept.envelope_place(path)),
            source => Self::Fact(source.clone()),
        }
    }

    /// Returns the source of the key, if it is no value of a record.
    pub(super) fn fact(&self) -> Option<&Source> {
        match self {
            Self::Fact(source) => Some(source),
            Self::Field(_) | Self::Envelope(_) => None,
        }
    }

    /// Writes the key of a record into the row, or null if the record has no key. An empty key counts as no
    /// key, and a failure has no key.
    ///
    /// A request may have many records. For each record except the first, the index of the record is part of
    /// the digest. The keys of a retry are therefore the same.
    ///
    /// # Errors
    /// The field is neither a text nor an integer.
    pub(super) fn push(
        &self,
        facts: &Facts<'_>,
        given: &impl Given,
        cell: &mut impl ColumnWriter,
    ) -> Result<(), ValueError> {
        let (bytes, place) = match self {
            _ if !facts.ending.is_success() => (None, 0),
            Self::Fact(source) => (facts.bytes(source), given.place()),
            Self::Field(field) => (given.key(*field)?, 0),
            Self::Envelope(field) => (of_json(given.envelope(*field))?, given.place()),
        };
        match bytes.filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => cell.push(Value::Bytes(&digest(&bytes, place))),
            None => cell.push(Value::Null),
        }
    }

    /// Returns the key of an item, if the key is one of its fields.
    ///
    /// # Errors
    /// The field is neither a text nor an integer.
    pub(super) fn of_item(&self, given: &impl Given) -> Result<Option<[u8; 32]>, ValueError> {
        let Self::Field(field) = self else { return Ok(None) };
        let bytes = given.key(*field)?.filter(|bytes| !bytes.is_empty());
        Ok(bytes.map(|bytes| digest(&bytes, 0)))
    }
}

fn digest(bytes: &[u8], place: usize) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(bytes);
    if place > 0 {
        hasher.update([0]);
        hasher.update((place as u64).to_le_bytes());
    }
    hasher.finalize().into()
}

/// Returns the key of a JSON value. An absent value is `None`.
///
/// # Errors
/// The value is neither a text nor an integer.
pub(crate) fn of_json(value: Option<&RawValue>) -> Result<Option<Cow<'static, [u8]>>, ValueError> {
    let Some(value) = value else { return Ok(None) };
    match serde_json::from_str(value.get()) {
        Ok(serde_json::Value::Null) => Ok(None),
        Ok(serde_json::Value::String(text)) => Ok(Some(text.into_bytes().into())),
        Err(_) if value.get().starts_with('"') => Ok(Some(text_with_halves(value.get()).into_bytes().into())),
        Ok(serde_json::Value::Number(number)) => number.as_i64().map(of_int).map(Some).ok_or_else(unfit),
        _ => Err(unfit()),
    }
}

/// Creates the error for a key that is neither a text nor an integer.
pub(crate) fn unfit() -> ValueError {
    ValueError::Unfit {
        column: crate::options::stream::KEY_COLUMN.to_owned(),
        found: "another value".to_owned(),
        allowed: "a text or an integer".into(),
    }
}

/// Returns the key of an integer.
pub(crate) fn of_int(value: i64) -> Cow<'static, [u8]> {
    value.to_string().into_bytes().into()
}

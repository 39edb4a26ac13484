//! The key of a record: a digest of what the client sent to tell a retry from another request.
//!
//! It is a digest so that every key has 32 bytes, whatever a client sends. A record has one if its handler
//! succeeded: the first record of a key is the row, and one of a failure would take the place of the success
//! that a retry brings.

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use tollgate_log::{Value, ValueError};

use super::given::Given;
use super::{ColumnWriter, Facts};
use crate::options::stream::{KeySpec, Source};

/// Where the key of a record comes from.
#[derive(Debug)]
pub(super) enum KeyPlan {
    Fact(Source),
    /// By its place in the fields of the plan.
    Field(usize),
}

impl KeyPlan {
    pub(super) fn new(spec: &KeySpec, place_of: impl FnOnce(&str) -> usize) -> Self {
        match &spec.source {
            Source::RecordField(name) => Self::Field(place_of(name)),
            source => Self::Fact(source.clone()),
        }
    }

    /// Puts the key of a record, or null if it has none. An empty one is none, and a failure has none.
    ///
    /// A request may bring many records: each but the first has its place in what is digested, so that a
    /// retry has the same keys again.
    ///
    /// # Errors
    /// A field that is neither a text nor an integer.
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
        };
        match bytes.filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => cell.push(Value::Bytes(&digest(&bytes, place))),
            None => cell.push(Value::Null),
        }
    }

    /// The key that an item holds itself.
    ///
    /// # Errors
    /// A field that is neither a text nor an integer.
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

/// A key that is no text and no integer.
pub(crate) fn unfit() -> ValueError {
    ValueError::Unfit {
        column: crate::options::stream::KEY_COLUMN.to_owned(),
        found: "another value".to_owned(),
        allowed: "a text or an integer",
    }
}

/// The key that an integer is.
pub(crate) fn of_int(value: i64) -> Cow<'static, [u8]> {
    value.to_string().into_bytes().into()
}

//! Rejects: the data that a sink stores of them, and their retry.
//!
//! The stored item depends on where the record was refused. A row that the database refused is stored with
//! one field for each column. An item that was refused at ingest is stored as the client sent it. At a retry,
//! the current configuration decides which columns the fields of such an item fill.

use std::borrow::Cow;

use tollgate_log::{Schema, Value};

use super::json::{ItemRow, row_as_json};
use super::key::{KeptKey, Key};

/// Number of rejects that are retried in one transaction.
pub(super) const RETRIED_AT_ONCE: i64 = 500;

/// Where a record was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusedBy {
    Ingest,
    Database,
}

impl RefusedBy {
    /// Returns the name in databases.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Database => "database",
        }
    }

    /// Reads the name in databases. An older reject without a name counts as refused by the database.
    fn read(name: Option<&str>) -> Self {
        if name == Some(Self::Ingest.name()) { Self::Ingest } else { Self::Database }
    }
}

/// A record that becomes a reject.
pub(super) struct Refused<'a> {
    pub(super) by: RefusedBy,
    pub(super) reason: Cow<'a, str>,
    pub(super) item: Cow<'a, [u8]>,
    pub(super) key: Option<Key<'a>>,
}

impl<'a> Refused<'a> {
    /// Makes the reject of an item that was refused at ingest.
    pub(super) fn at_ingest(reason: &'a str, item: &'a [u8]) -> Self {
        Self { by: RefusedBy::Ingest, reason: reason.into(), item: item.into(), key: None }
    }

    /// Makes the reject of a row that the database refused.
    pub(super) fn row(reason: String, schema: &Schema, values: &[Value<'a>]) -> Self {
        let (item, key) = (row_as_json(schema, values).into(), Key::of(schema, values));
        Self { by: RefusedBy::Database, reason: reason.into(), item, key }
    }
}

/// Function that reads an item that was refused at ingest, with the columns of the current streams. Returns
/// its row, or the reason why the item does not fit.
pub type ReadItem<'a> = dyn Fn(&str, &[u8]) -> Result<ItemRow, String> + 'a;

/// A reject that is retried. The type of its log id depends on the database.
pub(super) struct Reject<L> {
    pub(super) log: L,
    pub(super) sequence: i64,
    pub(super) stream: String,
    pub(super) reason: String,
    /// Columns of the reject as a JSON object, or the reason why the item does not fit its stream.
    pub(super) item: Result<Vec<u8>, String>,
    pub(super) key: Option<KeptKey>,
}

/// A reject as a database stores it.
pub(super) struct StoredReject<L> {
    pub(super) log: L,
    pub(super) sequence: i64,
    pub(super) stream: String,
    pub(super) reason: String,
    pub(super) item: Vec<u8>,
    pub(super) key: Option<KeptKey>,
    pub(super) refused_by: Option<String>,
}

impl<L> StoredReject<L> {
    pub(super) fn read(self, read: &ReadItem<'_>) -> Reject<L> {
        let Self { log, sequence, stream, reason, item, key, refused_by } = self;
        let (item, key) = match RefusedBy::read(refused_by.as_deref()) {
            RefusedBy::Database => (Ok(item), key),
            RefusedBy::Ingest => match read(&stream, &item) {
                Ok(row) => (Ok(row.to_json()), row.key),
                Err(reason) => (Err(reason), None),
            },
        };
        Reject { log, sequence, stream, reason, item, key }
    }
}

/// Counts of retried rejects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retried {
    /// Number of rejects that became rows.
    pub loaded: u64,
    /// Number of rejects whose key another record now has.
    pub duplicates: u64,
    /// Number of rejects that still do not fit.
    pub kept: u64,
}

impl Retried {
    pub(super) fn count(&mut self, fate: Fate) {
        *match fate {
            Fate::Loaded => &mut self.loaded,
            Fate::Duplicate => &mut self.duplicates,
            Fate::Kept => &mut self.kept,
        } += 1;
    }
}

/// Result of one retried reject.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    Loaded,
    Duplicate,
    Kept,
}

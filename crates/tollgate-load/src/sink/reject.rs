//! Records that are no rows: what a sink keeps of them, and what they are when they are tried again.
//!
//! Who refused it decides how an item is read. A row that the database refused is written down by its
//! columns. What was no row when it came is as a client sent it, by the fields of its stream: what columns
//! they fill is asked of the configuration of today.

use std::borrow::Cow;

use tollgate_log::{Schema, Value};

use super::json::{ItemRow, row_as_json};
use super::key::{KeptKey, Key};

/// Rejects that are tried again in one transaction.
pub(super) const RETRIED_AT_ONCE: i64 = 500;

/// Who refused a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusedBy {
    Ingest,
    Database,
}

impl RefusedBy {
    /// As databases hold it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Database => "database",
        }
    }

    /// Rejects that do not say it were kept when nobody asked: rows, as far as one can tell.
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
    /// An item that was no row when it came.
    pub(super) fn at_ingest(reason: &'a str, item: &'a [u8]) -> Self {
        Self { by: RefusedBy::Ingest, reason: reason.into(), item: item.into(), key: None }
    }

    /// A row that the database does not take.
    pub(super) fn row(reason: String, schema: &Schema, values: &[Value<'a>]) -> Self {
        let (item, key) = (row_as_json(schema, values).into(), Key::of(schema, values));
        Self { by: RefusedBy::Database, reason: reason.into(), item, key }
    }
}

/// What the streams of today make of an item that was no row when it came, or why it is none.
pub type ReadItem<'a> = dyn Fn(&str, &[u8]) -> Result<ItemRow, String> + 'a;

/// A reject that is tried again, with the id of its log as its database has ids.
pub(super) struct Reject<L> {
    pub(super) log: L,
    pub(super) sequence: i64,
    pub(super) stream: String,
    pub(super) reason: String,
    /// Its columns as a JSON object; or why it has none.
    pub(super) item: Result<Vec<u8>, String>,
    pub(super) key: Option<KeptKey>,
}

/// A reject as a database keeps it.
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

/// What became of rejects that were tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retried {
    /// They are rows now.
    pub loaded: u64,
    /// Another record had their key by now.
    pub duplicates: u64,
    /// They stay rejects.
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

/// What became of one of them.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    Loaded,
    Duplicate,
    Kept,
}

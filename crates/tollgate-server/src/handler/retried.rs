//! Reads rejected items again, with the columns that their stream has now.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::value::RawValue;
use tollgate_log::{ColumnType, SchemaId, Value, ValueError};

use super::collect::CollectedItem;
use super::items::Item;
use crate::options::stream::{ColumnSpec, KEY_COLUMN, Overlong, StreamSpec};
use crate::row::{ColumnWriter, FieldPlace, Given, StreamPlan, Target, is_marker};

/// Reads the items of rejects with the streams of a configuration, like `collect`. Two bounds do not apply: a
/// `max` that rejects values, and the depth of JSON. The table of the database decides whether such values
/// fit.
///
/// A reject keeps only the item of its transaction. Columns of other sources therefore have no value, and a
/// key that came with the request is missing.
#[derive(Debug)]
pub struct ItemReader {
    streams: BTreeMap<String, Stream>,
}

#[derive(Debug)]
struct Stream {
    plan: StreamPlan,
    key_window: Option<Duration>,
}

/// The key of an item: its digest, and the time for which a sink remembers it.
pub type ItemKey = ([u8; 32], Duration);

impl ItemReader {
    /// Creates a reader for the items of `streams`.
    pub fn new(streams: &[StreamSpec]) -> Self {
        let stream = |spec: &StreamSpec| {
            let key_window = spec.key.as_ref().map(|key| key.window);
            // The machine that retries may be another one than the machine of the record.
            let plan = StreamPlan::new(SchemaId(0), &unbounded(spec), "");
            (spec.name.clone(), Stream { plan, key_window })
        };
        Self { streams: streams.iter().map(stream).collect() }
    }

    /// Calls `take` with the value of each column that the item has, and returns the key of the item.
    ///
    /// # Errors
    /// The reason why the item is not a row of that stream.
    pub fn read(
        &self,
        stream: &str,
        item: &[u8],
        take: &mut dyn FnMut(&str, &Value<'_>),
    ) -> Result<Option<ItemKey>, String> {
        let Some(Stream { plan, key_window }) = self.streams.get(stream) else {
            return Err(format!("stream {stream:?} is not configured"));
        };
        let item = CollectedItem::new(Item::Part(item), 0, plan, &[])?;
        let item = RetriedItem { item, plan };
        let key = plan.fill_of_item(&item, take).map_err(|error| error.to_string())?;
        Ok(key.zip(*key_window))
    }
}

fn unbounded(spec: &StreamSpec) -> StreamSpec {
    let mut spec = spec.clone();
    let refuses =
        |column: &&mut ColumnSpec| column.rules.bytes_max.is_some_and(|max| max.overlong == Overlong::Reject);
    spec.columns.iter_mut().filter(refuses).for_each(|column| column.rules.bytes_max = None);
    spec
}

/// An item that a reject kept. Values of the item may be missing.
struct RetriedItem<'a> {
    item: CollectedItem<'a>,
    plan: &'a StreamPlan,
}

impl<'a> RetriedItem<'a> {
    /// Returns the value of a field, or the marker that replaces it or the field around it.
    fn field(&self, field: FieldPlace) -> Option<&'a RawValue> {
        let around = match field {
            FieldPlace::Top(_) => None,
            FieldPlace::Nested(field) => self.plan.nested.top(field),
        };
        let around = around.and_then(|top| self.item.field(FieldPlace::Top(top)));
        around.filter(|value| is_marker(value)).or_else(|| self.item.field(field))
    }
}

impl Given for RetriedItem<'_> {
    fn push_field(
        &self,
        field: FieldPlace,
        target: &Target,
        cell: &mut impl ColumnWriter,
    ) -> Result<(), ValueError> {
        match self.field(field) {
            Some(value) if is_marker(value) => Err(not_kept(&target.name, target.kind.name())),
            Some(value) if target.kind == ColumnType::Json && value.get() != "null" => {
                cell.push(Value::Json(value.get()))
            }
            _ => self.item.push_field(field, target, cell),
        }
    }

    fn push_whole(&self, target: &Target, cell: &mut impl ColumnWriter) -> Result<(), ValueError> {
        let whole = self.item.whole().get();
        let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(whole).unwrap_or_default();
        if fields.into_values().any(is_marker) {
            return Err(not_kept(&target.name, target.kind.name()));
        }
        cell.push(Value::Json(whole))
    }

    fn key(&self, field: FieldPlace) -> Result<Option<Cow<'_, [u8]>>, ValueError> {
        match self.field(field) {
            Some(value) if is_marker(value) => Err(not_kept(KEY_COLUMN, "a text or an integer")),
            _ => self.item.key(field),
        }
    }

    fn envelope(&self, _: usize) -> Option<&RawValue> {
        None
    }

    fn place(&self) -> usize {
        0
    }
}

fn not_kept(column: &str, allowed: impl Into<Cow<'static, str>>) -> ValueError {
    let allowed = allowed.into();
    let found = "a value that the reject does not keep".to_owned();
    ValueError::Unfit { column: column.to_owned(), found, allowed }
}

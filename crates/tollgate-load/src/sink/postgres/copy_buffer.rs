//! The rows of one schema while a chunk is filled. Rows are encoded only once, in the order of the log, in
//! the form that COPY needs.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tollgate_log::{Column, Schema, SchemaId, Sequence, Value};

use super::column_wire::{Decoded, split_value};
use super::table::Plan;
use crate::sink::json::row_as_json;
use crate::sink::key::Key;

/// Header of the data of a binary COPY: signature, flags, and length of the header extension.
const COPY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const COPY_TRAILER: &[u8] = &[0xff, 0xff];

/// Place of one row in the data of its buffer.
struct Row {
    sequence: Sequence,
    start: usize,
}

/// A row that has a key.
pub(super) struct Keyed {
    pub(super) row: usize,
    pub(super) key: Box<[u8]>,
}

/// Rows of one schema.
pub(super) struct CopyBuffer {
    pub(super) schema_id: SchemaId,
    pub(super) schema: Arc<Schema>,
    plan: Arc<Plan>,
    data: BytesMut,
    rows: Vec<Row>,
    keyed: Vec<Keyed>,
}

impl CopyBuffer {
    pub(super) fn new(schema_id: SchemaId, schema: Arc<Schema>, plan: Plan) -> Self {
        let (plan, data) = (Arc::new(plan), BytesMut::new());
        Self { schema_id, schema, plan, data, rows: Vec::new(), keyed: Vec::new() }
    }

    /// Encodes a row.
    ///
    /// # Errors
    /// The reason why the row does not fit the table.
    pub(super) fn push(&mut self, sequence: Sequence, values: &[Value<'_>]) -> Result<(), String> {
        let start = self.data.len();
        // A schema has at most 1,000 columns, so their number fits into 16 bits.
        self.data.put_u16(self.plan.wires.len() as u16);
        let columns = self.schema.columns().iter().zip(values).filter(|(column, _)| !column.is_key());
        for (wire, (column, value)) in self.plan.wires.iter().zip(columns) {
            if let Err(reason) = wire.encode(value, &mut self.data) {
                self.data.truncate(start);
                return Err(format!("column {:?}: {reason}", column.name));
            }
        }
        if let Some(key) = Key::of(&self.schema, values) {
            self.keyed.push(Keyed { row: self.rows.len(), key: key.bytes.into() });
        }
        self.rows.push(Row { sequence, start });
        Ok(())
    }

    /// Ends the buffer. No row can be added any more.
    pub(super) fn close(self) -> ClosedCopyBuffer {
        let Self { schema, plan, data, rows, keyed, .. } = self;
        ClosedCopyBuffer { schema, plan, data: data.freeze(), rows, keyed }
    }
}

/// All rows of one schema in a chunk.
pub(super) struct ClosedCopyBuffer {
    pub(super) schema: Arc<Schema>,
    plan: Arc<Plan>,
    data: Bytes,
    rows: Vec<Row>,
    keyed: Vec<Keyed>,
}

impl ClosedCopyBuffer {
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the rows that have a key, in order.
    pub(super) fn keyed(&self) -> &[Keyed] {
        &self.keyed
    }

    /// Returns the rows without a key, in order.
    pub(super) fn without_key(&self) -> Vec<usize> {
        let mut keyed = self.keyed.iter().map(|keyed| keyed.row).peekable();
        (0..self.rows()).filter(|row| keyed.next_if_eq(row).is_none()).collect()
    }

    /// Returns the key of a row, if it has one.
    pub(super) fn key(&self, row: usize) -> Option<Key<'_>> {
        let (_, window) = self.schema.key()?;
        let at = self.keyed.binary_search_by_key(&row, |keyed| keyed.row).ok()?;
        Some(Key { bytes: &self.keyed[at].key, window })
    }

    /// Copies the chosen rows to a new buffer.
    pub(super) fn select(&self, chosen: &[usize]) -> Self {
        let (mut data, mut rows) = (BytesMut::new(), Vec::with_capacity(chosen.len()));
        let mut keyed = Vec::new();
        for row in chosen {
            keyed.extend(self.key(*row).map(|key| Keyed { row: rows.len(), key: key.bytes.into() }));
            rows.push(Row { sequence: self.sequence(*row), start: data.len() });
            data.put_slice(&self.data[self.start(*row)..self.start(row + 1)]);
        }
        let (schema, plan) = (self.schema.clone(), self.plan.clone());
        Self { schema, plan, data: data.freeze(), rows, keyed }
    }

    pub(super) fn statement(&self) -> &str {
        &self.plan.copy
    }

    /// Returns a range of rows as the data of a COPY.
    pub(super) fn copy_data(&self, rows: Range<usize>) -> [Bytes; 3] {
        copy_data(self.data.slice(self.start(rows.start)..self.start(rows.end)))
    }

    pub(super) fn sequence(&self, row: usize) -> Sequence {
        self.rows[row].sequence
    }

    pub(super) fn sequences(&self) -> impl Iterator<Item = Sequence> {
        self.rows.iter().map(|row| row.sequence)
    }

    /// Returns the rows with records in a range of the log.
    pub(super) fn between(&self, ends: &RangeInclusive<Sequence>) -> Range<usize> {
        let start = self.rows.partition_point(|row| row.sequence < *ends.start());
        start..self.rows.partition_point(|row| row.sequence <= *ends.end())
    }

    /// Returns the row of a record.
    pub(super) fn row_of(&self, sequence: Sequence) -> Option<usize> {
        self.rows.binary_search_by_key(&sequence, |row| row.sequence).ok()
    }

    /// Returns a row as a JSON object, for the reject table.
    pub(super) fn row_as_json(&self, row: usize) -> Vec<u8> {
        let mut rest = &self.data[self.start(row) + 2..self.start(row + 1)];
        let mut wires = self.plan.wires.iter();
        let mut value = |column: &Column| {
            let wire = wires.next()?;
            let bytes = split_value(&mut rest)??;
            Some(wire.decode(column.kind, bytes).unwrap_or(Decoded::Value(Value::Bytes(bytes))))
        };
        let columns = self.schema.columns().iter();
        let decoded: Vec<_> =
            columns.map(|column| if column.is_key() { None } else { value(column) }).collect();
        let values: Vec<_> =
            decoded.iter().map(|value| value.as_ref().map_or(Value::Null, Decoded::value)).collect();
        row_as_json(&self.schema, &values)
    }

    fn start(&self, row: usize) -> usize {
        self.rows.get(row).map_or(self.data.len(), |row| row.start)
    }
}

/// Returns encoded rows with the header and the trailer of a COPY.
pub(super) fn copy_data(rows: Bytes) -> [Bytes; 3] {
    [Bytes::from_static(COPY_HEADER), rows, Bytes::from_static(COPY_TRAILER)]
}

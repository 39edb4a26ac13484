//! A batch of records that come from another place than a segment, such as a queue.

use std::sync::Arc;

use super::batch::RecordBatch;
use crate::id::{LogId, Sequence};
use crate::record::{RowEncoder, encode_reject};
use crate::scan::Schemas;
use crate::schema::{SCHEMAS_MAX, Schema, SchemaId};

/// A batch of records that come from another place than a segment.
#[derive(Debug)]
pub struct MadeBatch {
    log: LogId,
    segment: Sequence,
    node: String,
    first: Sequence,
    count: u64,
    payload: Vec<u8>,
    schemas: Schemas,
}

impl MadeBatch {
    /// Makes an empty batch. Its records get the numbers from `first` on, and count as those of the segment
    /// that begins with `segment`.
    pub fn new(log: LogId, segment: Sequence, node: &str, first: Sequence) -> Self {
        let (payload, schemas) = (Vec::new(), Schemas::new());
        Self { log, segment, node: node.to_owned(), first, count: 0, payload, schemas }
    }

    /// Returns the number of the next record.
    pub fn next(&self) -> Sequence {
        self.first.after(self.count)
    }

    /// Returns whether the batch has no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of different schemas.
    pub fn schemas(&self) -> usize {
        self.schemas.len()
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The error of `fill`. The batch is then as before.
    ///
    /// # Panics
    /// The batch has more schemas than a log may have.
    pub fn row<E>(
        &mut self,
        schema: &Arc<Schema>,
        fill: impl FnOnce(&mut RowEncoder<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (id, start) = (self.id(schema), self.payload.len());
        let mut row = RowEncoder::begin(&mut self.payload, id, schema);
        let filled = fill(&mut row);
        match filled {
            Ok(()) => {
                row.finish();
                self.count += 1;
            }
            Err(_) => self.payload.truncate(start),
        }
        filled
    }

    /// Adds a reject.
    ///
    /// # Panics
    /// The batch has more schemas than a log may have.
    pub fn reject(&mut self, schema: &Arc<Schema>, reason: &str, item: &[u8]) {
        let id = self.id(schema);
        encode_reject(&mut self.payload, id, reason, item);
        self.count += 1;
    }

    /// Returns the number of a schema in the batch.
    fn id(&mut self, schema: &Arc<Schema>) -> SchemaId {
        let known = self.schemas.iter().find(|(_, known)| Arc::ptr_eq(known, schema));
        if let Some((id, _)) = known {
            return *id;
        }
        assert!(self.schemas.len() < SCHEMAS_MAX, "more schemas than a log may have");
        let id = SchemaId(self.schemas.len() as u16);
        self.schemas.insert(id, schema.clone());
        id
    }

    /// Returns the records as a batch.
    pub fn batch(&self) -> RecordBatch<'_> {
        RecordBatch {
            log: self.log,
            segment: self.segment,
            node: &self.node,
            first: self.first,
            last: self.next().before(),
            chain: 0,
            stamp_us: 0,
            payload: &self.payload,
            schemas: &self.schemas,
            left_out: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, ColumnOrigin, ColumnType, RecordBody, Value};

    fn schema(stream: &str) -> Arc<Schema> {
        let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
        Arc::new(Schema::new(stream, vec![column]).unwrap())
    }

    #[test]
    fn a_made_batch_has_its_rows_and_rejects_in_order_and_no_row_that_failed() {
        let log = LogId::random();
        let mut made = MadeBatch::new(log, Sequence(1), "bus/0", Sequence(41));
        assert!(made.is_empty());
        let (visits, scores) = (schema("visits"), schema("scores"));
        made.row(&visits, |row| row.push(Value::Int(7))).unwrap();
        made.row(&scores, |row| row.push(Value::Text("no number"))).unwrap_err();
        made.reject(&scores, "no object", b"[]");
        made.row(&visits, |row| row.push(Value::Int(8))).unwrap();
        assert_eq!(made.next(), Sequence(44));
        let batch = made.batch();
        assert_eq!((batch.first(), batch.end().last, batch.node()), (Sequence(41), Sequence(43), "bus/0"));
        let read: Vec<_> = batch
            .numbered()
            .map(|(sequence, record)| {
                let record = record.unwrap();
                let text = match record.body {
                    RecordBody::Row(values) => format!("{values:?}"),
                    RecordBody::Reject { reason, .. } => reason.to_owned(),
                };
                (sequence.0, record.schema.stream().to_owned(), text)
            })
            .collect();
        let expected = [(41, "visits", "[Int(7)]"), (42, "scores", "no object"), (43, "visits", "[Int(8)]")];
        let expected = expected.map(|(at, stream, text)| (at, stream.to_owned(), text.to_owned()));
        assert_eq!(read, expected);
    }
}

//! Records of one partition as batches for a sink.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_log::{BATCH_SCHEMAS_MAX, Column, ColumnOrigin, ColumnType, LogId, MadeBatch, Schema, Sequence};
use tollgate_queue::{PartitionName, ReadRecord};

use super::options::number_of;
use super::places::ReadPlace;
use crate::error::SinkError;
use crate::sink::{RowFormat, RowHead, STREAM_UNKNOWN, Taken, TopicSchemas, TopicSink};

/// Number of neighbouring records whose rejects are counted together.
const SEGMENT_RECORDS: u64 = 100_000;

/// A load of one partition.
pub(super) struct TopicChunk<'a> {
    name: &'a PartitionName,
    log: LogId,
    origins: &'a BTreeMap<LogId, Sequence>,
    schemas: &'a TopicSchemas,
    taken: &'a Taken,
    /// The last record of each origin in this load.
    passed: BTreeMap<LogId, Sequence>,
}

/// What becomes of a record.
enum Fate<'a> {
    Row(&'a RowHead, &'a Arc<Schema>, RowFormat),
    /// A record whose columns are unknown, and why.
    Foreign(String),
    /// The sink does not take the stream.
    NotTaken(&'a str),
    /// The same row was in the partition before.
    Repeated(&'a str),
}

impl<'a> TopicChunk<'a> {
    pub(super) fn new(
        name: &'a PartitionName,
        place: &'a ReadPlace,
        schemas: &'a TopicSchemas,
        taken: &'a Taken,
    ) -> Self {
        Self { name, log: place.log, origins: &place.origins, schemas, taken, passed: BTreeMap::new() }
    }

    /// Returns the last record of each origin.
    pub(super) fn passed(self) -> BTreeMap<LogId, Sequence> {
        self.passed
    }

    /// Writes records in the open transaction of the sink.
    pub(super) fn write(
        &mut self,
        sink: &mut dyn TopicSink,
        records: &[ReadRecord],
    ) -> Result<(), SinkError> {
        let Some(first) = records.first() else { return Ok(()) };
        let mut made = self.batch_from(number_of(first));
        // The first batch names the first record of the load, even if it is empty.
        let mut is_first = true;
        for record in records {
            let number = number_of(record);
            if number != made.next() || made.schemas() >= BATCH_SCHEMAS_MAX {
                flush(sink, &made, &mut is_first)?;
                made = self.batch_from(number);
            }
            let head = RowHead::read(record);
            match self.fate(head.as_ref()) {
                Fate::Row(head, schema, format) => {
                    add_row(&mut made, schema, format, record);
                    self.pass(head);
                }
                Fate::Foreign(reason) => {
                    made.reject(&no_columns(), &reason, record.value.as_deref().unwrap_or_default());
                }
                Fate::NotTaken(stream) => sink.skipped(stream, 1),
                Fate::Repeated(stream) => sink.repeated(stream, 1),
            }
        }
        flush(sink, &made, &mut is_first)
    }

    fn fate<'r>(&self, head: Option<&'r RowHead>) -> Fate<'r>
    where
        'a: 'r,
    {
        let Some(head) = head else {
            return Fate::Foreign(
                "the record has no headers of Tollgate, so its columns are unknown".to_owned(),
            );
        };
        if !self.taken.takes(&head.stream) {
            return Fate::NotTaken(&head.stream);
        }
        let last = self.passed.get(&head.log).or_else(|| self.origins.get(&head.log));
        if !head.is_late && last.is_some_and(|last| head.sequence <= *last) {
            return Fate::Repeated(&head.stream);
        }
        match (&head.format, self.schemas.get(&head.schema)) {
            (Err(format), _) => Fate::Foreign(format!(
                "the record has the format {format:?}, known are json and row: load it by a later program"
            )),
            (_, None) => {
                let hash = &head.schema;
                Fate::Foreign(format!("the columns of the schema {hash:?} of the record are not in Kafka"))
            }
            (Ok(format), Some(schema)) => Fate::Row(head, schema, *format),
        }
    }

    fn pass(&mut self, head: &RowHead) {
        if !head.is_late {
            self.passed.insert(head.log, head.sequence);
        }
    }

    fn batch_from(&self, first: Sequence) -> MadeBatch {
        let segment = first.0.saturating_sub(1) / SEGMENT_RECORDS * SEGMENT_RECORDS;
        MadeBatch::new(self.log, Sequence(segment + 1), &format!("kafka:{}", self.name), first)
    }
}

fn flush(sink: &mut dyn TopicSink, made: &MadeBatch, is_first: &mut bool) -> Result<(), SinkError> {
    if !made.is_empty() || std::mem::take(is_first) {
        *is_first = false;
        sink.write(&made.batch())?;
    }
    Ok(())
}

/// Adds a row, or a reject if the value does not have the columns of its schema.
fn add_row(made: &mut MadeBatch, schema: &Arc<Schema>, format: RowFormat, record: &ReadRecord) {
    let value = record.value.as_deref().unwrap_or_default();
    let added = made.row(schema, |row| format.read(row, schema, record.key.as_deref(), value));
    if let Err(reason) = added {
        made.reject(schema, &reason, value);
    }
}

/// Returns the schema of records whose columns are unknown. No table is made of it.
fn no_columns() -> Arc<Schema> {
    let column = Column { name: "value".to_owned(), kind: ColumnType::Bytes, origin: ColumnOrigin::Stored };
    Arc::new(Schema::new(STREAM_UNKNOWN, vec![column]).unwrap_or_else(|_| unreachable!("the name is valid")))
}

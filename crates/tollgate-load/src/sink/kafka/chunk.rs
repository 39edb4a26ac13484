//! The open load: rows and entries that a transaction will bring to the topics.

use std::sync::Arc;
use std::time::Duration;

use tollgate_log::{Gap, LogId, RecordBatch, Schema, Sequence, Value, ValueError};
use tollgate_queue::QueueRecord;

use super::format::ValueWriter;
use super::message::{self, RowHeaders, RowTopic};
use super::schemas::TopicSchemas;
use crate::sink::refusals::Refusals;
use crate::sink::tally::{StreamTallies, Tally};

/// A row of an open load.
pub(super) struct Row {
    pub(super) sequence: Sequence,
    pub(super) stream: Arc<str>,
    pub(super) record: QueueRecord,
    /// How long another sink would remember the key.
    pub(super) window: Option<Duration>,
}

/// Where the rows of a schema go.
struct Target {
    stream: Arc<str>,
    topic: RowTopic,
    headers: RowHeaders,
    writer: ValueWriter,
}

impl Target {
    fn is_of(&self, schema: &Arc<Schema>) -> bool {
        Arc::ptr_eq(self.writer.schema(), schema)
    }

    fn row(&self, sequence: Sequence, values: &[Value<'_>]) -> Result<Row, ValueError> {
        let schema = self.writer.schema();
        let content = (message::key(schema, values), self.writer.value(values)?);
        Ok(Row {
            sequence,
            stream: self.stream.clone(),
            record: self.topic.record(content, sequence, &self.headers),
            window: schema.key().map(|(_, window)| window),
        })
    }
}

/// An open load. It is in memory until the commit.
pub(super) struct KafkaChunk {
    pub(super) log: LogId,
    pub(super) start: Option<Sequence>,
    pub(super) node: Option<String>,
    /// The gap that it fills. `None` if it moves the position.
    pub(super) filled: Option<Gap>,
    pub(super) rows: Vec<Row>,
    /// Parts of rejects, and entries of gaps.
    pub(super) entries: Vec<QueueRecord>,
    /// Entries of schemas.
    pub(super) schema_entries: Vec<QueueRecord>,
    /// The new gaps.
    pub(super) gaps: Vec<Gap>,
    pub(super) counts: StreamTallies,
    /// Records that become rejects, with their reasons.
    pub(super) rejects: Vec<(Sequence, String)>,
    pub(super) refusals: Refusals,
    /// The schemas of its rows.
    targets: Vec<Target>,
    /// Schemas that get their entry by this load.
    pub(super) schemas: TopicSchemas,
}

impl KafkaChunk {
    pub(super) fn new(log: LogId, filled: Option<Gap>, rejects_max: u64) -> Self {
        Self {
            log,
            start: None,
            node: None,
            filled,
            rows: Vec::new(),
            entries: Vec::new(),
            schema_entries: Vec::new(),
            gaps: Vec::new(),
            counts: StreamTallies::default(),
            rejects: Vec::new(),
            refusals: Refusals::new(log, rejects_max),
            targets: Vec::new(),
            schemas: TopicSchemas::default(),
        }
    }

    pub(super) fn saw(&mut self, first: Sequence) {
        self.start.get_or_insert(first.before());
    }

    /// Notes the first record, the segment and the machine of a batch.
    pub(super) fn enter(&mut self, batch: &RecordBatch<'_>) {
        self.saw(batch.first());
        self.refusals.enter(batch.segment());
        if self.node.is_none() && !batch.node().is_empty() {
            self.node = Some(batch.node().to_owned());
        }
    }

    /// Returns whether the chunk knows where the rows of a schema go.
    pub(super) fn has_target(&self, schema: &Arc<Schema>) -> bool {
        self.targets.iter().any(|target| target.is_of(schema))
    }

    /// Adds a target. Each of its rows has these headers.
    pub(super) fn add_target(&mut self, writer: ValueWriter, topic: RowTopic, headers: RowHeaders) {
        self.targets.push(Target { stream: writer.schema().stream().into(), topic, headers, writer });
    }

    /// Adds a row of a schema that has a target.
    ///
    /// # Errors
    /// A column has a value of another type than the schema says.
    pub(super) fn add_row(
        &mut self,
        sequence: Sequence,
        schema: &Arc<Schema>,
        values: &[Value<'_>],
    ) -> Result<(), ValueError> {
        if let Some(target) = self.targets.iter().find(|target| target.is_of(schema)) {
            self.rows.push(target.row(sequence, values)?);
        }
        Ok(())
    }

    /// Returns the value of a row as an object.
    ///
    /// # Errors
    /// Why the value has not the columns of its schema.
    pub(super) fn object_of(&self, row: &Row) -> Result<Vec<u8>, String> {
        let value = row.record.value.as_deref().unwrap_or_default();
        let target = self.targets.iter().find(|target| Arc::ptr_eq(&target.stream, &row.stream));
        target.map_or_else(|| Ok(value.to_vec()), |target| target.writer.object_of(value))
    }

    /// Counts the rows, which are in the topics now.
    pub(super) fn count_rows(&mut self) {
        let rows = self.row_counts();
        rows.iter().for_each(|(stream, rows)| self.counts.add(stream, *rows));
    }

    /// Returns the number of rows of each stream.
    pub(super) fn row_counts(&self) -> StreamTallies {
        let mut counts = StreamTallies::default();
        for rows in self.rows.chunk_by(|row, next| Arc::ptr_eq(&row.stream, &next.stream)) {
            counts.add(&rows[0].stream, Tally { rows: rows.len() as u64, ..Tally::default() });
        }
        counts
    }

    pub(super) fn add_reject(
        &mut self,
        stream: &str,
        (sequence, reason): (Sequence, String),
        parts: Vec<QueueRecord>,
    ) {
        self.rejects.push((sequence, reason));
        self.counts.add(stream, Tally { rejects: 1, ..Tally::default() });
        self.entries.extend(parts);
    }
}

//! The open load: rows and entries that a transaction will bring to the topics.

use std::sync::Arc;
use std::time::Duration;

use tollgate_log::{Gap, LogId, RecordBatch, Schema, Sequence, Value};
use tollgate_queue::QueueRecord;

use super::message::{self, RowHeaders, RowNames, RowTopic};
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
    schema: Arc<Schema>,
    stream: Arc<str>,
    topic: RowTopic,
    headers: RowHeaders,
    names: RowNames,
}

impl Target {
    fn row(&self, sequence: Sequence, values: &[Value<'_>]) -> Row {
        let content = (message::key(&self.schema, values), self.names.object(values));
        Row {
            sequence,
            stream: self.stream.clone(),
            record: self.topic.record(content, sequence, &self.headers),
            window: self.schema.key().map(|(_, window)| window),
        }
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
    /// The new gaps.
    pub(super) gaps: Vec<Gap>,
    pub(super) counts: StreamTallies,
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
            gaps: Vec::new(),
            counts: StreamTallies::default(),
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
        self.targets.iter().any(|target| Arc::ptr_eq(&target.schema, schema))
    }

    pub(super) fn add_target(&mut self, schema: &Arc<Schema>, topic: RowTopic, hash: &str) {
        let stream = schema.stream();
        self.targets.push(Target {
            schema: schema.clone(),
            stream: stream.into(),
            topic,
            headers: RowHeaders::new(self.log, stream, hash, self.filled.is_some()),
            names: RowNames::new(schema),
        });
    }

    /// Adds a row of a schema that has a target.
    pub(super) fn add_row(&mut self, sequence: Sequence, schema: &Arc<Schema>, values: &[Value<'_>]) {
        let known = self.targets.iter().find(|target| Arc::ptr_eq(&target.schema, schema));
        self.rows.extend(known.map(|target| target.row(sequence, values)));
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

    pub(super) fn add_reject(&mut self, stream: &str, parts: Vec<QueueRecord>) {
        self.counts.add(stream, Tally { rejects: 1, ..Tally::default() });
        self.entries.extend(parts);
    }
}

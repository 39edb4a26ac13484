//! The open load: rows and entries that a transaction will bring to the topics.

use std::sync::Arc;
use std::time::Duration;

use tollgate_log::{Gap, LogId, RecordBatch, Schema, Sequence};
use tollgate_queue::QueueRecord;

use super::schemas::{TopicSchemas, hash};
use crate::sink::refusals::Refusals;
use crate::sink::tally::{StreamTallies, Tally};

/// A row of an open load.
pub(super) struct Row {
    pub(super) sequence: Sequence,
    pub(super) stream: String,
    pub(super) record: QueueRecord,
    /// How long another sink would remember the key.
    pub(super) window: Option<Duration>,
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
    /// The schemas of its rows, with their hashes.
    pub(super) hashes: Vec<(Arc<Schema>, String)>,
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
            hashes: Vec::new(),
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

    /// Returns the hash of a schema.
    pub(super) fn hash(&mut self, schema: &Arc<Schema>) -> String {
        let known = self.hashes.iter().find(|(known, _)| Arc::ptr_eq(known, schema));
        if let Some((_, hash)) = known {
            return hash.clone();
        }
        let hash = hash(schema);
        self.hashes.push((schema.clone(), hash.clone()));
        hash
    }

    /// Counts the rows, which are in the topics now.
    pub(super) fn count_rows(&mut self) {
        for row in &self.rows {
            self.counts.add(&row.stream, Tally { rows: 1, ..Tally::default() });
        }
    }

    pub(super) fn add_reject(&mut self, stream: &str, parts: Vec<QueueRecord>) {
        self.counts.add(stream, Tally { rejects: 1, ..Tally::default() });
        self.entries.extend(parts);
    }
}

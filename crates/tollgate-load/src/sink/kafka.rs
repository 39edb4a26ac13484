//! Kafka as a sink: rows in topics, and the bookkeeping in compacted topics, in one transaction of the
//! broker.
//!
//! The transactional id is made of the sink and the log. So the sink has one producer for each log. The
//! producer opens before the first load of the log: it fences the producer of another loader, and ends its
//! transaction. Only then is the position read, so that no other loader can move it without being noticed.
//! Before, the sink writes the ends of transactions again that the cluster lost.
//!
//! A load is in memory until the commit. If the broker refuses rows for their size, the transaction is
//! aborted, and repeated with rejects in their place.
//!
//! A topic cannot remember keys. All rows of a key become records, with the key as the key of the record.
//!
//! Without `exactly_once`, the records of a load become visible before the position. A crash in between
//! brings them twice.

mod chunk;
mod entry;
mod failure;
mod format;
mod leases;
mod message;
mod options;
mod rejects;
mod retry;
mod schemas;
mod sending;
mod settled;
mod state;
mod topics;
mod writer;

use std::collections::BTreeMap;

use tollgate_log::{Gap, LogId, Position, RecordBatch, RecordBody, Schema, Sequence};
use tollgate_queue::TopicCopies;

use super::contract::Sink;
use super::reject::{ReadItem, Refused, Retried};
use super::streams::{STREAM_UNKNOWN, Taken};
use super::tally::{LostTable, StreamTallies, Tally};
use crate::error::SinkError;
use chunk::KafkaChunk;
use state::gap_entry;

pub(crate) use entry::POSITIONS;
pub use format::RowFormat;
pub(super) use leases::NoLeases;
pub(crate) use message::RowHead;
pub use options::KafkaOptions;
pub(crate) use schemas::TopicSchemas;
pub(crate) use topics::{SentCounts, read_sent};
pub use topics::{TopicReport, topic_reports};
pub(super) use topics::{check, read_counts, read_positions};
pub(super) use writer::KafkaSink;

impl Sink for KafkaSink {
    fn is_enrolled(&mut self) -> Result<bool, SinkError> {
        self.refresh()?;
        Ok(self.state.is_enrolled)
    }

    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError> {
        self.enroll_at(ends)
    }

    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError> {
        if !self.owns(log) {
            self.refresh()?;
        }
        Ok(self.known_position(log))
    }

    fn look(&mut self, schema: &Schema) -> Result<(), SinkError> {
        topics::check_name(&self.options, schema.stream())
    }

    fn lost_tables(&mut self) -> Result<BTreeMap<String, LostTable>, SinkError> {
        Ok(BTreeMap::new())
    }

    fn topic_copies(&mut self, streams: &[String]) -> Result<BTreeMap<String, TopicCopies>, SinkError> {
        self.copies(streams)
    }

    fn note_ended(&mut self, logs: &[LogId]) {
        self.ended = logs.iter().copied().collect();
    }

    fn tables_met(&self) -> usize {
        0
    }

    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError> {
        self.own(log)?;
        if self.known_position(log).map(|found| found.last) != expected.map(|position| position.last) {
            return Err(SinkError::Lost { log });
        }
        self.chunk = Some(KafkaChunk::new(log, None, self.rejects_max));
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError> {
        let Some(mut chunk) = self.chunk.take() else { return Ok(()) };
        chunk.enter(batch);
        let log = chunk.log;
        for (sequence, record) in batch.numbered() {
            let (stream, refused) = match &record {
                Err(error) => (
                    STREAM_UNKNOWN,
                    Refused { reason: error.to_string().into(), ..Refused::at_ingest("", &[]) },
                ),
                Ok(record) => match &record.body {
                    RecordBody::Reject { reason, item } => {
                        (record.schema.stream(), Refused::at_ingest(reason, item))
                    }
                    RecordBody::Row(values) => {
                        self.add_row(&mut chunk, sequence, record.schema, values)?;
                        continue;
                    }
                },
            };
            let parts = rejects::parts(&self.name, log, sequence, stream, &refused);
            chunk.add_reject(stream, (sequence, refused.reason.into_owned()), parts);
        }
        self.chunk = Some(chunk);
        Ok(())
    }

    fn skipped(&mut self, stream: &str, count: u64) {
        if let Some(chunk) = &mut self.chunk {
            chunk.counts.add(stream, Tally { skipped: count, ..Tally::default() });
        }
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        if let Some(chunk) = &mut self.chunk {
            chunk.saw(gap.first);
            chunk.counts.missing = chunk.counts.missing.saturating_add(gap.first.count_to(gap.last));
            chunk.entries.push(gap_entry(&self.name, chunk.log, gap, true));
            chunk.gaps.push(gap.clone());
        }
        Ok(())
    }

    fn commit(&mut self, end: Position) -> Result<StreamTallies, SinkError> {
        let Some(chunk) = self.chunk.take() else { return Ok(StreamTallies::default()) };
        self.commit_chunk(chunk, |state, chunk| {
            if !state.has_position {
                state.counts.start = chunk.start.unwrap_or_default();
            }
            (state.counts.position, state.has_position) = (end, true);
            state.counts.gaps.extend(chunk.gaps.iter().cloned());
        })
    }

    fn rejects(
        &mut self,
        log: LogId,
        first: Sequence,
        last: Sequence,
    ) -> Result<Vec<(Sequence, String)>, SinkError> {
        if let Some(rejects) = self.settled.of(log, first, last) {
            return Ok(rejects);
        }
        // The producer ends the transaction that an earlier process may have left open, so that the read does
        // not wait for its end.
        self.own(log)?;
        self.read_rejects_of(log, first, last)
    }

    fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError> {
        // A reply may be released by the answer, so no gap may be missing. The producer ends the transaction
        // that an earlier process may have left open, so that the read does not wait for its end.
        self.own(log)?;
        if !self.owns(log) {
            self.refresh_of(log)?;
        }
        Ok(self.state.logs.get(&log).map(|state| state.counts.gaps.clone()).unwrap_or_default())
    }

    fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError> {
        let mut records: BTreeMap<String, u64> = BTreeMap::new();
        for gap in self.state.logs.values().flat_map(|state| &state.counts.gaps) {
            let count = records.entry(gap.reason.clone()).or_default();
            *count = count.saturating_add(gap.first.count_to(gap.last));
        }
        Ok(records)
    }

    fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError> {
        self.own(log)?;
        let named = Gap { reason: reason.to_owned(), ..gap.clone() };
        let entry = gap_entry(&self.name, log, &named, true);
        let gaps = self.state.logs.get(&log).map(|state| state.counts.gaps.contains(gap));
        if gaps != Some(true) {
            return Ok(false);
        }
        self.write_entries(log, &[entry])?;
        let gaps = self.state.logs.get_mut(&log).map(|state| &mut state.counts.gaps);
        if let Some(found) = gaps.and_then(|gaps| gaps.iter_mut().find(|found| *found == gap)) {
            *found = named;
        }
        Ok(true)
    }

    fn begin_fill(&mut self, log: LogId, gap: &Gap, taken: &Taken) -> Result<Taken, SinkError> {
        self.own(log)?;
        self.chunk = Some(KafkaChunk::new(log, Some(gap.clone()), self.rejects_max));
        Ok(taken.clone())
    }

    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError> {
        let Some(mut chunk) = self.chunk.take() else { return Ok(Tally::default()) };
        let Some(filled) = chunk.filled.clone() else { return Ok(Tally::default()) };
        let log = chunk.log;
        if !self.state.logs.get(&log).is_some_and(|state| state.counts.gaps.contains(&filled)) {
            return Err(SinkError::Lost { log });
        }
        // The removal comes first, because a gap that is left may begin at the same record.
        chunk.entries.push(gap_entry(&self.name, log, &filled, false));
        chunk.entries.extend(left.iter().map(|gap| gap_entry(&self.name, log, gap, true)));
        let tallies = self.commit_chunk(chunk, |state, _| {
            state.counts.gaps.retain(|gap| *gap != filled);
            state.counts.gaps.extend(left.iter().cloned());
            state.counts.gaps.sort_by_key(|gap| gap.first);
        })?;
        Ok(tallies.total())
    }

    fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError> {
        self.retry(read)
    }

    fn rollback(&mut self) {
        self.chunk = None;
        // A producer with an open or unknown transaction is not used again. The next one of the log ends the
        // transaction, and reads the position.
        self.producers.clear();
        self.released.clear();
    }

    fn is_changed(&mut self) -> Result<bool, SinkError> {
        Ok(false)
    }

    fn tidy(&mut self, _: u64) -> Result<(), SinkError> {
        Ok(())
    }
}

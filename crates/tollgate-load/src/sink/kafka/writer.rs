//! The open sink: its producers, its view of the bookkeeping, and its transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_log::{LogId, Position, Schema, Sequence, Value};
use tollgate_queue::{
    Client, Guarantee, NewTopic, Producer, QueueError, QueueRecord, ReadTo, TopicCopies, Topics,
};
use tollgate_value::timestamp_text;

use super::chunk::{KafkaChunk, Row};
use super::entry::{PARTITIONS, POSITIONS, REJECTS, partition_of};
use super::failure::failed;
use super::format::ValueWriter;
use super::message::{RowHeaders, RowTopic};
use super::options::KafkaOptions;
use super::schemas::hash;
use super::sending::Sending;
use super::settled::SettledRejects;
use super::state::{LogState, State, sink_entry};
use super::{rejects, topics};
use crate::clock::now_us;
use crate::error::SinkError;
use crate::sink::declared::DeclaredStreams;
use crate::sink::key::Key;
use crate::sink::reject::{Refused, RefusedBy};
use crate::sink::tally::StreamTallies;

/// Number of open producers. Each has connections of its own, so logs that were loaded long ago lose theirs.
const PRODUCERS_MAX: usize = 8;

/// How long a topic that the sink may not make has to be missing, until the sink stops.
const TOPIC_PATIENCE: Duration = Duration::from_secs(5);
const TOPIC_PAUSE: Duration = Duration::from_millis(200);

/// A Kafka cluster as a sink.
pub(crate) struct KafkaSink {
    pub(super) options: KafkaOptions,
    pub(super) name: String,
    pub(super) rejects_max: u64,
    pub(super) declared: DeclaredStreams,
    client: Client,
    pub(super) topics: Box<dyn Topics>,
    pub(super) state: State,
    /// One producer for each log that was loaded recently.
    pub(super) producers: BTreeMap<LogId, Box<dyn Producer>>,
    /// Logs without a server.
    pub(super) ended: BTreeSet<LogId>,
    /// Logs without a server whose transactions have ended.
    pub(super) released: BTreeSet<LogId>,
    pub(super) chunk: Option<KafkaChunk>,
    pub(super) settled: SettledRejects,
    /// Topics that exist, with the number of their partitions.
    found: BTreeMap<String, i32>,
}

impl KafkaSink {
    /// Opens a sink, and makes its topics of bookkeeping.
    pub(crate) fn open(
        options: &KafkaOptions,
        name: &str,
        rejects_max: u64,
        declared: &DeclaredStreams,
    ) -> Result<Self, SinkError> {
        let (client, topics) = topics::connect(&options.broker)?;
        let mut sink = Self {
            options: options.clone(),
            name: name.to_owned(),
            rejects_max,
            declared: declared.clone(),
            client,
            topics,
            state: State::default(),
            producers: BTreeMap::new(),
            ended: BTreeSet::new(),
            released: BTreeSet::new(),
            chunk: None,
            settled: SettledRejects::default(),
            found: BTreeMap::new(),
        };
        let compacted = [POSITIONS, REJECTS].map(|name| NewTopic {
            name: name.to_owned(),
            partitions: PARTITIONS,
            replication: sink.replication(),
            settings: vec![
                ("cleanup.policy", "compact".to_owned()),
                // The segment that is written is never compacted. Each opening of the sink reads all of it.
                ("segment.bytes", (4 << 20).to_string()),
                ("min.cleanable.dirty.ratio", "0.1".to_owned()),
                ("max.message.bytes", (1 << 20).to_string()),
            ],
        });
        for topic in compacted {
            sink.make(topic)?;
        }
        sink.refresh()?;
        Ok(sink)
    }

    /// Returns the topic of a stream, and makes it if it does not exist.
    pub(super) fn topic(&mut self, stream: &str) -> Result<RowTopic, SinkError> {
        let name = self.options.topic_of(stream);
        let topic = NewTopic {
            name: name.clone(),
            partitions: self.options.partition_count(),
            replication: self.replication(),
            settings: Vec::new(),
        };
        let partitions = self.make(topic)?;
        Ok(RowTopic { name: name.into(), partitions })
    }

    /// Adds a row to a load, and the entry of its schema if the topic of positions lacks it.
    pub(super) fn add_row(
        &mut self,
        chunk: &mut KafkaChunk,
        sequence: Sequence,
        schema: &Arc<Schema>,
        values: &[Value<'_>],
    ) -> Result<(), SinkError> {
        if !chunk.has_target(schema) {
            let (hash, topic) = (hash(schema), self.topic(schema.stream())?);
            if !self.state.schemas.has(&hash, &topic.name) && !chunk.schemas.has(&hash, &topic.name) {
                let number = self.state.schemas.next_number().max(chunk.schemas.next_number());
                let entry = chunk.schemas.add(number, (&self.name, &topic.name), &hash, schema);
                chunk.schema_entries.push(entry);
            }
            // Without transactions, a broker may take a later batch before an earlier one.
            let is_late = chunk.filled.is_some() || !self.options.exactly_once;
            let format = self.options.format;
            let headers = RowHeaders::new(chunk.log, schema.stream(), &hash, format, is_late);
            chunk.add_target(ValueWriter::new(format, schema.clone()), topic, headers);
        }
        chunk
            .add_row(sequence, schema, values)
            .map_err(|error| self.unfit(schema.stream(), error.to_string()))
    }

    fn unfit(&self, stream: &str, reason: String) -> SinkError {
        SinkError::RowUnfit { topic: self.options.topic_of(stream), reason }
    }

    fn replication(&self) -> Option<i16> {
        i16::try_from(self.options.replication).ok().filter(|count| *count > 0)
    }

    /// Finds or makes a topic. Returns the number of its partitions.
    fn make(&mut self, topic: NewTopic) -> Result<i32, SinkError> {
        if let Some(partitions) = self.found.get(&topic.name) {
            return Ok(*partitions);
        }
        let failed = failed("find a topic", None);
        let partitions = match self.look_for(&topic.name).map_err(&failed)? {
            Some(copies) => i32::try_from(copies.partitions).unwrap_or(i32::MAX),
            None if !self.options.makes_topics => {
                let brokers = self.options.broker.brokers.clone();
                return Err(failed(QueueError::UnknownTopic { brokers, topic: topic.name }));
            }
            None => {
                self.topics.create(std::slice::from_ref(&topic)).map_err(&failed)?;
                topic.partitions
            }
        };
        self.found.insert(topic.name, partitions);
        Ok(partitions)
    }

    /// Describes the topics that were found, and the existing topics of `streams`.
    pub(super) fn copies(&mut self, streams: &[String]) -> Result<BTreeMap<String, TopicCopies>, SinkError> {
        let streams = streams.iter().map(|stream| self.options.topic_of(stream));
        let names: BTreeSet<_> = self.found.keys().cloned().chain(streams).collect();
        let mut all = BTreeMap::new();
        for topic in names {
            let copies = self.topics.copies(&topic).map_err(failed("describe a topic", None))?;
            all.extend(copies.map(|copies| (topic, copies)));
        }
        Ok(all)
    }

    /// Describes a topic. If the sink may not make it, a missing topic is looked for again, because a broker
    /// that starts may not know its topics yet.
    fn look_for(&mut self, topic: &str) -> Result<Option<TopicCopies>, QueueError> {
        let begun = Instant::now();
        loop {
            let copies = self.topics.copies(topic)?;
            if copies.is_some() || self.options.makes_topics || begun.elapsed() > TOPIC_PATIENCE {
                return Ok(copies);
            }
            std::thread::sleep(TOPIC_PAUSE);
        }
    }

    /// Reads the bookkeeping, without a wait for open transactions. So a position may be an old one. The next
    /// load reads it again, after it has the producer of the log.
    pub(super) fn refresh(&mut self) -> Result<(), SinkError> {
        self.refresh_to(ReadTo::Stable)
    }

    fn refresh_to(&mut self, to: ReadTo<'_>) -> Result<(), SinkError> {
        let table = self.topics.table(POSITIONS, to).map_err(failed("read the positions", None))?;
        let mut state = topics::state_of(&self.name, &table)?;
        // Nothing else moves the position of a log that has a producer. What was read of it may be older.
        for log in self.producers.keys().filter(|_| self.options.exactly_once) {
            state.logs.extend(self.state.logs.remove(log).map(|kept| (*log, kept)));
        }
        self.state = state;
        Ok(())
    }

    /// Reads the bookkeeping, and misses no entry of this log or of the sink that is committed. An open
    /// transaction of another log usually is in another partition, so this read does not wait for it.
    pub(super) fn refresh_of(&mut self, log: LogId) -> Result<(), SinkError> {
        self.refresh_to(ReadTo::EndOf(&self.partitions_of(log)))
    }

    /// Returns whether this sink has the producer of a log, so that nothing else moves the position.
    pub(super) fn owns(&self, log: LogId) -> bool {
        self.options.exactly_once && self.producers.contains_key(&log)
    }

    /// Opens the producer of a log, and then reads its position.
    pub(super) fn own(&mut self, log: LogId) -> Result<(), SinkError> {
        if let Some(producer) = self.producers.get_mut(&log) {
            if !producer.has_lost_connection() {
                return Ok(());
            }
            // The next transaction must not begin before the last one has its end.
            self.producers.remove(&log);
        }
        self.released.remove(&log);
        if self.producers.len() >= PRODUCERS_MAX {
            self.producers.clear();
        }
        let producer = match self.options.exactly_once {
            true => self.open_transactional(&self.id_of(log))?,
            false => self.open_producer(&Guarantee::Idempotent)?,
        };
        // The transactions of this log have ended now.
        if self.options.exactly_once {
            self.release_beside(log)?;
        }
        self.refresh_of(log)?;
        self.producers.insert(log, producer);
        Ok(())
    }

    /// Ends the transactions of ended logs for which [`Self::refresh_of`] would wait.
    fn release_beside(&mut self, log: LogId) -> Result<(), SinkError> {
        let read = self.partitions_of(log);
        let is_beside = |other: &LogId| {
            let is_free =
                *other == log || self.producers.contains_key(other) || self.released.contains(other);
            !is_free && read.contains(&partition_of(&self.name, Some(*other)))
        };
        let beside: Vec<_> = self.ended.iter().copied().filter(is_beside).collect();
        for other in beside {
            drop(self.open_transactional(&self.id_of(other))?);
            self.released.insert(other);
        }
        Ok(())
    }

    /// Returns the transactional id of a log.
    fn id_of(&self, log: LogId) -> String {
        format!("tollgate/{}/{log}", self.name)
    }

    /// Returns the partitions with the entries of a log and of the sink.
    fn partitions_of(&self, log: LogId) -> [i32; 2] {
        [Some(log), None].map(|log| partition_of(&self.name, log))
    }

    /// Opens a producer with a transactional id. Before, its last transaction gets the end that the cluster
    /// may have lost: later the cluster has forgotten the result, and the next transaction would end both.
    fn open_transactional(&mut self, id: &str) -> Result<Box<dyn Producer>, SinkError> {
        let may_be_open = self.end_lost(id)?;
        let producer = self.open_producer(&Guarantee::Transactions { id: id.to_owned() })?;
        if may_be_open {
            // The open transaction was aborted now, perhaps by a cluster that restarted.
            self.end_lost(id)?;
        }
        Ok(producer)
    }

    fn open_producer(&self, guarantee: &Guarantee) -> Result<Box<dyn Producer>, SinkError> {
        self.client.open(&self.options.broker, guarantee).map_err(failed("open a producer", None))
    }

    /// Writes the end of the last transaction of an id again, if the cluster lost it. Returns whether the
    /// transaction may still be open.
    fn end_lost(&mut self, id: &str) -> Result<bool, SinkError> {
        let of_rows = self.state.schemas.iter().map(|known| known.topic.clone());
        let known = of_rows.chain([POSITIONS, REJECTS].map(str::to_owned)).collect();
        let options = &self.options;
        let ended = self.topics.end_lost(id, &known, &|topic| options.may_have(topic));
        ended.map_err(failed("end a transaction", None))
    }

    pub(super) fn known_position(&self, log: LogId) -> Option<Position> {
        self.state.logs.get(&log).filter(|state| state.has_position).map(|state| state.counts.position)
    }

    /// Commits a load. `change` changes the bookkeeping of the log.
    pub(super) fn commit_chunk(
        &mut self,
        mut chunk: KafkaChunk,
        change: impl Fn(&mut LogState, &KafkaChunk),
    ) -> Result<StreamTallies, SinkError> {
        let log = chunk.log;
        let mut is_sent = false;
        let state = loop {
            let state = self.state_after(&mut chunk, &change);
            let load = Sending {
                schemas: &chunk.schema_entries,
                rows: chunk.rows.iter().filter(|_| !is_sent).map(|row| &row.record).collect(),
                entries: &chunk.entries,
                last: &state.position_entry(&self.name),
            };
            match self.transact(log, &load)? {
                Sent::Committed => break state,
                Sent::TooLarge(places) => {
                    // Without transactions, the topics have the other rows already.
                    is_sent = !self.options.exactly_once;
                    self.reject_rows(&mut chunk, &places)?;
                }
            }
        };
        chunk.count_rows();
        self.note_rejects(&mut chunk, &state);
        self.state.logs.insert(log, state);
        self.state.schemas.extend(std::mem::take(&mut chunk.schemas));
        Ok(chunk.counts)
    }

    /// Notes the rejects of a committed load for the replies that wait for them. `state` is the bookkeeping
    /// after the load.
    fn note_rejects(&mut self, chunk: &mut KafkaChunk, state: &LogState) {
        let log = chunk.log;
        let before = self.known_position(log).map(|position| position.last).or(chunk.start);
        match before {
            Some(before) if chunk.filled.is_none() => {
                let rejects = std::mem::take(&mut chunk.rejects);
                self.settled.note(log, before, state.counts.position.last, rejects);
            }
            _ => self.settled.forget(log),
        }
    }

    /// Returns the bookkeeping of the log after the load.
    fn state_after(&self, chunk: &mut KafkaChunk, change: &impl Fn(&mut LogState, &KafkaChunk)) -> LogState {
        let log = chunk.log;
        let mut state = self.state.logs.get(&log).cloned().unwrap_or_else(|| LogState::new(log));
        change(&mut state, chunk);
        state.counts.node = chunk.node.clone().or(state.counts.node);
        state.add(&chunk.counts);
        state.add(&chunk.row_counts());
        state.count_refusals(&chunk.refusals);
        if let Some(segment) = chunk.refusals.last_segment().filter(|_| chunk.filled.is_none()) {
            state.forget_refusals_before(segment);
        }
        state
    }

    /// Makes rejects of rows that the broker refused for their size.
    fn reject_rows(&self, chunk: &mut KafkaChunk, places: &[usize]) -> Result<(), SinkError> {
        let refused: BTreeSet<_> = places.iter().copied().collect();
        let kept = self.state.logs.get(&chunk.log).map(|state| state.refusals.clone()).unwrap_or_default();
        let rows = std::mem::take(&mut chunk.rows);
        for (place, row) in rows.into_iter().enumerate() {
            if !refused.contains(&place) {
                chunk.rows.push(row);
                continue;
            }
            let read_kept = |segment| Ok(kept.get(&segment).copied().unwrap_or_default());
            chunk.refusals.count(row.sequence, read_kept)?;
            let item = chunk.object_of(&row).map_err(|reason| self.unfit(&row.stream, reason))?;
            let reason = too_large(row.record.bytes());
            let parts = self.reject_parts(chunk.log, &row, (&reason, item));
            chunk.add_reject(&row.stream, (row.sequence, reason), parts);
        }
        Ok(())
    }

    fn reject_parts(&self, log: LogId, row: &Row, (reason, item): (&str, Vec<u8>)) -> Vec<QueueRecord> {
        let key = row.record.key.as_deref().zip(row.window).map(|(bytes, window)| Key { bytes, window });
        let refused = Refused { by: RefusedBy::Database, reason: reason.into(), item: item.into(), key };
        rejects::parts(&self.name, log, row.sequence, &row.stream, &refused)
    }

    /// Sends records, and commits them. Names the rows that are too large: then nothing is committed, except
    /// the other rows without transactions.
    pub(super) fn transact(&mut self, log: LogId, load: &Sending<'_>) -> Result<Sent, SinkError> {
        let failed = failed("commit a load", Some(log));
        let Some(producer) = self.producers.get_mut(&log) else { return Err(SinkError::Lost { log }) };
        producer.begin().map_err(&failed)?;
        let sent = match self.options.exactly_once {
            true => producer.send(&load.all()),
            false => load.send_in_order(&mut **producer),
        };
        let rows = &load.rows;
        match sent {
            Ok(()) => {}
            Err(QueueError::TooLarge { places }) if places.iter().all(|place| *place < rows.len()) => {
                producer.abort().map_err(&failed)?;
                return Ok(Sent::TooLarge(places));
            }
            // The topic was found before. The next opening of the sink looks for it, or makes it.
            Err(QueueError::UnknownTopic { brokers, topic }) => {
                return Err(failed(QueueError::Away { brokers, reason: format!("topic {topic:?} is gone") }));
            }
            Err(error) => return Err(failed(error)),
        }
        producer.commit().map_err(&failed)?;
        Ok(Sent::Committed)
    }

    /// Notes that the sink exists, and that it begins after these positions.
    pub(super) fn enroll_at(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError> {
        // The producer of this entry has the id of no log.
        let of_sink = LogId::from_bytes([0; 16]);
        self.own(of_sink)?;
        if !self.state.is_enrolled {
            let mut entries = Vec::new();
            for (log, end) in ends.iter().filter(|(log, _)| self.known_position(**log).is_none()) {
                let mut state = LogState::new(*log);
                (state.counts.start, state.counts.position) = (end.last, *end);
                entries.push(state.position_entry(&self.name));
            }
            // Without transactions, the sink must not exist before its positions.
            entries.push(sink_entry(&self.name, &now_text()));
            self.write_entries(of_sink, &entries)?;
        }
        self.producers.remove(&of_sink);
        self.refresh()
    }

    /// Writes entries of a log.
    pub(super) fn write_entries(&mut self, log: LogId, entries: &[QueueRecord]) -> Result<(), SinkError> {
        self.own(log)?;
        let Some((last, entries)) = entries.split_last() else { return Ok(()) };
        self.transact(log, &Sending { schemas: &[], rows: Vec::new(), entries, last }).map(drop)
    }
}

/// Result of a transaction.
pub(super) enum Sent {
    Committed,
    /// Places of the rows that the broker refuses for their size.
    TooLarge(Vec<usize>),
}

/// Returns the reason of a reject that is too large for the broker.
pub(super) fn too_large(bytes: usize) -> String {
    format!("the broker refuses the record for its size: {bytes} bytes")
}

/// Returns the wall clock for people.
pub(super) fn now_text() -> String {
    let text = timestamp_text(now_us()).unwrap_or(*b"9999-12-31T23:59:59.999999Z");
    String::from_utf8_lossy(&text).into_owned()
}

//! The loader of topics into one database.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tollgate_log::{Gap, LogId, Position, Sequence};
use tollgate_queue::{Client, PartitionName, ReadRecord, ReadTo, Reader};

use super::once::OnceEnds;
use super::options::{TopicLoadOptions, number_of, read_failed};
use super::places::{ReadPlace, find_places, read_schemas};
use super::rows::TopicChunk;
use crate::error::SinkError;
use crate::sink::{RowHead, TopicSchemas, TopicSink};

/// Longest wait for records.
const POLL_WAIT: Duration = Duration::from_millis(200);
/// Number of unknown schemas that are remembered.
const UNKNOWN_MAX: usize = 1_000;
/// How often the loader looks for new topics and partitions.
const LOOK_PERIOD: Duration = Duration::from_secs(10);
/// How often a single run looks for topics that an open transaction may hide.
const HIDDEN_LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Counts of a loader of topics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TopicLoadCounts {
    /// Number of rows.
    pub rows: u64,
    /// Number of rejects.
    pub rejects: u64,
    /// Number of records that were not loaded, because another record has their key or their number.
    pub duplicates: u64,
    /// Number of offsets in gaps.
    pub missing: u64,
    /// Number of records in the present gaps of the sink.
    pub in_gaps: u64,
    /// Number of commits.
    pub commits: u64,
}

/// A loader of topics. After an error it is dropped, and another one is opened.
pub struct TopicLoader {
    options: TopicLoadOptions,
    sink: Box<dyn TopicSink>,
    reader: Box<dyn Reader>,
    schemas: TopicSchemas,
    /// Hashes of schemas that are not in Kafka.
    unknown: BTreeSet<String>,
    /// Logs that no sink of the database loads from their segments. Each look forgets them.
    only_here: BTreeSet<LogId>,
    places: BTreeMap<PartitionName, ReadPlace>,
    looked_at: Instant,
    /// What a single run has to read. `None`: the load goes on.
    once: Option<OnceEnds>,
    counts: TopicLoadCounts,
}

impl TopicLoader {
    /// Connects to the database and to the brokers, and finds the topics.
    ///
    /// # Errors
    /// One of them does not answer, or the sink is no database.
    pub fn open(options: &TopicLoadOptions) -> Result<Self, SinkError> {
        let name = options.sink.name.clone();
        let sink = options.sink.open_for_topics()?.ok_or(SinkError::TopicsNeedDatabase { sink: name })?;
        let client = Client::of_sinks().ok_or(SinkError::NoQueue)?;
        let reader = client.reader(&options.broker).map_err(read_failed)?.ok_or(SinkError::NoQueue)?;
        let mut loader = Self {
            options: options.clone(),
            sink,
            reader,
            schemas: TopicSchemas::default(),
            unknown: BTreeSet::new(),
            only_here: BTreeSet::new(),
            places: BTreeMap::new(),
            looked_at: Instant::now(),
            once: options.is_once.then(OnceEnds::default),
            counts: TopicLoadCounts::default(),
        };
        loader.look()?;
        Ok(loader)
    }

    /// Returns the counts since the loader was opened.
    pub fn counts(&self) -> TopicLoadCounts {
        self.counts
    }

    /// Returns the number of offsets that were in the topics when the loader looked for them last, and that
    /// it has not loaded. Some offsets are no records.
    pub fn left(&mut self) -> u64 {
        let Self { places, reader, .. } = self;
        let left = places.iter().map(|(name, place)| {
            let read = reader.next_offset(name).unwrap_or_default();
            place.end.saturating_sub(place.next().max(read))
        });
        left.sum()
    }

    /// Returns a partition with records that a single run has not read yet, and the offset of the next read.
    /// If nothing is left, an open transaction hides these records.
    pub fn unread(&mut self) -> Option<(PartitionName, u64)> {
        let Self { places, reader, once, .. } = self;
        let next = places.iter().map(|(name, place)| {
            let read = reader.next_offset(name).unwrap_or_default();
            (name, place.log, place.next().max(read))
        });
        once.as_ref()?.unread(next)
    }

    /// Loads the next records. Waits a moment if there are none.
    ///
    /// # Errors
    /// The broker or the database fails.
    pub fn step(&mut self) -> Result<(), SinkError> {
        let is_hidden = self.once.as_ref().is_some_and(OnceEnds::are_schemas_hidden);
        if self.looked_at.elapsed() >= if is_hidden { HIDDEN_LOOK_PERIOD } else { LOOK_PERIOD } {
            self.look()?;
        }
        let mut by_place: BTreeMap<PartitionName, Vec<ReadRecord>> = BTreeMap::new();
        for record in self.reader.poll(POLL_WAIT).map_err(read_failed)? {
            let name = PartitionName { topic: record.topic.clone(), partition: record.partition };
            by_place.entry(name).or_default().push(record);
        }
        by_place.iter().try_for_each(|(name, records)| self.load(name, records))
    }

    /// Finds schemas, topics and partitions. Records up to their ends are those that a single run loads.
    fn look(&mut self) -> Result<(), SinkError> {
        self.looked_at = Instant::now();
        self.only_here.clear();
        self.pass_markers()?;
        if let Some(once) = &mut self.once {
            once.look_at_schemas(&mut *self.reader)?;
        }
        self.schemas = read_schemas(&self.options, ReadTo::Stable)?;
        let mut places = find_places(&self.options, &self.schemas, &mut *self.sink, &mut *self.reader)?;
        if let Some(once) = &mut self.once {
            once.find(&places, &mut *self.reader)?;
        }
        for (name, place) in &mut places {
            self.note_gap(name, place)?;
        }
        self.counts.in_gaps = self.sink.gap_records()?.into_values().fold(0, u64::saturating_add);
        // A topic that was made again has other logs.
        let logs = |places: &BTreeMap<PartitionName, ReadPlace>| -> Vec<_> {
            places.iter().map(|(name, place)| (name.clone(), place.log)).collect()
        };
        if logs(&places) != logs(&self.places) {
            let offsets: Vec<_> = places.iter().map(|(name, place)| (name.clone(), place.next())).collect();
            self.reader.start(&offsets).map_err(read_failed)?;
        }
        self.places = places;
        Ok(())
    }

    /// Moves the positions past the markers of transactions that were read. They are no records, so they are
    /// not missing when the topic deletes them. The loader does this at each look, and its user at the end.
    ///
    /// # Errors
    /// The database fails.
    pub fn pass_markers(&mut self) -> Result<(), SinkError> {
        for (name, place) in &mut self.places {
            let read = self.reader.next_offset(name).unwrap_or_default();
            let Some(position) = place.position.filter(|position| position.last.0 < read) else { continue };
            let end = Position { last: Sequence(read), chain: None };
            self.sink.begin(place.log, Some(position))?;
            self.sink.commit(end)?;
            place.position = Some(end);
        }
        Ok(())
    }

    /// Looks for the schemas of records once more. An entry is committed with the first record that needs it,
    /// but an open transaction may hide it for a while.
    fn find_schemas(&mut self, records: &[ReadRecord]) -> Result<(), SinkError> {
        let hashes = records.iter().filter_map(RowHead::schema_of);
        let (schemas, unknown) = (&self.schemas, &self.unknown);
        let new: BTreeSet<_> =
            hashes.filter(|hash| schemas.get(hash).is_none() && !unknown.contains(*hash)).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.schemas = read_schemas(&self.options, ReadTo::End)?;
        if self.unknown.len() > UNKNOWN_MAX {
            self.unknown.clear();
        }
        let unknown = new.into_iter().filter(|hash| self.schemas.get(hash).is_none());
        self.unknown.extend(unknown.map(str::to_owned));
        Ok(())
    }

    /// Checks that no sink of the database loads the logs of these records from their segments too.
    fn check_only_here(&mut self, name: &PartitionName, records: &[ReadRecord]) -> Result<(), SinkError> {
        for log in records.iter().filter_map(RowHead::log_of) {
            if self.only_here.contains(&log) {
                continue;
            }
            if let Some(sink) = self.sink.segment_sink(log)? {
                let topic = name.topic.clone();
                return Err(SinkError::LoadedTwice { sink, log, topic });
            }
            self.only_here.insert(log);
        }
        Ok(())
    }

    /// Notes the records that the topic deleted before they were loaded.
    fn note_gap(&mut self, name: &PartitionName, place: &mut ReadPlace) -> Result<(), SinkError> {
        let next = place.next();
        let Some(position) = place.position.filter(|_| place.first > next) else { return Ok(()) };
        let reason = format!(
            "the topic deleted offsets {next} to {} of {name} before they were loaded",
            place.first - 1
        );
        tracing::error!(sink = self.options.sink.name, reason, "records are missing");
        let (first, last) = (Sequence(next + 1), Sequence(place.first));
        self.sink.begin(place.log, Some(position))?;
        self.sink.gap(&Gap { first, last, reason })?;
        let end = Position { last, chain: None };
        self.sink.commit(end)?;
        place.position = Some(end);
        self.counts.missing += first.count_to(last);
        self.counts.commits += 1;
        Ok(())
    }

    /// Loads records of one partition.
    fn load(&mut self, name: &PartitionName, records: &[ReadRecord]) -> Result<(), SinkError> {
        self.find_schemas(records)?;
        self.check_only_here(name, records)?;
        let (Some(place), Some(last)) = (self.places.get_mut(name), records.last()) else { return Ok(()) };
        self.sink.begin(place.log, place.position)?;
        let mut chunk = TopicChunk::new(name, place, &self.schemas, &self.options.sink.taken);
        chunk.write(&mut *self.sink, records)?;
        let passed = chunk.passed();
        for (origin, last) in &passed {
            self.sink.pass(*origin, *last)?;
        }
        let end = Position { last: number_of(last), chain: None };
        let total = self.sink.commit(end)?.total();
        place.position = Some(end);
        place.origins.extend(passed);
        self.counts.rows += total.rows;
        self.counts.rejects += total.rejects;
        self.counts.duplicates += total.duplicates;
        self.counts.commits += 1;
        Ok(())
    }
}

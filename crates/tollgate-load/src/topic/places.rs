//! The partitions that a loader of topics reads, and where it reads on.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_log::{LogId, Position, Sequence};
use tollgate_queue::{PartitionName, PartitionRange, ReadTo, Reader};

use super::options::{TopicLoadOptions, log_of, read_failed};
use crate::error::SinkError;
use crate::sink::{LoadFrom, TopicSchemas, TopicSink, read_sent};

/// A partition, and how far it is loaded.
#[derive(Debug)]
pub(super) struct ReadPlace {
    pub(super) log: LogId,
    /// The number of the last record that is loaded. `None`: no record is.
    pub(super) position: Option<Position>,
    /// The last record of each log that the partition has records of.
    pub(super) origins: BTreeMap<LogId, Sequence>,
    /// Offset of the first record that the topic has.
    pub(super) first: u64,
    /// Offset after the last record that can be read.
    pub(super) end: u64,
}

impl ReadPlace {
    /// Returns the offset of the next record to load.
    pub(super) fn next(&self) -> u64 {
        self.position.map_or(self.first, |position| position.last.0)
    }
}

/// Reads the schemas of all rows.
pub(super) fn read_schemas(options: &TopicLoadOptions, to: ReadTo<'_>) -> Result<TopicSchemas, SinkError> {
    let mut schemas = TopicSchemas::default();
    read_sent(&options.broker, to)?.into_values().for_each(|sent| schemas.extend(sent.schemas));
    Ok(schemas)
}

/// Finds the topics with rows that the sink takes.
pub(super) fn find_places(
    options: &TopicLoadOptions,
    schemas: &TopicSchemas,
    sink: &mut dyn TopicSink,
    reader: &mut dyn Reader,
) -> Result<BTreeMap<PartitionName, ReadPlace>, SinkError> {
    let taken = schemas.iter().filter(|known| options.sink.taken.takes(known.schema.stream()));
    let topics: BTreeSet<_> = taken.map(|known| known.topic.clone()).collect();
    let mut found = BTreeMap::new();
    for topic in topics {
        let Some(described) = reader.partitions(&topic).map_err(read_failed)? else { continue };
        for range in described.partitions {
            let name = PartitionName { topic: topic.clone(), partition: range.partition };
            found.insert(name, (log_of(described.id, range.partition), range));
        }
    }
    enroll(options, sink, &found)?;
    let place = |(name, (log, range)): (PartitionName, (LogId, PartitionRange))| {
        let (position, origins) = (sink.position(log)?, sink.origins(log)?);
        let place = ReadPlace { log, position, origins, first: range.first, end: range.end };
        if place.next() > range.end {
            let (place, next) = (name.to_string(), place.next());
            return Err(SinkError::TopicCut { place, end: range.end, next });
        }
        Ok((name, place))
    };
    found.into_iter().map(place).collect()
}

/// Notes where a new sink begins.
fn enroll(
    options: &TopicLoadOptions,
    sink: &mut dyn TopicSink,
    found: &BTreeMap<PartitionName, (LogId, PartitionRange)>,
) -> Result<(), SinkError> {
    if sink.is_enrolled()? {
        return Ok(());
    }
    let ends = match options.sink.from {
        LoadFrom::Oldest => BTreeMap::new(),
        LoadFrom::Now => found
            .values()
            .map(|(log, range)| (*log, Position { last: Sequence(range.end), chain: None }))
            .collect(),
    };
    sink.enroll(&ends)
}

//! The records of a single run: all that were written before its start.
//!
//! An open transaction hides all later records of its partition. In the topic of the positions, it hides
//! schemas, so that the loader does not know a topic yet. A single run ends only when nothing is hidden.

use std::collections::BTreeMap;

use tollgate_log::LogId;
use tollgate_queue::{PartitionName, Reader, TopicPartitions};

use super::options::read_failed;
use super::places::ReadPlace;
use crate::error::SinkError;
use crate::sink::POSITIONS_TOPIC;

/// What a single run has to read.
#[derive(Debug, Default)]
pub(super) struct OnceEnds {
    /// End of each partition when it was found. Records of open transactions count.
    written: BTreeMap<LogId, u64>,
    /// End of each partition of the positions at the start. `None`: nothing was written yet.
    positions: Option<BTreeMap<i32, u64>>,
    /// Partition of the positions that an open transaction hides, and the offset of its first record.
    hidden: Option<(PartitionName, u64)>,
}

impl OnceEnds {
    /// Looks whether an open transaction hides schemas. The schemas are read afterwards.
    pub(super) fn look_at_schemas(&mut self, reader: &mut dyn Reader) -> Result<(), SinkError> {
        let describe = |reader: &mut dyn Reader| reader.partitions(POSITIONS_TOPIC).map_err(read_failed);
        if self.positions.is_none()
            && let Some(described) = describe(reader)?
        {
            let ends = reader.written_ends(POSITIONS_TOPIC, &numbers_of(&described));
            self.positions = Some(ends.map_err(read_failed)?);
        }
        let Some(written) = &self.positions else { return Ok(()) };
        let readable = describe(reader)?.map(|described| described.partitions).unwrap_or_default();
        let is_hidden =
            |partition: i32, end: u64| written.get(&partition).is_some_and(|written| end < *written);
        let hidden = readable.iter().find(|range| is_hidden(range.partition, range.end));
        self.hidden = hidden.map(|range| {
            (PartitionName { topic: POSITIONS_TOPIC.to_owned(), partition: range.partition }, range.end)
        });
        Ok(())
    }

    /// Returns whether an open transaction hides schemas.
    pub(super) fn are_schemas_hidden(&self) -> bool {
        self.hidden.is_some()
    }

    /// Notes the ends of new partitions.
    pub(super) fn find(
        &mut self,
        places: &BTreeMap<PartitionName, ReadPlace>,
        reader: &mut dyn Reader,
    ) -> Result<(), SinkError> {
        let mut new: BTreeMap<&str, BTreeMap<i32, LogId>> = BTreeMap::new();
        for (name, place) in places.iter().filter(|(_, place)| !self.written.contains_key(&place.log)) {
            new.entry(&name.topic).or_default().insert(name.partition, place.log);
        }
        for (topic, logs) in new {
            let numbers: Vec<_> = logs.keys().copied().collect();
            let ends = reader.written_ends(topic, &numbers).map_err(read_failed)?;
            self.written.extend(ends.iter().filter_map(|(number, end)| Some((*logs.get(number)?, *end))));
        }
        Ok(())
    }

    /// Returns a partition with unread records, and the offset of the next read. `next` is the offset in each
    /// partition.
    pub(super) fn unread<'a>(
        &self,
        next: impl Iterator<Item = (&'a PartitionName, LogId, u64)>,
    ) -> Option<(PartitionName, u64)> {
        let mut unread = next.filter(|(_, log, next)| self.written.get(log).is_some_and(|end| next < end));
        unread.next().map(|(name, _, next)| (name.clone(), next)).or_else(|| self.hidden.clone())
    }
}

fn numbers_of(described: &TopicPartitions) -> Vec<i32> {
    described.partitions.iter().map(|range| range.partition).collect()
}

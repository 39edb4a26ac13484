//! The bookkeeping of Kafka sinks: entries of a compacted topic, as JSON.
//!
//! | key | value |
//! | --- | --- |
//! | `sink/SINK` | since when the sink exists |
//! | `position/SINK/LOG` | the position, and the counters of each stream |
//! | `gap/SINK/LOG/FIRST` | the last record of the gap, and its reason |
//! | `schema/SINK/HASH/TOPIC` | the columns of the rows with this hash, and their topic |
//!
//! All entries of a log are in one partition, in the order of the transactions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use tollgate_log::{Gap, LogId, Position, Sequence};
use tollgate_queue::QueueRecord;

use super::entry::entry;
use super::schemas::TopicSchemas;
use crate::sink::accounts::{LogCounts, StreamCounts};
use crate::sink::refusals::Refusals;
use crate::sink::tally::StreamTallies;

/// The bookkeeping of one sink, as the topic has it.
#[derive(Debug, Default, Clone)]
pub(super) struct State {
    pub(super) is_enrolled: bool,
    pub(super) logs: BTreeMap<LogId, LogState>,
    pub(super) schemas: TopicSchemas,
}

/// The bookkeeping of one log.
#[derive(Debug, Clone)]
pub(super) struct LogState {
    pub(super) counts: LogCounts,
    /// Number of refused rows by the first record of their segment. Segments before the one of the position
    /// are left out, so that the entry of the position stays small.
    pub(super) refusals: BTreeMap<Sequence, u64>,
    /// Whether the sink has a position. A log may have gaps first.
    pub(super) has_position: bool,
}

impl LogState {
    pub(super) fn new(log: LogId) -> Self {
        let start = Sequence(0);
        let position = Position { last: start, chain: None };
        let (streams, gaps) = (BTreeMap::new(), Vec::new());
        Self {
            counts: LogCounts { log, start, position, node: None, streams, gaps },
            refusals: BTreeMap::new(),
            has_position: false,
        }
    }

    /// Adds the counts of a load.
    pub(super) fn add(&mut self, tallies: &StreamTallies) {
        for (stream, tally) in tallies.iter() {
            let count = self.counts.streams.entry(stream.clone()).or_default();
            count.loaded += tally.rows;
            count.rejected += tally.rejects;
            count.duplicates += tally.duplicates;
            count.skipped += tally.skipped;
        }
    }

    /// Adds the refused rows of a load.
    pub(super) fn count_refusals(&mut self, refusals: &Refusals) {
        for (segment, count) in refusals.new_ones() {
            *self.refusals.entry(segment).or_default() += count;
        }
    }

    /// Forgets the refused rows of the segments before the one of the position.
    pub(super) fn forget_refusals_before(&mut self, segment: Sequence) {
        self.refusals = self.refusals.split_off(&segment);
    }

    /// Returns the entry of the position.
    pub(super) fn position_entry(&self, sink: &str) -> QueueRecord {
        let counts = &self.counts;
        let streams: serde_json::Map<_, _> = counts
            .streams
            .iter()
            .map(|(name, count)| {
                let count = [count.loaded, count.rejected, count.duplicates, count.skipped];
                (name.clone(), Json::from(count.to_vec()))
            })
            .collect();
        let refusals: serde_json::Map<_, _> = self
            .refusals
            .iter()
            .map(|(segment, count)| (segment.0.to_string(), Json::from(*count)))
            .collect();
        let value = json!({
            "start": counts.start.0,
            "last": counts.position.last.0,
            "chain": counts.position.chain,
            "node": counts.node,
            "streams": streams,
            "refused": refusals,
        });
        entry(sink, Some(counts.log), &format!("position/{sink}/{}", counts.log), Some(&value))
    }

    fn read_position(&mut self, value: &Json) -> Option<()> {
        let counts = &mut self.counts;
        counts.start = Sequence(value["start"].as_u64()?);
        let chain = value["chain"].as_u64().and_then(|chain| u32::try_from(chain).ok());
        counts.position = Position { last: Sequence(value["last"].as_u64()?), chain };
        counts.node = value["node"].as_str().map(str::to_owned);
        for (name, count) in value["streams"].as_object()? {
            let count = |place: usize| count[place].as_u64().unwrap_or_default();
            let [loaded, rejected, duplicates, skipped] = [0, 1, 2, 3].map(count);
            let count = StreamCounts { loaded, rejected, duplicates, skipped };
            counts.streams.insert(name.clone(), count);
        }
        for (segment, count) in value["refused"].as_object()? {
            self.refusals.insert(Sequence(segment.parse().ok()?), count.as_u64()?);
        }
        self.has_position = true;
        Some(())
    }
}

impl State {
    /// Reads the entries of a sink.
    ///
    /// # Errors
    /// The key of an entry that no version of this program writes.
    pub(super) fn read(sink: &str, table: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Self, String> {
        let mut state = Self::default();
        for (key, value) in table {
            let key = String::from_utf8_lossy(key);
            let mut parts = key.split('/');
            let (kind, owner) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            if owner == sink {
                let value = serde_json::from_slice(value).unwrap_or_default();
                state.take(kind, &parts.collect::<Vec<_>>(), &value).ok_or_else(|| key.into_owned())?;
            }
        }
        for log in state.logs.values_mut() {
            log.counts.gaps.sort_by_key(|gap| gap.first);
        }
        Ok(state)
    }

    /// Returns the names of the sinks that have entries.
    pub(super) fn sinks(table: &BTreeMap<Vec<u8>, Vec<u8>>) -> BTreeSet<String> {
        let owner = |key: &Vec<u8>| String::from_utf8_lossy(key).split('/').nth(1).map(str::to_owned);
        table.keys().filter_map(owner).collect()
    }

    fn take(&mut self, kind: &str, place: &[&str], value: &Json) -> Option<()> {
        match kind {
            "sink" => {
                self.is_enrolled = true;
                return Some(());
            }
            "schema" => return self.schemas.take(place.first()?, value),
            _ => {}
        }
        let log: LogId = place.first()?.parse().ok()?;
        let state = self.logs.entry(log).or_insert_with(|| LogState::new(log));
        match kind {
            "position" => state.read_position(value),
            "gap" => {
                let first = Sequence(place.get(1)?.parse().ok()?);
                let (last, reason) = (Sequence(value["last"].as_u64()?), value["reason"].as_str()?);
                state.counts.gaps.push(Gap { first, last, reason: reason.to_owned() });
                Some(())
            }
            _ => None,
        }
    }
}

/// Returns the entry that says that a sink exists.
pub(super) fn sink_entry(sink: &str, since: &str) -> QueueRecord {
    entry(sink, None, &format!("sink/{sink}"), Some(&json!({ "since": since })))
}

/// Returns the entry of a gap, or the one that removes it.
pub(super) fn gap_entry(sink: &str, log: LogId, gap: &Gap, is_kept: bool) -> QueueRecord {
    let value = json!({ "last": gap.last.0, "reason": gap.reason });
    let key = format!("gap/{sink}/{log}/{:020}", gap.first.0);
    entry(sink, Some(log), &key, is_kept.then_some(&value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::tally::Tally;

    fn table(entries: impl IntoIterator<Item = QueueRecord>) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut table = BTreeMap::new();
        for entry in entries {
            let key = entry.key.unwrap().to_vec();
            match entry.value {
                Some(value) => drop(table.insert(key, value.to_vec())),
                None => drop(table.remove(&key)),
            }
        }
        table
    }

    #[test]
    fn bookkeeping_is_read_as_it_was_written() {
        let log = LogId::random();
        let mut state = LogState::new(log);
        state.counts.start = Sequence(3);
        state.counts.position = Position { last: Sequence(90), chain: Some(7) };
        state.counts.node = Some("web-1".to_owned());
        state.refusals.insert(Sequence(1), 4);
        let mut tallies = StreamTallies::default();
        tallies.add("visits", Tally { rows: 80, rejects: 4, duplicates: 2, skipped: 1, missing: 0 });
        state.add(&tallies);
        let gap = Gap { first: Sequence(20), last: Sequence(22), reason: "damaged".to_owned() };
        let entries =
            [sink_entry("bus", "now"), state.position_entry("bus"), gap_entry("bus", log, &gap, true)];
        let read = State::read("bus", &table(entries.clone())).unwrap();
        assert!(read.is_enrolled);
        let found = &read.logs[&log];
        assert_eq!(found.counts.position, state.counts.position);
        assert_eq!(found.counts.start, Sequence(3));
        assert_eq!(found.counts.node.as_deref(), Some("web-1"));
        assert_eq!(found.refusals, state.refusals);
        assert_eq!(found.counts.gaps, std::slice::from_ref(&gap));
        let count = found.counts.streams["visits"];
        assert_eq!((count.loaded, count.rejected, count.duplicates, count.skipped), (80, 4, 2, 1));
        let other = State::read("bu", &table(entries.clone())).unwrap();
        assert!(!other.is_enrolled && other.logs.is_empty());
        let filled = entries.into_iter().chain([gap_entry("bus", log, &gap, false)]);
        assert!(State::read("bus", &table(filled)).unwrap().logs[&log].counts.gaps.is_empty());
    }

    #[test]
    fn the_entry_of_a_position_does_not_grow_with_the_segments_that_had_refused_rows() {
        let log = LogId::random();
        let mut state = LogState::new(log);
        let mut longest = 0;
        for number in 0..1000 {
            let segment = Sequence(1_000_000 + 10 * number);
            let mut refusals = Refusals::new(log, 10);
            refusals.enter(segment);
            refusals.count(segment.after(3), |_| Ok(0)).unwrap();
            refusals.enter(segment.after(5));
            refusals.count(segment.after(5), |_| Ok(0)).unwrap();
            state.count_refusals(&refusals);
            state.forget_refusals_before(refusals.last_segment().unwrap());
            assert_eq!(state.refusals, BTreeMap::from([(segment.after(5), 1)]));
            longest = longest.max(state.position_entry("bus").bytes());
        }
        assert!(longest < 300, "{longest} bytes");
    }

    #[test]
    fn entry_of_a_later_version_is_named() {
        let log = LogId::random();
        let key = format!("window/bus/{log}");
        let table = BTreeMap::from([(key.clone().into_bytes(), b"{}".to_vec())]);
        assert_eq!(State::read("bus", &table).unwrap_err(), key);
        assert!(State::read("other", &table).is_ok());
    }
}
